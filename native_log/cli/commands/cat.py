"""`kafkalog cat`."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from native_log.cli.completion import complete_partitions
from native_log.cli.options import (
    COUNT,
    OFFSET,
    header_conditions,
    key_bytes,
    key_encoding_option,
    log_dir_options,
    topics_options,
)
from native_log.cli.times import TimeType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.arguments import IsolationLevel, Mode
    from native_log.cli.rendering import Rendering

_FORMS = ("text", "json", "arrow")


class PartitionRanges(click.ParamType[tuple[range, ...]]):
    """Numbers and ranges with commas between: 0-3,7."""

    name = "partitions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[range, ...]:
        if isinstance(value, tuple):
            return value
        ranges = []
        for text in str(value).split(","):
            match = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", text)
            if match is None or int(match[1]) > int(match[2] or match[1]):
                self.fail(f"expected partitions such as 0-3,7, found {value!r}", param, ctx)
            ranges.append(range(int(match[1]), int(match[2] or match[1]) + 1))
        return tuple(ranges)


class Form(click.ParamType[str]):
    """text, json, arrow or a format string."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).lower() in _FORMS:
            return str(value).lower()
        if "%" not in str(value):
            expected = "text, json, arrow or a string with fields such as %o"
            self.fail(f"expected {expected}, found {value!r}", param, ctx)
        return str(value)


