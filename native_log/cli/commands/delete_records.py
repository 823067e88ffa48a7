"""`kafkalog delete-records`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import MAX_LONG, paths_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class PartitionOffset(click.ParamType[tuple[str, int, int]]):
    name = "TOPIC:PARTITION:OFFSET"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        try:
            topic, partition, offset = str(value).rsplit(":", 2)
            found = topic, int(partition), int(offset)
        except ValueError:
            found = "", 0, -2
        if not -1 <= found[2] <= MAX_LONG:
            self.fail(f"expected TOPIC:PARTITION:OFFSET, found {value!r}", param, ctx)
        return found


@click.command("delete-records", short_help="Delete what lies below an offset.")
@paths_argument
@click.option(
    "--offset",
    "offsets",
    type=PartitionOffset(),
    multiple=True,
    required=True,
    help="The first offset that stays; -1: the high watermark (may be repeated).",
)
@changes.consent_options
def delete_records(paths: tuple[str, ...], offsets: Any, **consent: bool) -> None:
    """Delete the records below an offset: the log start moves there.

    Segments that lie wholly below go with the next `kafkalog retain`.
    """
    from native_log.retention import delete_records as run

    wanted = {(topic, partition): offset for topic, partition, offset in offsets}
    if len(wanted) < len(offsets):
        raise click.UsageError("one --offset a partition was expected, found several")

    def job(dry_run: bool, _: Callable[[int, int], None]) -> pa.Table:
        return run(paths, wanted, dry_run)

    changes.carry_out(
        job,
        "looking at partitions",
        _show_deleted,
        lambda row: row["logStartOffset"] > row["logStartOffsetBefore"],
        **consent,
    )


def _show_deleted(table: pa.Table, dry_run: bool) -> None:
    changes.print_table(
        ("PARTITION", "START", "NEW START" if dry_run else "STARTS NOW", "HW"),
        [
            (
                changes.partition_name(row),
                row["logStartOffsetBefore"],
                row["logStartOffset"],
                row["highWatermark"],
            )
            for row in table.to_pylist()
        ],
    )
