"""The commands of `kafkalog` and their options."""

from __future__ import annotations

from typing import Any

import click

import native_log
from native_log.cli import cleaning
from native_log.cli.cat import cat
from native_log.cli.completion import complete_file
from native_log.cli.options import (
    COUNT,
    log_dir_options,
    paths_argument,
    topics_options,
)
from native_log.cli.runner import DATA_ERROR, Commands


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from native_log.records import IMPLEMENTATION

        click.echo(f"kafkalog {native_log.__version__} (records: {IMPLEMENTATION})")
        ctx.exit()


@click.group(
    cls=Commands,
    invoke_without_command=True,
    # color: click would else remove terminal escapes from printed keys and values, as if they were its own.
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version, and whether the compiled kernel or the plain Python reference reads records.",
)
@click.pass_context
def kafkalog(ctx: click.Context) -> None:
    """Look into Kafka log directories, with no broker.

    PATH is a log directory (a broker's log.dirs, a copy or a snapshot), or a single partition directory.
    All but recover, reindex and what else says so open everything for reading only.

    \b
    Exit codes:
      0  done, nothing wrong
      1  damage was found, or something would be cut off or could not be done
      2  wrong usage, path or permission; the directory is in use
      3  the question was answered with no: nothing changed
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (cat, *cleaning.COMMANDS):
    kafkalog.add_command(_command)


@kafkalog.command(short_help="List partitions: offsets, sizes, times.")
@log_dir_options
@topics_options("all")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, sizes in bytes, times in epoch ms.")
def ls(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    as_json: bool,
) -> None:
    """List log directories and their partitions: offsets, sizes, segments, first and last time.

    START is the first offset that can be read, END the one behind the last, HW the high watermark. The times
    are those of the first and of the last record.
    """
    from native_log.cli import listing
    from native_log.logdir import LogDir

    found = listing.list_log_dir(
        LogDir(paths, include_deleted=include_deleted, high_watermark=high_watermark), topics, exclude_topics
    )
    click.echo(listing.as_json(found) if as_json else listing.as_text(found))
    if found.failed:
        raise SystemExit(min(found.failed))


@kafkalog.command(short_help="Check batches, indexes and snapshots.")
@log_dir_options
@topics_options("all")
def verify(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
) -> None:
    """Check logs through and through: checksums, records, order of offsets, indexes, snapshots.

    A line for each problem; the exit code is 1 if there is any. Nothing is changed.
    """
    from native_log.cli.maintenance import verify_all
    from native_log.logdir import LogDir

    log_dir = LogDir(paths, include_deleted=include_deleted, high_watermark=high_watermark)
    if verify_all(log_dir, topics, exclude_topics):
        raise SystemExit(DATA_ERROR)


@kafkalog.command(short_help="Cut off what a crash left damaged.")
@paths_argument
@topics_options("all but the controllers' log")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing, only tell what would be done, and why.")
@click.option("--yes", "-y", is_flag=True, help="Do it without showing first and asking.")
@click.option(
    "--from-start", is_flag=True, help="Check every segment, not only those from the recovery point on."
)
@click.option(
    "--save-to",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False),
    help="Copy there what is cut off, to be read with cat --mode dropMalformed.",
)
def recover(paths: tuple[str, ...], topics: tuple[str, ...], **how: Any) -> None:
    """Make logs whole that a crash left, as a broker does when it starts.

    Each log is cut at its first batch that is not whole and right; what lies behind is removed. Indexes,
    producers' state and leader epochs are made anew. The directory must not be in use by a broker.

    Where anything would go it is shown first, and asked for.
    """
    from native_log.cli.maintenance import recover_all

    if recover_all(paths, topics, **how):
        raise SystemExit(DATA_ERROR)


@kafkalog.command(short_help="Make indexes anew from the logs.")
@paths_argument
@topics_options("all but the controllers' log")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing, only compare what is there.")
@click.option(
    "--index-interval-bytes",
    type=click.IntRange(min=0, max=2**31 - 1),
    default=4096,
    show_default=True,
    metavar="BYTES",
    help="How far apart the entries are (Kafka: index.interval.bytes).",
)
def reindex(paths: tuple[str, ...], topics: tuple[str, ...], **how: Any) -> None:
    """Make the indexes of all segments anew from their batches. No .log is changed.

    The directory must not be in use by a broker.
    """
    from native_log.cli.maintenance import reindex_all

    if reindex_all(paths, topics, **how):
        raise SystemExit(DATA_ERROR)


@kafkalog.command("dump-log", short_help="Print files as kafka-dump-log does.")
@click.argument("files", metavar="FILE...", nargs=-1, shell_complete=complete_file)
@click.option(
    "--files", "more", metavar="FILE,...", help="Files, with commas between, as kafka-dump-log has it."
)
@click.option("--deep-iteration", is_flag=True, help="Each record, not only batches.")
@click.option("--print-data-log", is_flag=True, help="Each record with its key and value.")
@click.option("--skip-record-metadata", is_flag=True, help="Keys and values alone.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with the log, print no entries.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Only what a broker checks of an index at its start."
)
@click.option("--max-bytes", type=COUNT, metavar="BYTES", help="Only so much of each .log.")
@click.option(
    "--offsets-decoder", "decoder", flag_value="offsets", help="Records of __consumer_offsets as JSON."
)
@click.option(
    "--transaction-log-decoder",
    "decoder",
    flag_value="transactions",
    help="Records of __transaction_state as JSON.",
)
@click.option(
    "--cluster-metadata-decoder",
    "decoder",
    flag_value="cluster",
    help="Records of __cluster_metadata, and of .checkpoint files, as JSON.",
)
@click.option(
    "--share-group-state-decoder",
    "decoder",
    flag_value="shares",
    help="Records of __share_group_state as JSON.",
)
@click.option(
    "--remote-log-metadata-decoder",
    "decoder",
    flag_value="remote",
    help="Records of __remote_log_metadata: segments in tiered storage.",
)
def dump_log(files: tuple[str, ...], more: str | None, decoder: str | None, **options: Any) -> None:
    """Print .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files as kafka-dump-log 4.1 does.

    A partition directory stands for its .log files. Where an index and its log differ, and where offsets are
    not consecutive (in a compacted log they are not), is said on stderr at the end. A decoder prints all
    records; the last one given is taken.
    """
    from native_log.cli.dump_log import DECODERS, DumpOptions, dump

    wanted = [*files, *(more.split(",") if more else ())]
    if not wanted:
        raise click.UsageError("give at least one file")
    decode = None if decoder is None else DECODERS[decoder]
    for line in dump(wanted, DumpOptions(decoder=decode, **options)).lines():
        click.echo(line, err=True)
