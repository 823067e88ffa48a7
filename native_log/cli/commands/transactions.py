"""`kafkalog transactions`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.options import log_dir_options, topics_options


@click.command(short_help="List open transactions.")
@log_dir_options
@topics_options("all topics")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document, with times in epoch ms.")
def transactions(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    storage_options: dict[str, str],
    as_json: bool,
) -> None:
    """List the transactions that are neither committed nor aborted in the logs, the oldest first.

    Consumers with read_committed receive nothing from FIRST OFFSET on, and compaction stops there. AGE is
    measured now if a broker uses a directory, and otherwise at the time of the newest record in the listed
    partitions.

    TRANSACTIONAL ID and COORDINATOR are what __transaction_state says of the producer, if it is in the
    directories. A hanging transaction is one that the coordinator has ended or does not know, or that is
    older than its TIMEOUT.
    """
    from native_log.cli import transaction_listing
    from native_log.logdir import LogDir
    from native_log.system import current_ms

    log_dir = LogDir(
        paths,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        storage_options=storage_options,
    )
    listing = transaction_listing.list_transactions(log_dir, topics, exclude_topics, current_ms())
    format_listing = transaction_listing.format_json if as_json else transaction_listing.format_text
    click.echo(format_listing(listing))
    if listing.failed:
        raise SystemExit(min(listing.failed))
