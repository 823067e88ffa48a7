"""`kafkalog ls`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.options import log_dir_options, topics_options


@click.command(short_help="List partitions: offsets, sizes, times.")
@log_dir_options
@topics_options("all topics")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON document, with sizes in bytes and times in epoch ms.",
)
def ls(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    as_json: bool,
) -> None:
    """List log directories and their partitions.

    START is the first offset that can be read, and END the offset after the last record. HW is the high
    watermark that the broker checkpointed last: all in-sync replicas had the records below it. The times are
    those of the first and the last record.
    """
    from native_log.cli import listing
    from native_log.logdir import LogDir

    result = listing.list_log_dir(
        LogDir(paths, include_deleted=include_deleted, high_watermark=high_watermark), topics, exclude_topics
    )
    click.echo(listing.format_json(result) if as_json else listing.format_text(result))
    if result.failed:
        raise SystemExit(min(result.failed))
