"""`kafkalog groups`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.options import log_dir_options
from native_log.cli.runner import DATA_ERROR


@click.command(short_help="List groups, their offsets and their lag.")
@log_dir_options
@click.option(
    "--group",
    "-g",
    "names",
    metavar="GROUP",
    multiple=True,
    help="Describe this group (may be repeated): its offsets, its lag, and which member has a partition.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document, with times in epoch ms.")
@click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="Print committed offsets for kafka-consumer-groups --reset-offsets --from-file.",
)
def groups(
    paths: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    storage_options: dict[str, str],
    names: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
) -> None:
    """List the groups in __consumer_offsets, or describe some of them as kafka-consumer-groups does.

    LAG is the checkpointed high watermark minus the committed offset, added up for all partitions whose logs
    are in the directories. A broker has only some groups: give
    the directories of all brokers for all of them. OFFSET is the committed offset, or the start offset of a
    share group.

    The exit code is 1 if a record cannot be decoded.
    """
    from native_log.cli import group_listing
    from native_log.logdir import LogDir

    log_dir = LogDir(
        paths,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        storage_options=storage_options,
    )
    listing = group_listing.list_groups(log_dir, names)
    if as_csv:
        click.echo(group_listing.format_csv(listing))
    elif as_json:
        click.echo(group_listing.format_json(listing))
    else:
        click.echo(group_listing.describe(listing) if names else group_listing.format_list(listing))
    if group_listing.report_undecodable(listing):
        raise SystemExit(DATA_ERROR)
