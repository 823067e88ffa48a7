"""What the commands that change logs have in common: settings, and tables of what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.runner import DATA_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


class Setting(click.ParamType[tuple[str, str]]):
    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"NAME=VALUE was expected, found {value!r}", param, ctx)
        return name.strip(), text.strip()


class PartitionOffset(click.ParamType[tuple[str, int, int]]):
    name = "TOPIC:PARTITION:OFFSET"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        try:
            topic, partition, offset = str(value).rsplit(":", 2)
            return topic, int(partition), int(offset)
        except ValueError:
            self.fail(f"TOPIC:PARTITION:OFFSET was expected, found {value!r}", param, ctx)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """PATH..., --topic, --conf, --conf-file, --now-ms, --dry-run, --json."""
    for option in reversed(
        (
            click.argument("paths", metavar="PATH...", nargs=-1, required=True),
            click.option(
                "--topic",
                "-t",
                "topics",
                metavar="TOPIC",
                multiple=True,
                help="Only this topic (may be repeated); else all but Kafka's internal ones.",
            ),
            click.option(
                "--conf",
                "-c",
                type=Setting(),
                multiple=True,
                help="A setting by its topic's or broker's name (may be repeated); overrules --conf-file.",
            ),
            click.option(
                "--conf-file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Settings, a NAME=VALUE a line.",
            ),
            click.option(
                "--now-ms", type=int, metavar="MS", help="The time to measure ages from, epoch ms; else now."
            ),
            dry_run_option,
            json_option,
        )
    ):
        command = option(command)
    return command


dry_run_option = click.option(
    "--dry-run", "-n", is_flag=True, help="Change nothing, only tell what would be done, and why."
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON Lines, sizes in bytes, times in ms.")


def settings(conf: Sequence[tuple[str, str]], conf_file: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = [] if conf_file is None else conf_file.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and text[0] not in "#!":
            name, equals, value = text.partition("=")
            if not equals:
                raise click.UsageError(f"{conf_file}, line {number}: NAME=VALUE was expected, found {text!r}")
            found[name.strip()] = value.strip()
    return {**found, **dict(conf)}


def show(table: pa.Table, as_json: bool, columns: Sequence[str] | None = None) -> None:
    """Prints the rows; ends with exit code 1 if one of them says "failed"."""
    rows = table.to_pylist()
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif rows:
        names = list(columns or table.column_names)
        cells = [names, *(["" if row[name] is None else _text(row[name]) for name in names] for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
        for row in cells:
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if any("failed" in (row.get("status"), row.get("decision")) for row in rows):
        raise SystemExit(DATA_ERROR)


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


@click.command()
@options
def retain(
    paths: tuple[str, ...], topics: tuple[str, ...], conf: Any, conf_file: Any, as_json: bool, **how: Any
) -> None:
    """Delete old segments, by log start offset, size and time, as a broker does.

    Settings: retention.ms, retention.bytes, cleanup.policy, file.delete.delay.ms. Files are renamed to
    .deleted first, a later run removes them.
    """
    from native_log.cli.progress import progress
    from native_log.config import InvalidConfigError
    from native_log.retention import RETENTION_SCHEMA
    from native_log.retention import retain as run

    with progress("looking at partitions", 100) as advance:
        shown = 0

        def on_progress(done: int, total: int) -> None:
            nonlocal shown
            steps = done * 100 // total - shown
            shown += steps
            advance(steps)

        try:
            table = run(paths, topics or None, settings(conf, conf_file), on_progress=on_progress, **how)
        except InvalidConfigError as error:
            raise click.UsageError(str(error)) from None
    show(table, as_json, RETENTION_SCHEMA.names)


@click.command()
@options
def compact(
    paths: tuple[str, ...], topics: tuple[str, ...], conf: Any, conf_file: Any, as_json: bool, **how: Any
) -> None:
    """Leave the newest record of each key, as a broker's cleaner does.

    Settings: min.cleanable.dirty.ratio, min.compaction.lag.ms, max.compaction.lag.ms, delete.retention.ms,
    segment.bytes, log.cleaner.dedupe.buffer.size.
    """
    from native_log.cleaner import compact as run

    try:
        table = run(paths, topics or None, settings(conf, conf_file), **how)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    columns = ("topic", "partition", "status", "dirtyRatio", "segmentsBefore", "segmentsAfter", "bytesBefore",
               "bytesAfter", "recordsBefore", "recordsAfter", "reason")  # fmt: skip
    show(table, as_json, columns)


@click.command("delete-records")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--offset",
    "offsets",
    type=PartitionOffset(),
    multiple=True,
    required=True,
    help="The first offset that stays; -1: the high watermark (may be repeated).",
)
@dry_run_option
@json_option
def delete_records(paths: tuple[str, ...], offsets: Any, dry_run: bool, as_json: bool) -> None:
    """Delete the records below an offset: the log start moves there.

    Segments that lie wholly below go with the next `kafkalog retain`.
    """
    from native_log.retention import delete_records as run

    wanted = {(topic, partition): offset for topic, partition, offset in offsets}
    show(run(paths, wanted, dry_run), as_json)


COMMANDS = (retain, compact, delete_records)
