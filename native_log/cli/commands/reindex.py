"""`kafkalog reindex`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.options import paths_argument, topics_options
from native_log.cli.runner import DATA_ERROR


@click.command(short_help="Rebuild indexes from the logs.")
@paths_argument
@topics_options("all topics except __cluster_metadata")
@click.option("--dry-run", "-n", is_flag=True, help="Only compare the existing indexes.")
@click.option(
    "--index-interval-bytes",
    type=click.IntRange(min=0, max=2**31 - 1),
    metavar="BYTES",
    help="Bytes of log between two entries (Kafka: index.interval.bytes). Default: as stored for the topic, "
    "or 4096.",
)
def reindex(paths: tuple[str, ...], topics: tuple[str, ...], **how: Any) -> None:
    """Rebuild the indexes of all segments from their batches. No .log file is changed.

    No broker may use the directory.
    """
    from native_log.cli.maintenance import reindex_all

    if reindex_all(paths, topics, **how):
        raise SystemExit(DATA_ERROR)