@click.command(short_help="Print records as text, JSON or Arrow.")
@log_dir_options
@topics_options("all but Kafka's internal ones")
@click.option(
    "--partition",
    "-p",
    "partitions",
    metavar="N[-M],...",
    multiple=True,
    type=PartitionRanges(),
    shell_complete=complete_partitions,
    help="Only these partitions, such as 0-3,7 (may be repeated).",
)
@click.option("--offset", type=OFFSET, metavar="N", help="From this offset on.")
@click.option("--end-offset", type=OFFSET, metavar="N", help="Stop before this offset.")
@click.option("--from", "from_ms", type=TimeType(), help="Records of this time or later.")
@click.option("--until", "until_ms", type=TimeType(), help="Records before this time.")
@click.option("--key", "-k", "keys", multiple=True, help="Records with this key (may be repeated).")
@click.option(
    "--key-prefix", "prefixes", multiple=True, help="Records whose key begins so (may be repeated)."
)
@key_encoding_option
@click.option(
    "--header",
    "headers",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Records with this header, with this value or any (may be repeated).",
)
@click.option(
    "--header-prefix",
    "header_prefixes",
    metavar="NAME=VALUE",
    multiple=True,
    help="Records with a header whose value begins so (may be repeated).",
)
@click.option("--tail", type=COUNT, metavar="N", help="Only the last N records of each partition.")
@click.option("--limit", "-n", type=COUNT, metavar="N", help="Stop after N records in all.")
@click.option(
    "--format",
    "-f",
    "form",
    type=Form(),
    metavar="[text|json|arrow|STRING]",
    default="text",
    show_default=True,
    help="text: a line for each record, with tabs between topic-partition, offset, time, key, value. "
    "json: JSON Lines. arrow: an Arrow IPC stream. STRING: see above.",
)
@click.option("--columns", metavar="NAME,...", help="These columns, in this order, in text, JSON or Arrow.")
@click.option(
    "--encoding",
    type=click.Choice(["auto", "base64"], case_sensitive=False),
    default="auto",
    show_default=True,
    help='Keys and values in JSON: strings where they are UTF-8, else {"base64": "..."}; or always that.',
)
@click.option("--include-headers", is_flag=True, help="Show the records' headers too.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"], case_sensitive=False),
    default="read_uncommitted",
    show_default=True,
)
@click.option(
    "--mode",
    type=click.Choice(["failFast", "dropMalformed", "permissive"], case_sensitive=False),
    metavar="[failFast|dropMalformed|permissive]",
    default="failFast",
    show_default=True,
    help="At damaged bytes: end with an error; skip them and report it; or print a line for each range.",
)
@click.option(
    "--output", "-o", type=click.File("wb", lazy=True), default="-", metavar="FILE", help="Instead of stdout."
)
def cat(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    partitions: tuple[tuple[range, ...], ...],
    offset: int | None,
    end_offset: int | None,
    from_ms: int | None,
    until_ms: int | None,
    keys: tuple[str, ...],
    prefixes: tuple[str, ...],
    key_encoding: str,
    headers: tuple[str, ...],
    header_prefixes: tuple[str, ...],
    tail: int | None,
    limit: int | None,
    output: BinaryIO,
    isolation_level: IsolationLevel,
    mode: Mode,
    **form: Any,
) -> None:
    """Print records, one partition after the other, each in order of offset.

    Without --topic: all topics but Kafka's internal ones. TIME is ISO 8601 (UTC where no zone is given),
    epoch milliseconds, or before now: -30m, -1h, -7d. Conditions of different options must all be met, of the
    values of one option any; --key and --key-prefix, and --header and --header-prefix, count as one. Times
    need not be in order in a log, so --until reads to its end; --end-offset and --limit stop sooner.

    In text, null is \\N and what does not print is escaped as in Python.

    \b
    A format STRING prints just what it says, as kcat's -f:
      %t topic  %p partition  %o offset  %T time, epoch ms  %h headers, n=v,...
      %k key  %s value, as they are  %K %S their sizes in bytes, -1 for null
      %%  \\n  \\r  \\t  \\0  \\\\  \\xHH
    """
    if offset is not None and end_offset is not None and offset > end_offset:
        raise click.UsageError(f"expected --offset up to --end-offset, found {offset} and {end_offset}")
    if from_ms is not None and until_ms is not None and from_ms > until_ms:
        raise click.UsageError(f"expected --from before --until, found {from_ms} and {until_ms} in epoch ms")
    is_terminal = output.name == "-" and sys.stdout.isatty()
    if form["form"] == "arrow" and is_terminal:
        raise click.UsageError("an Arrow stream is not for a terminal: give --output FILE, or pipe it")

    from native_log.cli.record_filter import RecordFilter, selections
    from native_log.cli.records import Wanted, print_records
    from native_log.cli.topics import select_partitions, with_numbers
    from native_log.logdir import LogDir

    whole_keys, key_prefixes = ([key_bytes(key, key_encoding) for key in given] for given in (keys, prefixes))
    try:
        record_filter = RecordFilter(
            from_ms,
            until_ms,
            selections(
                whole_keys, key_prefixes, header_conditions(headers), header_conditions(header_prefixes)
            ),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    rendering = _rendering(**form, mode=mode, color=is_terminal and "NO_COLOR" not in os.environ)
    log_dir = LogDir(paths, include_deleted=include_deleted, high_watermark=high_watermark)
    print_records(
        log_dir,
        with_numbers(
            select_partitions(log_dir, topics, exclude_topics, internal=False),
            (one for ranges in partitions for one in ranges),
        ),
        Wanted(offset, end_offset, tail, record_filter, isolation_level, mode),
        limit,
        rendering,
        output,
    )


def _rendering(
    form: str, columns: str | None, include_headers: bool, encoding: str, mode: str, color: bool
) -> Rendering | Sequence[str]:
    """How records are printed; for an Arrow stream its columns. Raises click.UsageError."""
    from native_log.cli.rendering import format_rendering, json_rendering, text_rendering

    if form not in _FORMS:
        if columns is not None or mode == "permissive":
            raise click.UsageError("a format string goes with neither --columns nor --mode permissive")
        try:
            return format_rendering(form)
        except ValueError as error:
            raise click.UsageError(f"--format: {error}") from None
    names = _columns(columns)
    if include_headers and names is not None and "headers" not in names:
        names = [*names, "headers"]
    if form == "text":
        return text_rendering(names, include_headers=include_headers, color=color)
    headers = ["headers"] if include_headers else []
    if form == "arrow":
        return names or ["key", "value", *_SOURCE, *headers]
    return json_rendering(names or [*_SOURCE, "key", "value", *headers], always_base64=encoding == "base64")


_SOURCE = ("topic", "partition", "offset", "timestamp", "timestampType")


def _columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    from native_log.records import RECORD_SCHEMA

    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in RECORD_SCHEMA.names:
            raise click.UsageError(
                f"--columns: expected some of {', '.join(RECORD_SCHEMA.names)}, found {name!r}"
            )
    return names
