"""`kafkalog dump-log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli.completion import complete_file
from native_log.cli.options import COUNT

if TYPE_CHECKING:
    from native_log.cli.dump_log.decoders import Decoder
    from native_log.errors import KafkaLogError


@click.command("dump-log", short_help="Print files as kafka-dump-log does.")
@click.argument("files", metavar="FILE...", nargs=-1, shell_complete=complete_file)
@click.option("--files", "more", metavar="FILE,...", help="Files separated by commas, as in kafka-dump-log.")
@click.option("--deep-iteration", is_flag=True, help="Print records, not only batches.")
@click.option("--print-data-log", is_flag=True, help="Print records with their keys and values.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with the log, and print no entries.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Only make the checks that a broker makes at its start."
)
@click.option("--max-bytes", type=COUNT, metavar="BYTES", help="Read at most this much of each .log.")
@click.option(
    "--offsets-decoder", "decoder", flag_value="offsets", help="Print records of __consumer_offsets as JSON."
)
@click.option(
    "--transaction-log-decoder",
    "decoder",
    flag_value="transactions",
    help="Print records of __transaction_state as JSON.",
)
@click.option(
    "--cluster-metadata-decoder",
    "decoder",
    flag_value="cluster",
    help="Print records of __cluster_metadata and of .checkpoint files as JSON.",
)
@click.option(
    "--share-group-state-decoder",
    "decoder",
    flag_value="shares",
    help="Print records of __share_group_state as JSON.",
)
@click.option(
    "--remote-log-metadata-decoder",
    "decoder",
    flag_value="remote",
    help="Print records of __remote_log_metadata (segments in tiered storage).",
)
def dump_log(files: tuple[str, ...], more: str | None, decoder: str | None, **options: Any) -> None:
    """Print .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files as kafka-dump-log 4.1 does.

    For a partition directory, print its .log files. A damaged file is printed up to the damage. Damage is
    reported on stderr at the end, and so are differences between an index and its log, and offsets that are
    not consecutive, as after compaction. A decoder prints all records. Of several decoders the last one is
    used.
    """
    from native_log.cli.dump_log.dump import dump
    from native_log.cli.dump_log.dump_options import DumpOptions
    from native_log.cli.runner import DATA_ERROR, print_error

    paths = [*files, *(more.split(",") if more else ())]
    if not paths:
        raise click.UsageError("expected at least one file, found none")
    damaged: list[KafkaLogError] = []
    mismatches = dump(paths, DumpOptions(decoder=_decoder(decoder), **options), damaged.append)
    for line in mismatches.lines():
        click.echo(line, err=True)
    for error in damaged:
        print_error(error)
    if damaged:
        raise SystemExit(DATA_ERROR)


def _decoder(name: str | None) -> Decoder | None:
    if name is None:
        return None
    from native_log.cli.dump_log.decoders import DECODERS

    return DECODERS[name]
