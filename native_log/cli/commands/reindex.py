"""`kafkalog reindex`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.options import paths_argument, topics_options
from native_log.cli.runner import DATA_ERROR


@click.command(short_help="Make indexes anew from the logs.")
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
