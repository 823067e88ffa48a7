"""`kafkalog restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import OFFSET, tiered_log_dir_options, topics_options
from native_log.cli.record_options import check_range
from native_log.cli.times import TimeType
from native_log.sizes import format_count
from native_log.times import EPOCH, MILLISECOND

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from native_log.logdir.remote_storage import RemoteArguments


@click.command(short_help="Copy logs from anywhere into a directory for a broker.")
@tiered_log_dir_options
@topics_options("all topics except internal ones")
@click.option(
    "--replicas",
    type=click.Choice(["longest", "merge"], case_sensitive=False),
    default="longest",
    show_default=True,
    help="What is restored of a partition that several SRC contain: see `kafkalog cat`.",
)
@click.option("--offset", type=OFFSET, help="Restore from this offset on.")
@click.option("--end-offset", type=OFFSET, help="Restore up to this offset (exclusive).")
@click.option("--from", "from_ms", type=TimeType(), help="Restore from the first record with this time on.")
@click.option("--until", "until_ms", type=TimeType(), help="Restore up to the first record with this time.")
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be restored.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each partition.")
def restore(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    remote: RemoteArguments,
    offset: int | None,
    end_offset: int | None,
    from_ms: int | None,
    until_ms: int | None,
    dry_run: bool,
    as_json: bool,
    **log_dir: Any,
) -> None:
    """Copy logs into the log directory DEST, the last PATH, which a broker loads.

    The other PATHs are whatever can be read: directories, URLs, replicas, with --remote also remote storage;
    without another PATH, remote storage alone. Batches are copied unchanged, with their offsets. DEST is a
    new directory, or that of a stopped broker. There, empty partitions that the broker has created are
    filled; if one has records, nothing is changed.

    After an interruption, the same command continues.
    """
    *sources, dest = paths or ("",)
    if not dest or not (sources or remote):
        raise click.UsageError("expected SRC and DEST, or --remote and DEST")
    if (offset is not None and from_ms is not None) or (end_offset is not None and until_ms is not None):
        raise click.UsageError("expected an offset or a time as a limit, found both")
    check_range(offset, end_offset, from_ms, until_ms)
    from native_log.cli.progress import report_progress
    from native_log.restoring import restore as run

    try:
        with report_progress("restoring") as report:
            table = run(
                sources or None,
                dest,
                topics or None,
                offset if from_ms is None else _time(from_ms),
                end_offset if until_ms is None else _time(until_ms),
                exclude_topics=exclude_topics,
                dry_run=dry_run,
                on_progress=report,
                **log_dir,
                **remote,
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        changes.print_json(table)
    else:
        _show(table, dry_run)


def _time(epoch_ms: int) -> datetime:
    try:
        return EPOCH + epoch_ms * MILLISECOND
    except OverflowError:
        raise click.UsageError(f"expected a time from year 1 to 9999, found {epoch_ms} in epoch ms") from None


def _show(table: pa.Table, dry_run: bool) -> None:
    rows = changes.rows_of(table)
    changes.print_table(
        ("PARTITION", "", "START", "END", "SIZE"),
        [
            (
                changes.partition_name(row),
                row["status"],
                row["logStartOffset"],
                row["logEndOffset"],
                changes.size_cell(row["sizeInBytes"]),
            )
            for row in rows
        ],
    )
    size = changes.size_cell(sum(row["sizeInBytes"] for row in rows))
    done = "would be restored" if dry_run else "restored"
    click.echo(f"{format_count(len(rows), 'partition')}, {size} {done}")
