"""`kafkalog retain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import paths_argument, storage_option, topics_options
from native_log.sizes import format_count
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@click.command(short_help="Delete old segments.")
@paths_argument
@storage_option
@topics_options("all topics except internal and compacted ones")
@changes.settings_options
@changes.confirmation_options
def retain(
    paths: tuple[str, ...],
    storage_options: dict[str, str],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    conf: Any,
    conf_file: Any,
    now_ms: int | None,
    **confirmation: bool,
) -> None:
    """Delete old segments by log start offset, size and time, as a broker does.

    The command first shows which segments it would delete and asks for confirmation. Settings: retention.ms,
    retention.bytes, cleanup.policy, file.delete.delay.ms. Files are renamed to .deleted. A run that comes
    file.delete.delay.ms later removes them.

    Missing settings are taken from the cluster's metadata in PATH (__cluster_metadata-0), topic by topic. A
    setting with a broker's name, such as log.retention.hours, does not override what is stored there. A
    setting that is neither given nor stored deletes nothing. Compacted topics keep their segments, unless
    --topic names them and --conf sets cleanup.policy=delete (a file cannot).
    """
    from native_log.outcomes import is_outcome
    from native_log.retention import retain as run

    config = changes.load_settings(conf, conf_file)
    now = current_ms() if now_ms is None else now_ms

    def job(dry_run: bool, report: Callable[[int, int], None]) -> pa.Table:
        return run(
            paths,
            topics or None,
            config,
            now,
            dry_run,
            exclude_topics=exclude_topics,
            on_progress=report,
            storage_options=storage_options,
        )

    changes.carry_out(
        job,
        "inspecting partitions",
        _show,
        lambda row: is_outcome(row["decision"], "deleted"),
        **confirmation,
    )


def _show(table: pa.Table, dry_run: bool) -> None:
    from native_log.outcomes import is_outcome
    from native_log.retention.plan import list_kept_topics

    rows = table.to_pylist()
    changes.print_table(
        ("PARTITION", "FROM", "TO", "SIZE", "LAST TIME", ""),
        [
            (
                changes.partition_name(row),
                row["baseOffset"],
                row["endOffset"],
                changes.size_cell(row["sizeInBytes"]),
                changes.time_cell(row["largestTimestampMs"]),
                row["decision"],
            )
            for row in rows
        ],
        [": ".join(filter(None, (row["rule"], row["reason"]))) for row in rows],
    )
    deleted = [row for row in rows if is_outcome(row["decision"], "deleted")]
    partitions = len({(row["topic"], row["partition"]) for row in deleted})
    click.echo(
        f"{format_count(len(deleted), 'segment')} of {format_count(partitions, 'partition')} "
        f"{'would be deleted' if dry_run else 'deleted'}, "
        f"{changes.size_cell(sum(row['sizeInBytes'] for row in deleted))}"
    )
    kept = list_kept_topics(table)
    if kept:
        click.echo(f"kept: {kept}")
    changes.print_settings(rows)
