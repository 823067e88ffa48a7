"""`kafkalog cat`."""

from __future__ import annotations

import os
import re
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from native_log.cli.completion import complete_partitions
from native_log.cli.options import (
    COUNT,
    OFFSET,
    header_conditions,
    key_bytes,
    key_encoding_option,
    tiered_log_dir_options,
    topics_options,
    where_option,
)
from native_log.cli.record_forms import form_options, rendering_of
from native_log.cli.times import TimeType

if TYPE_CHECKING:
    from native_log.arguments import IsolationLevel, Mode, Replicas
    from native_log.logdir.remote_storage import RemoteArguments


class PartitionRanges(click.ParamType):
    """Numbers and ranges separated by commas: 0-3,7."""

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


@click.command(short_help="Print records as text, JSON or Arrow.")
@tiered_log_dir_options
@topics_options("all topics except internal ones")
@click.option(
    "--replicas",
    type=click.Choice(["longest", "merge"], case_sensitive=False),
    default="longest",
    show_default=True,
    help="If several PATHs contain the same partition: read the longest copy, or merge all copies.",
)
@click.option(
    "--partition",
    "-p",
    "partitions",
    metavar="N[-M],...",
    multiple=True,
    type=PartitionRanges(),
    shell_complete=complete_partitions,
    help="Print these partitions, such as 0-3,7 (may be repeated).",
)
@click.option("--offset", type=OFFSET, metavar="N", help="Start at this offset.")
@click.option("--end-offset", type=OFFSET, metavar="N", help="Stop before this offset.")
@click.option("--from", "from_ms", type=TimeType(), help="Print records with this timestamp or a later one.")
@click.option("--until", "until_ms", type=TimeType(), help="Print records with an earlier timestamp.")
@click.option("--key", "-k", "keys", multiple=True, help="Print records with this key (may be repeated).")
@click.option(
    "--key-prefix",
    "prefixes",
    multiple=True,
    help="Print records with this prefix of the key (may be repeated).",
)
@key_encoding_option
@click.option(
    "--header",
    "headers",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Print records with this header, with this or any value (may be repeated).",
)
@click.option(
    "--header-prefix",
    "header_prefixes",
    metavar="NAME=VALUE",
    multiple=True,
    help="Print records with this header and prefix of its value (may be repeated).",
)
@where_option
@click.option("--tail", type=COUNT, metavar="N", help="Print the last N records of each partition.")
@click.option(
    "--follow",
    is_flag=True,
    help="Then print records as they arrive, until Ctrl-C, also those of new topics and partitions.",
)
@click.option("--limit", "-n", type=COUNT, metavar="N", help="Stop after N records in total.")
@form_options
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
    help="At damaged or missing data: stop with an error; skip it with a warning; or also print a line for "
    "damaged bytes.",
)
@click.option(
    "--output",
    "-o",
    type=click.File("wb", lazy=True),
    default="-",
    metavar="FILE",
    help="Write to a file instead of stdout.",
)
def cat(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    storage_options: dict[str, str],
    replicas: Replicas,
    remote: RemoteArguments,
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
    where: str | None,
    tail: int | None,
    follow: bool,
    limit: int | None,
    output: BinaryIO,
    isolation_level: IsolationLevel,
    mode: Mode,
    **form: Any,
) -> None:
    """Print records, one partition after another, in the order of offsets.

    TIME is ISO 8601 (UTC without a time zone), epoch milliseconds, or a time before now: -30m, -1h, -7d.

    A record must meet the conditions of all options. If an option is repeated, it must meet one of them.
    For SQL see `kafkalog grep --help`.
    --key and --key-prefix count as one option; so do --header and --header-prefix. Timestamps need not be in
    order in a log, so --until reads to the end. --end-offset and --limit stop earlier.

    --follow --tail 0 prints only new records. Those of a running broker are printed when it has written its
    high watermark to disk, which it does every 5 seconds; with --high-watermark ignore, at once.

    In text, null is \\N, and unprintable characters are escaped as in Python.

    \b
    A format STRING prints the fields that it names, as kcat's -f does:
      %t topic  %p partition  %o offset  %T timestamp in epoch ms  %h headers, n=v,...
      %k key  %s value, both unchanged  %K %S their sizes in bytes, -1 for null
      %%  \\n  \\r  \\t  \\0  \\\\  \\xHH
    """
    _check_ends(offset, end_offset, from_ms, until_ms)
    if follow and remote and not paths:
        raise click.UsageError("expected --follow with a PATH: new records are in log directories first")
    if follow and (end_offset is not None or until_ms is not None):
        raise click.UsageError("expected --follow without an end, found --end-offset or --until")
    is_terminal = output.name == "-" and sys.stdout.isatty()
    if form["form"] == "arrow" and is_terminal:
        raise click.UsageError(
            "expected a file or a pipe for an Arrow stream, found a terminal; set --output FILE"
        )

    from native_log.cli.record_filter import RecordFilter
    from native_log.cli.records import RecordQuery, print_records
    from native_log.logdir import LogDir
    from native_log.logdir.selected_partitions import select_partitions
    from native_log.logdir.selection import PartitionSelection, internal_topics

    whole_keys, key_prefixes = (
        [key_bytes(text, key_encoding) for text in texts] for texts in (keys, prefixes)
    )
    record_filter = RecordFilter.of(
        from_ms,
        until_ms,
        whole_keys,
        key_prefixes,
        header_conditions(headers),
        header_conditions(header_prefixes),
        where,
    )
    rendering = rendering_of(**form, mode=mode, color=is_terminal and "NO_COLOR" not in os.environ)
    log_dir = LogDir(
        paths or None,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        replicas=replicas,
        storage_options=storage_options,
        **remote,
    )
    selection = PartitionSelection.of(
        topics or None,
        exclude_topics,
        only_by_name=internal_topics(log_dir.partitions(), log_dir.paths),
        numbers=chain.from_iterable(partitions),
    )
    selected = select_partitions(log_dir, selection, required=True)
    query = RecordQuery(offset, end_offset, tail, record_filter, isolation_level, mode)

    print_records(
        log_dir, selected, query, limit, rendering, output, followed=selection.includes if follow else None
    )


def _check_ends(
    offset: int | None, end_offset: int | None, from_ms: int | None, until_ms: int | None
) -> None:
    """Raise click.UsageError if an end lies before its start."""
    if offset is not None and end_offset is not None and offset > end_offset:
        raise click.UsageError(f"expected --offset up to --end-offset, found {offset} and {end_offset}")
    if from_ms is not None and until_ms is not None and from_ms > until_ms:
        raise click.UsageError(f"expected --from before --until, found {from_ms} and {until_ms} in epoch ms")
