"""`kafkalog compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import paths_argument, storage_option, topics_options
from native_log.sizes import format_count
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@click.command(short_help="Keep only the newest record of each key.")
@paths_argument
@storage_option
@topics_options("topics with the policy compact, or compacted before")
@changes.settings_options
@changes.confirmation_options
def compact(
    paths: tuple[str, ...],
    storage_options: dict[str, str],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    conf: Any,
    conf_file: Any,
    now_ms: int | None,
    **confirmation: bool,
) -> None:
    """Keep only the newest record of each key, as a broker's log cleaner does.

    The command first shows what it would remove and asks for confirmation: records and bytes, live and dead
    keys, and when the next tombstones expire. Settings: min.cleanable.dirty.ratio, min.compaction.lag.ms,
    max.compaction.lag.ms, delete.retention.ms, segment.bytes, log.cleaner.threads,
    log.cleaner.dedupe.buffer.size.

    A topic is compacted if --topic names it, or if its policy in the cluster's metadata contains compact. If
    no policy is stored, it is compacted if a cleaner has compacted it before, or if --conf sets
    cleanup.policy=compact. Other topics are skipped.

    Segments below the log start offset are deleted, too. With the policy compact,delete (stored, or given for
    named topics), old segments are deleted by retention.ms and retention.bytes, as by `kafkalog retain`.
    """
    from native_log.compaction import compact as run
    from native_log.outcomes import is_outcome

    config = changes.load_settings(conf, conf_file)
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
            storage_options=storage_options,
        )

    changes.carry_out(
        job,
        "compacting",
        _show,
        lambda row: is_outcome(row["status"], "cleaned") or row["segmentsDeleted"] > 0,
        **confirmation,
    )


def _show(table: pa.Table, dry_run: bool) -> None:
    from native_log.outcomes import is_outcome

    rows = table.to_pylist()
    changes.print_table(
        ("PARTITION", "", "DIRTY", "RECORDS", "KEPT", "SIZE", "KEPT"),
        [
            (
                changes.partition_name(row),
                row["status"],
                row["dirtyRatio"],
                row["recordsBefore"],
                row["recordsAfter"],
                changes.size_cell(row["bytesBefore"]),
                changes.size_cell(row["bytesAfter"]),
            )
            for row in rows
        ],
        [_details(row) for row in rows],
    )
    done = [row for row in rows if is_outcome(row["status"], "cleaned")]
    saved = sum(row["bytesBefore"] - row["bytesAfter"] for row in done)
    records = sum(row["recordsBefore"] - row["recordsAfter"] for row in done)
    click.echo(
        f"{format_count(len(done), 'partition')} {'would be compacted' if dry_run else 'compacted'}: "
        f"{format_count(records, 'record')} fewer, {changes.size_cell(saved)} saved"
    )
    without_key = sum(row["nullKeys"] for row in rows)
    if without_key:
        click.echo(
            f"{format_count(without_key, 'record')} without a key: compaction removes them, because brokers "
            "accept none in compacted topics"
        )
    deleted = sum(row["segmentsDeleted"] for row in rows)
    if deleted:
        click.echo(
            f"{format_count(deleted, 'old segment')} {'would be deleted' if dry_run else 'deleted'}, "
            f"{changes.size_cell(sum(row['bytesDeleted'] for row in rows))}"
        )
    changes.print_settings(rows)


def _details(row: dict[str, Any]) -> str:
    parts = [row["reason"]]
    if row["segmentsBefore"]:
        parts.append(format_count(row["segmentsBefore"], "segment"))
    if row["liveKeys"] is not None:
        parts.append(f"{row['liveKeys']:,} live and {row['deadKeys']:,} dead keys")
    if row["firstExpiryMs"] is not None:
        parts.append(f"the next tombstones expire {changes.time_cell(row['firstExpiryMs'])}")
    if row["wasCleaned"]:
        parts.append(f"last compacted {changes.time_cell(row['lastCleanedMs']) or 'before'}")
    if row["segmentsDeleted"]:
        parts.append(f"{format_count(row['segmentsDeleted'], 'segment')} beyond retention")
    return "; ".join(filter(None, parts))
