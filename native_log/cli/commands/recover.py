"""`kafkalog recover`."""

from __future__ import annotations

from typing import Any

import click

from native_log.cli.options import paths_argument, topics_options
from native_log.cli.runner import DATA_ERROR


@click.command(short_help="Cut off what a crash left damaged.")
@paths_argument
@topics_options("all but the controllers' log")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing, only tell what would be done, and why.")
@click.option("--yes", "-y", is_flag=True, help="Do it without showing first and asking.")
@click.option(
    "--from-start", is_flag=True, help="Check every segment, not only those from the recovery point on."
)
@click.option(
    "--save-to",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False),
    help="Copy there what is cut off, to be read with cat --mode dropMalformed.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="JSON Lines, one object per partition; with --dry-run or --yes."
)
def recover(paths: tuple[str, ...], topics: tuple[str, ...], **how: Any) -> None:
    """Make logs whole that a crash left, as a broker does when it starts.

    Each log is cut at its first batch that is not whole and right; what lies behind is removed. Indexes,
    producers' state and leader epochs are made anew. The directory must not be in use by a broker.
    __cluster_metadata is left to the controller, which recovers it whenever it starts.

    Where anything would go it is shown first, and asked for.

    The exit code is 1 if a log could not be recovered, or keeps damage that a broker's recovery keeps too
    (offsets that are not in order); with --dry-run also if anything would be cut.
    """
    from native_log.cli.maintenance import recover_all

    if recover_all(paths, topics, **how):
        raise SystemExit(DATA_ERROR)
