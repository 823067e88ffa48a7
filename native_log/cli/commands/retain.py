"""`kafkalog retain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import paths_argument, topics_options
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@click.command(short_help="Delete old segments.")
@paths_argument
@topics_options("all but Kafka's internal and the compacted ones")
@changes.settings_options
@changes.consent_options
def retain(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    conf: Any,
    conf_file: Any,
    now_ms: int | None,
    **consent: bool,
) -> None:
    """Delete old segments, by log start offset, size and time, as a broker does.

    What would go is shown first, segment by segment, and asked about. Settings: retention.ms,
    retention.bytes, cleanup.policy, file.delete.delay.ms. Files are renamed to .deleted, and removed by a run
    file.delete.delay.ms later.

    Settings that are not given are those of the topic in the cluster's metadata, if it lies in PATH
    (__cluster_metadata-0). What is neither given nor stored deletes nothing. Topics that are compacted are
    kept, unless --topic names them and --conf cleanup.policy=delete is given (not in a file).
    """
    from native_log.retention import retain as run

    config = changes.settings(conf, conf_file)
    now = current_ms() if now_ms is None else now_ms

    def job(dry_run: bool, report: Callable[[int, int], None]) -> pa.Table:
        return run(
            paths,
            topics or None,
            config,
            now,
            dry_run,
            exclude_topics=exclude_topics,
            on_progress=report,
        )

    changes.carry_out(
        job, "looking at partitions", _show_retained, lambda row: row["decision"] == "deleted", **consent
    )


def _show_retained(table: pa.Table, dry_run: bool) -> None:
    from native_log.retention.plan import list_kept_topics

    rows = table.to_pylist()
    changes.print_table(
        ("PARTITION", "FROM", "TO", "SIZE", "LAST TIME", ""),
        [
            (
                changes.partition_name(row),
                row["baseOffset"],
                row["endOffset"],
                changes.size(row["sizeInBytes"]),
                changes.time_text(row["largestTimestampMs"]),
                row["decision"],
            )
            for row in rows
        ],
        [": ".join(filter(None, (row["rule"], row["reason"]))) for row in rows],
    )
    gone = [row for row in rows if row["decision"] == "deleted"]
    partitions = len({(row["topic"], row["partition"]) for row in gone})
    click.echo(
        f"{changes.count(len(gone), 'segment')} of {changes.count(partitions, 'partition')} "
        f"{'would be deleted' if dry_run else 'deleted'}, "
        f"{changes.size(sum(row['sizeInBytes'] for row in gone))}"
    )
    kept = list_kept_topics(table)
    if kept:
        click.echo(f"kept: {kept}")
