"""`kafkalog ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli.options import tiered_log_dir_options, topics_options
from native_log.cli.runner import DATA_ERROR

if TYPE_CHECKING:
    from native_log.logdir.remote_storage import RemoteArguments


@click.command(short_help="List partitions: offsets, sizes, times.")
@tiered_log_dir_options
@topics_options("all topics")
@click.option("--verify", is_flag=True, help="Check each copy as `kafkalog verify` does; count its problems.")
@click.option(
    "--count",
    "counts",
    is_flag=True,
    help="Count the records that can be read, from the headers of batches (column RECORDS).",
)
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
    storage_options: dict[str, str],
    remote: RemoteArguments,
    verify: bool,
    counts: bool,
    as_json: bool,
) -> None:
    """List log directories and their partitions.

    START is the first offset that can be read, and END the offset after the last record. HW is the high
    watermark that the broker checkpointed last: all in-sync replicas had the records below it. The times are
    those of the first and the last record.

    If directories of several brokers are given, all copies of a partition are listed. BEST marks the leading
    copy: the one with the highest leader EPOCH, or the longest of several. With --verify, the exit code is 1
    if there is a problem.
    """
    from native_log.cli import listing
    from native_log.cli.tables import terminal_width
    from native_log.logdir.verification import open_all_copies

    if verify and not paths:
        raise click.UsageError("expected --verify with a PATH: remote storage alone lacks leader epochs")
    log_dir = open_all_copies(
        paths or None,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        storage_options=storage_options,
        **remote,
    )
    result = listing.list_log_dir(log_dir, topics, exclude_topics, verify=verify, counts=counts)
    click.echo(listing.format_json(result) if as_json else listing.format_text(result, terminal_width()))
    if result.failed:
        raise SystemExit(min(result.failed))
    if any(row.problems for row in result.partitions):
        raise SystemExit(DATA_ERROR)
