"""`kafkalog compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from native_log.cli import changes
from native_log.cli.options import paths_argument, topics_options
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@click.command(short_help="Leave the newest record of each key.")
@paths_argument
@topics_options("those whose policy is compact, or which a cleaner has compacted")
@changes.settings_options
@changes.consent_options
def compact(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    conf: Any,
    conf_file: Any,
    now_ms: int | None,
    **consent: bool,
) -> None:
    """Leave the newest record of each key, as a broker's cleaner does.

    What would go is counted first, and asked about: records and bytes, keys that live and keys that are
    deleted, when the next tombstones expire. Settings: min.cleanable.dirty.ratio,
    min.compaction.lag.ms, max.compaction.lag.ms, delete.retention.ms, segment.bytes, log.cleaner.threads,
    log.cleaner.dedupe.buffer.size.

    A topic is compacted if --topic names it, or if its policy in the cluster's metadata contains compact. If
    no policy is stored, it is compacted if a cleaner has compacted it before, or if --conf
    cleanup.policy=compact is given. Other topics are skipped.

    Segments below the log start offset go too; with the policy compact,delete, given for topics that are
    named or stored, also those that retention.ms and retention.bytes ask for, as by `kafkalog retain`.
    """
    from native_log.compaction import compact as run

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
        job,
        "compacting",
        _show_compacted,
        lambda row: row["status"] == "cleaned" or row["segmentsDeleted"] > 0,
        **consent,
    )


def _show_compacted(table: pa.Table, dry_run: bool) -> None:
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
                changes.size(row["bytesBefore"]),
                changes.size(row["bytesAfter"]),
            )
            for row in rows
        ],
        [_compaction_details(row) for row in rows],
    )
    done = [row for row in rows if row["status"] == "cleaned"]
    won = sum(row["bytesBefore"] - row["bytesAfter"] for row in done)
    records = sum(row["recordsBefore"] - row["recordsAfter"] for row in done)
    click.echo(
        f"{changes.count(len(done), 'partition')} {'would be cleaned' if dry_run else 'cleaned'}: "
        f"{changes.count(records, 'record')} less, {changes.size(won)} won"
    )
    without_key = sum(row["nullKeys"] for row in rows)
    if without_key:
        click.echo(
            f"{changes.count(without_key, 'record')} without a key: compaction drops them, and brokers take "
            "none in topics that are compacted"
        )
    deleted = sum(row["segmentsDeleted"] for row in rows)
    if deleted:
        click.echo(
            f"{changes.count(deleted, 'old segment')} {'would be deleted' if dry_run else 'deleted'}, "
            f"{changes.size(sum(row['bytesDeleted'] for row in rows))}"
        )


def _compaction_details(row: dict[str, Any]) -> str:
    parts = [row["reason"]]
    if row["segmentsBefore"]:
        parts.append(changes.count(row["segmentsBefore"], "segment"))
    if row["liveKeys"] is not None:
        parts.append(f"{row['liveKeys']:,} live and {row['deadKeys']:,} dead keys")
    if row["firstExpiryMs"] is not None:
        parts.append(f"the next tombstones expire {changes.time_text(row['firstExpiryMs'])}")
    if row["wasCleaned"]:
        parts.append(f"last cleaned {changes.time_text(row['lastCleanedMs']) or 'before'}")
    if row["segmentsDeleted"]:
        parts.append(f"{changes.count(row['segmentsDeleted'], 'segment')} past retention")
    return "; ".join(filter(None, parts))
