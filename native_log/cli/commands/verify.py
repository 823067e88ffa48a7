"""`kafkalog verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli.options import tiered_log_dir_options, topics_options
from native_log.cli.runner import DATA_ERROR

if TYPE_CHECKING:
    from native_log.logdir.remote_storage import RemoteArguments


@click.command(short_help="Check batches, indexes, and the files that a broker needs.")
@tiered_log_dir_options
@topics_options("all topics")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each problem.")
def verify(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    storage_options: dict[str, str],
    remote: RemoteArguments,
    as_json: bool,
) -> None:
    """Check logs: checksums, records, offsets, indexes, snapshots, checkpoints and metadata files.

    Of a partition that several directories contain, each copy is checked. Anything that would stop a broker
    from starting is reported: malformed files, foreign directories, the same partition in two directories of
    one broker. Print a line for each problem. The exit code is 1 if there is any. No file is changed.

    Offsets that no batch has are a problem if the topic is not compacted. If its policy is unknown, they are
    a warning, which does not change the exit code.
    """
    from native_log.cli.maintenance import verify_all
    from native_log.logdir.verification import open_all_copies

    if not paths:
        raise click.UsageError("expected a PATH with --remote: remote storage alone lacks leader epochs")
    log_dir = open_all_copies(
        paths,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        storage_options=storage_options,
        **remote,
    )
    if verify_all(log_dir, topics, exclude_topics, as_json=as_json):
        raise SystemExit(DATA_ERROR)
