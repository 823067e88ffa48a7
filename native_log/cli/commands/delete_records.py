"""`kafkalog delete-records`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import MAX_LONG, paths_argument, storage_option

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class PartitionOffset(click.ParamType):
    name = "TOPIC:PARTITION:OFFSET"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        try:
            topic, partition, offset = str(value).rsplit(":", 2)
            parsed = topic, int(partition), int(offset)
        except ValueError:
            parsed = "", 0, -2
        if not -1 <= parsed[2] <= MAX_LONG:
            self.fail(f"expected TOPIC:PARTITION:OFFSET, found {value!r}", param, ctx)
        return parsed


@click.command("delete-records", short_help="Delete the records below an offset.")
@paths_argument
@storage_option
@click.option(
    "--offset",
    "offsets",
    type=PartitionOffset(),
    multiple=True,
    required=True,
    help="The new log start offset; -1: the high watermark (may be repeated).",
)
@changes.confirmation_options
def delete_records(
    paths: tuple[str, ...], storage_options: dict[str, str], offsets: Any, **confirmation: bool
) -> None:
    """Delete the records below an offset: the log start offset moves there.

    The next `kafkalog retain` deletes segments that are completely below it.
    """
    from native_log.retention import delete_records as run

    new_starts = {(topic, partition): offset for topic, partition, offset in offsets}
    if len(new_starts) < len(offsets):
        raise click.UsageError("expected one --offset for each partition, found several")

    def job(dry_run: bool, _: Callable[[int, int], None]) -> pa.Table:
        return run(paths, new_starts, dry_run, storage_options=storage_options)

    changes.carry_out(
        job,
        "inspecting partitions",
        _show,
        lambda row: row["logStartOffset"] > row["logStartOffsetBefore"],
        **confirmation,
    )


def _show(table: pa.Table, _: bool) -> None:
    changes.print_table(
        ("PARTITION", "", "START", "NEW START", "HW"),
        [
            (
                changes.partition_name(row),
                row["status"],
                row["logStartOffsetBefore"],
                row["logStartOffset"],
                row["highWatermark"],
            )
            for row in table.to_pylist()
        ],
    )
