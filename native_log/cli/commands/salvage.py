"""`kafkalog salvage`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.completion import complete_directory
from native_log.cli.options import Long, topics_options
from native_log.cli.runner import DATA_ERROR
from native_log.sizes import format_count

if TYPE_CHECKING:
    import pyarrow as pa

_NODE_ID = Long(0)
_STATUS = {"copied": ("would be copied", "copied"), "lost": ("would be lost", "lost")}


@click.command(short_help="Copy everything readable from damaged logs.")
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, shell_complete=complete_directory)
@click.argument("dest", shell_complete=complete_directory)
@topics_options("all topics")
@click.option("--include-deleted", is_flag=True, help="Also copy -delete and -stray directories.")
@click.option("--cluster-id", help="The cluster id of DEST. Default: that of SRC, or a new one.")
@click.option("--node-id", type=_NODE_ID, help="The node id of DEST. Default: that of SRC, or 1.")
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be copied and lost.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each row.")
def salvage(
    sources: tuple[str, ...], dest: str, topics: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Copy everything readable from damaged logs into the new log directory DEST, which a broker loads.

    Whole valid batches are copied unchanged, with their offsets. Each range that is lost is shown with its
    bytes, its offsets and the reason. SRC is only read, even while a broker runs on it. DEST must not exist,
    or be empty.

    The exit code is 1 if anything is lost. Offsets that no batch has count as lost if the topic is not
    compacted; if its policy is unknown, the last line counts the partitions with such gaps.
    """
    from native_log.cli.progress import report_progress
    from native_log.salvaging import salvage as run

    try:
        with report_progress("salvaging") as report:
            table = run(sources, dest, topics or None, dry_run=dry_run, on_progress=report, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        changes.print_json(table)
    else:
        _show(table, dry_run)
    if "lost" in table.column("status").to_pylist():
        raise SystemExit(DATA_ERROR)


def _show(table: pa.Table, dry_run: bool) -> None:
    rows = changes.rows_of(table)
    changes.print_table(
        ("PARTITION", "", "FIRST", "LAST", "SIZE"),
        [
            (
                "" if row["topic"] is None else changes.partition_name(row),
                _STATUS.get(row["status"], (row["status"],) * 2)[not dry_run],
                row["firstOffset"],
                row["lastOffset"],
                changes.size_cell(row["sizeInBytes"]),
            )
            for row in rows
        ],
        [_details(row) for row in rows],
    )
    count = Counter(row["status"] for row in rows)
    size = changes.size_cell(sum(row["sizeInBytes"] for row in rows if row["status"] == "copied"))
    gaps = f"; {format_count(count['gap'], 'partition')} with gaps of unknown cause" if count["gap"] else ""
    click.echo(
        f"{format_count(count['copied'], 'partition')}, {size} {_STATUS['copied'][not dry_run]}; "
        f"{format_count(count['lost'], 'range')} {_STATUS['lost'][not dry_run]}{gaps}"
    )


def _details(row: dict[str, Any]) -> str | None:
    if row["status"] == "copied":
        return None
    producer = "" if row["producerId"] is None else f"producer {row['producerId']}: "
    position = "" if row["position"] is None else f", position {row['position']}"
    return f"{producer}{row['reason']} ({row['path']}{position})"
