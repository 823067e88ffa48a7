"""`kafkalog cat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import click

from native_log.cli.options import COUNT, header_conditions, tiered_log_dir_options, topics_options
from native_log.cli.record_forms import form_options, rendering_of
from native_log.cli.record_options import selection_options

if TYPE_CHECKING:
    from native_log.arguments import IsolationLevel, Mode, Replicas
    from native_log.logdir.remote_storage import RemoteArguments


@click.command(short_help="Print records as text, JSON or Arrow.")
@tiered_log_dir_options
@topics_options("all topics except internal ones")
@selection_options
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
@click.option("--tail", type=COUNT, metavar="N", help="Print the last N records of each partition.")
@click.option(
    "--follow",
    is_flag=True,
    help="Then print records as they arrive, until Ctrl-C, also those of new topics and partitions.",
)
@form_options
@click.option(
    "--mode",
    type=click.Choice(["failFast", "dropMalformed", "permissive"], case_sensitive=False),
    metavar="[failFast|dropMalformed|permissive]",
    default="failFast",
    show_default=True,
    help="At damaged or missing data: stop with an error; skip it with a warning; or also print a line for "
    "damaged bytes.",
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
    partitions: list[range] | None,
    offset: int | None,
    end_offset: int | None,
    from_ms: int | None,
    until_ms: int | None,
    keys: list[bytes],
    key_prefixes: list[bytes],
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
    if follow and remote and not paths:
        raise click.UsageError("expected --follow with a PATH: new records are in log directories first")
    if follow and (end_offset is not None or until_ms is not None):
        raise click.UsageError("expected --follow without an end, found --end-offset or --until")

    from native_log.cli.record_filter import RecordFilter
    from native_log.cli.records import RecordQuery, print_records
    from native_log.logdir import LogDir
    from native_log.logdir.selected_partitions import select_partitions
    from native_log.logdir.selection import PartitionSelection, internal_topics

    record_filter = RecordFilter.of(
        from_ms,
        until_ms,
        keys,
        key_prefixes,
        header_conditions(headers),
        header_conditions(header_prefixes),
        where,
    )
    rendering = rendering_of(**form, output=output, mode=mode)
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
        numbers=partitions,
    )
    selected = select_partitions(log_dir, selection, required=True)
    query = RecordQuery(offset, end_offset, tail, record_filter, isolation_level, mode)

    print_records(
        log_dir, selected, query, limit, rendering, output, followed=selection.includes if follow else None
    )
