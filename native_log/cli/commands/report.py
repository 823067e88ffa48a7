"""`kafkalog report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli.completion import complete_file
from native_log.cli.options import tiered_log_dir_options, topics_options
from native_log.cli.runner import USAGE_ERROR

if TYPE_CHECKING:
    from native_log.logdir.remote_storage import RemoteArguments


@click.command(short_help="Write a page about log directories.")
@tiered_log_dir_options
@topics_options("all topics")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    required=True,
    shell_complete=complete_file,
    help="Write the page to this file; -: to stdout. An earlier report is replaced, other files are not.",
)
@click.option("--batches", is_flag=True, help="Read the headers of all batches, for exact codecs and times.")
@click.option(
    "--verify", is_flag=True, help="Check all batches, indexes and snapshots, as `kafkalog verify`."
)
@click.option("--compaction", is_flag=True, help="Show what a compaction would free, by a dry run.")
@click.option("--retention", is_flag=True, help="Show what retention would delete, by a dry run.")
@click.option("--full", is_flag=True, help="All of --batches, --verify, --compaction and --retention.")
def report(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    high_watermark: Any,
    include_deleted: bool,
    storage_options: dict[str, str],
    remote: RemoteArguments,
    output: str,
    batches: bool,
    verify: bool,
    compaction: bool,
    retention: bool,
    full: bool,
) -> None:
    """Write one HTML page about log directories: sizes, skew, times, codecs, lag, and what needs attention.

    The page loads nothing from a network, runs no script and contains no records. Without --batches,
    --verify, --compaction, --retention or --full, only a small part of each file is read, and the page states
    what was not examined.
    """
    from native_log.cli.progress import report_progress
    from native_log.cli.report_file import check_report_path, write_report
    from native_log.reporting import report as make_report

    if not paths:
        raise click.UsageError("expected a PATH with --remote: a report is about log directories")
    check_report_path(output)
    try:
        with report_progress("examining") as on_progress:
            page = make_report(
                paths,
                topics or None,
                exclude_topics=exclude_topics,
                include_deleted=include_deleted,
                high_watermark=high_watermark,
                storage_options=storage_options,
                batches=batches or full,
                verify=verify or full,
                compaction=compaction or full,
                retention=retention or full,
                on_progress=on_progress,
                **remote,
            )
    except ModuleNotFoundError as error:
        raise _MissingLibraryError(str(error)) from None
    write_report(output, page)


class _MissingLibraryError(click.ClickException):
    exit_code = USAGE_ERROR
