"""`kafkalog dump-log`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.completion import complete_file
from native_log.cli.options import COUNT


@click.command("dump-log", short_help="Print files as kafka-dump-log does.")
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
