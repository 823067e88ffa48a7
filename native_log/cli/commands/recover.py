"""`kafkalog recover`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli import changes
from native_log.cli.options import paths_argument, topics_options
from native_log.cli.runner import DATA_ERROR


@click.command(short_help="Truncate logs that a crash damaged.")
@paths_argument
@topics_options("all topics except __cluster_metadata")
@changes.config_options
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be done, and why.")
@click.option("--yes", "-y", is_flag=True, help="Do not show and confirm the changes first.")
@click.option(
    "--from-start", is_flag=True, help="Check all segments, not only those after the recovery point."
)
@click.option(
    "--save-to",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False),
    help="Copy truncated data there. `kafkalog cat --mode dropMalformed` can read the copy.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON Lines, one object for each partition; requires --dry-run or --yes.",
)
def recover(paths: tuple[str, ...], topics: tuple[str, ...], conf: Any, conf_file: Any, **how: Any) -> None:
    """Recover logs after a crash, as a broker does when it starts.

    Each log is truncated at its first invalid batch. Indexes, producer state and leader epochs are rebuilt.
    No broker may use the directory. __cluster_metadata is skipped: the controller recovers it at each start.

    Settings: index.interval.bytes, by which indexes are rebuilt; by default as stored for the topic.

    If data would be lost, the command first shows what it would do and asks for confirmation.

    The exit code is 1 if a log cannot be recovered, or if it keeps damage that a broker's recovery keeps, too
    (offsets that are not in order); with --dry-run also if data would be truncated.
    """
    from native_log.cli.maintenance import recover_all

    if recover_all(paths, topics, config=changes.load_settings(conf, conf_file), **how):
        raise SystemExit(DATA_ERROR)
