"""`kafkalog grep`."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from native_log.cli.completion import complete_directory
from native_log.cli.options import COUNT, opening_options, remote_options, topics_options
from native_log.cli.record_forms import form_options, rendering_of
from native_log.cli.record_options import selection_options
from native_log.cli.runner import DATA_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import HighWatermark, IsolationLevel, Mode, Replicas
    from native_log.log import LogScan
    from native_log.logdir.remote_storage import RemoteArguments
    from native_log.records.conditions import PatternField


@click.command(short_help="Find records by bytes, a regular expression, keys or SQL.")
@click.argument("arguments", metavar="[PATTERN] PATH...", nargs=-1, shell_complete=complete_directory)
@click.option(
    "--regexp", "-e", "pattern", metavar="PATTERN", help="The PATTERN; all arguments are then PATHs."
)
@click.option("--fixed-strings", "-F", "is_fixed", is_flag=True, help="PATTERN is text, no expression.")
@click.option("--ignore-case", "-i", "ignores_case", is_flag=True, help="Ignore case.")
@click.option(
    "--in",
    "fields",
    type=click.Choice(["key", "value", "headers"], case_sensitive=False),
    multiple=True,
    help="Look for PATTERN only there (may be repeated). Default: everywhere.",
)
@topics_options("all topics except internal ones")
@selection_options
@click.option("--count", "-c", "counts", is_flag=True, help="Print the number of records of each partition.")
@form_options
@click.option(
    "--mode",
    type=click.Choice(["failFast", "dropMalformed"], case_sensitive=False),
    metavar="[failFast|dropMalformed]",
    default="failFast",
    show_default=True,
    help="At damaged or missing data: stop with an error, or skip it with a warning.",
)
@click.option(
    "--threads", type=COUNT, metavar="N", help="How many threads search. Default: one for each core."
)
@opening_options
@remote_options
def grep(
    arguments: tuple[str, ...],
    pattern: str | None,
    is_fixed: bool,
    ignores_case: bool,
    fields: tuple[PatternField, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    replicas: Replicas,
    partitions: list[range] | None,
    offset: int | None,
    end_offset: int | None,
    from_ms: int | None,
    until_ms: int | None,
    keys: list[bytes],
    key_prefixes: list[bytes],
    where: str | None,
    limit: int | None,
    isolation_level: IsolationLevel,
    counts: bool,
    mode: Mode,
    threads: int | None,
    high_watermark: HighWatermark,
    include_deleted: bool,
    storage_options: dict[str, str],
    remote: RemoteArguments,
    output: BinaryIO,
    **form: Any,
) -> None:
    """Find records, with all cores, one partition after another.

    PATTERN is a regular expression, in the syntax of Python's re without look-around and backreferences. It
    is looked for in keys, values and headers. It may be left out with --key, --key-prefix, --where, --from or
    --until.

    A record must meet the conditions of all options. --key and --key-prefix count as one option.

    SQL is what follows WHERE, as in Spark: comparisons, BETWEEN, IN, IS NULL and LIKE with %, combined by
    AND, OR and NOT. Times are in UTC unless they name a zone. For TIME and formats see `kafkalog cat --help`.

    The exit code is 0 if a record was found, and 1 if none was.
    """
    from native_log.cli.record_filter import RecordFilter
    from native_log.cli.records import limit_rows, write_batches
    from native_log.cli.rendering import Rendering
    from native_log.filters import FilterError
    from native_log.logdir import LogDir
    from native_log.records import RECORD_SCHEMA
    from native_log.scanning import search

    condition = RecordFilter.of(from_ms, until_ms, keys, key_prefixes, where=where).filter
    pattern, paths = _pattern_and_paths(pattern, arguments, condition is not None, has_remote=bool(remote))
    rendering = rendering_of(**form, output=output, mode=mode)
    columns = list(rendering.columns if isinstance(rendering, Rendering) else rendering)
    log_dir = LogDir(
        list(paths) or None,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        replicas=replicas,
        storage_options=storage_options,
        **remote,
    )
    if pattern is None and (fields or is_fixed or ignores_case):
        raise click.UsageError("expected PATTERN with --in, --fixed-strings and --ignore-case, found none")
    pattern_arguments = {} if pattern is None else _pattern(pattern, is_fixed, ignores_case)
    try:
        scan = search(
            log_dir,
            topics or None,
            ["topic", "partition"] if counts else columns,
            **pattern_arguments,
            fields=fields or ("key", "value", "headers"),
            filter=condition,
            exclude_topics=exclude_topics,
            partitions=partitions,
            start=offset,
            end=end_offset,
            isolation_level=isolation_level,
            threads=threads or None,
            mode=mode,
            fail_on_data_loss=mode == "failFast",
        )
    except FilterError as error:
        raise click.UsageError(str(error)) from None
    rows = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    found = _batches(scan, show=output.name != "-" or not sys.stdout.isatty())
    batches = counted(limit_rows(found, limit))
    if counts:
        _print_counts(batches, output)
    else:
        schema = RECORD_SCHEMA.empty_table().select(columns).schema
        write_batches(batches, schema, rendering, output, flushes=True)
    if not rows:
        raise SystemExit(DATA_ERROR)


def _pattern_and_paths(
    pattern: str | None, arguments: Sequence[str], has_conditions: bool, *, has_remote: bool
) -> tuple[str | None, Sequence[str]]:
    """Tell PATTERN from PATHs. Raises click.UsageError if one of them is missing."""
    if pattern is None and arguments and not (has_conditions and _is_path(arguments[0])):
        pattern, *arguments = arguments
    if (pattern is None and not has_conditions) or not (arguments or has_remote):
        raise click.UsageError(
            "expected PATTERN and PATH; PATTERN may be left out with --key or --where, PATH with --remote"
        )
    return pattern, arguments


def _is_path(text: str) -> bool:
    return "://" in text or os.path.exists(text)  # noqa: PTH110


def _pattern(pattern: str, is_fixed: bool, ignores_case: bool) -> dict[str, Any]:
    """Return the arguments of `search` for PATTERN."""
    if is_fixed and not ignores_case:
        return {"contains": os.fsencode(pattern)}
    expression = re.escape(pattern) if is_fixed else pattern
    return {"regex": f"(?i){expression}" if ignores_case else expression}


def _batches(scan: LogScan, *, show: bool) -> Iterator[pa.RecordBatch]:
    from native_log.cli.progress import show_progress

    with show_progress("searching", scan.size_bytes, shown=show) as advance:
        yield from scan.batches(advance)


def _print_counts(batches: Iterator[pa.RecordBatch], output: BinaryIO) -> None:
    """Print topic-partition and a number for each partition that has records."""
    counts: dict[tuple[str, int], int] = {}
    for batch in batches:
        if batch.num_rows:
            key = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
            counts[key] = counts.get(key, 0) + batch.num_rows
    for (topic, partition), count in counts.items():
        output.write(f"{topic}-{partition}\t{count}\n".encode())
