"""The dry runs of a report: what compaction would free, and what retention would delete."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.names import PartitionKind
from native_log.compaction import compact
from native_log.reporting.figures import CompactionFigures, Failure, RetentionFigures
from native_log.retention import retain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from native_log.logdir import LogDir, PartitionDir

    OnProgress = Callable[[int, int], None]


def try_compaction(
    log_dir: LogDir, partitions: Sequence[PartitionDir], now_ms: int, on_progress: OnProgress
) -> tuple[CompactionFigures, ...]:
    """Make a dry run of a compaction of all logs with dirty records, and return its result by topic.

    min.cleanable.dirty.ratio is 0, so logs count that a broker would not compact yet. Only topics are
    compacted that `kafkalog compact` compacts without being asked by name.
    """
    if not has_normal_partitions(log_dir):
        return ()
    result = compact(
        log_dir.paths,
        None,
        {"min.cleanable.dirty.ratio": 0},
        now_ms,
        dry_run=True,
        storage_options=log_dir.storage_options,
        exclude_topics=other_topics(log_dir, partitions),
        on_progress=on_progress,
    )
    return compaction_figures(result.to_pylist())


def compaction_figures(rows: Iterable[dict[str, Any]]) -> tuple[CompactionFigures, ...]:
    """Return the rows (STATISTICS_SCHEMA) summed by topic. Skipped partitions are left out."""
    by_topic: dict[str, CompactionFigures] = {}
    for row in rows:
        if row["status"] == "skipped":
            continue
        sum = by_topic.get(row["topic"], CompactionFigures(row["topic"]))
        if row["status"] == "failed":
            failure = Failure(f"{row['topic']}-{row['partition']}", row["reason"])
            by_topic[row["topic"]] = replace(sum, failed=(*sum.failed, failure))
            continue
        by_topic[row["topic"]] = replace(
            sum,
            partitions=sum.partitions + 1,
            bytes_before=sum.bytes_before + row["bytesBefore"],
            bytes_after=sum.bytes_after + row["bytesAfter"],
            records_before=sum.records_before + row["recordsBefore"],
            records_after=sum.records_after + row["recordsAfter"],
            tombstones=sum.tombstones + row["tombstonesKept"] + row["tombstonesDropped"],
            null_keys=sum.null_keys + row["nullKeys"],
        )
    return tuple(by_topic.values())


def try_retention(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    now_ms: int,
    on_progress: OnProgress,
) -> tuple[RetentionFigures, ...]:
    """Make a dry run of retention with the stored settings, and return its result by topic.

    As in `kafkalog retain`, internal topics are left out.
    """
    if not has_normal_partitions(log_dir):
        return ()
    result = retain(
        log_dir.paths,
        None,
        None,
        now_ms,
        dry_run=True,
        storage_options=log_dir.storage_options,
        exclude_topics=other_topics(log_dir, partitions),
        on_progress=on_progress,
    )
    return retention_figures(result)


def retention_figures(segments: pa.Table) -> tuple[RetentionFigures, ...]:
    """Return the segments (RETENTION_SCHEMA) summed by topic."""
    groups = segments.group_by(["topic", "partition", "decision", "rule"]).aggregate(
        [("sizeInBytes", "sum"), ("baseOffset", "count"), ("reason", "min")]
    )
    topics: dict[str, RetentionFigures] = {}
    deleted: set[tuple[str, int]] = set()
    for row in groups.to_pylist():
        topic, rule = row["topic"], row["rule"]
        figures = topics.get(topic, RetentionFigures(topic))
        if row["decision"] == "failed":
            failure = Failure(f"{topic}-{row['partition']}", row["reason_min"])
            figures = replace(figures, failed=(*figures.failed, failure))
        elif row["decision"] == "kept":
            figures = replace(figures, kept_by=figures.kept_by or rule)
        else:
            is_first = (topic, row["partition"]) not in deleted
            deleted.add((topic, row["partition"]))
            figures = replace(
                figures,
                partitions=figures.partitions + is_first,
                segments=figures.segments + row["baseOffset_count"],
                size_bytes=figures.size_bytes + row["sizeInBytes_sum"],
                rules=figures.rules | {rule},
            )
        topics[topic] = figures
    return tuple(topics.values())


def has_normal_partitions(log_dir: LogDir) -> bool:
    """Return whether there are partitions that maintenance may change: not only deleted or stray ones."""
    return any(directory.kind is PartitionKind.NORMAL for directory in log_dir.partitions())


def other_topics(log_dir: LogDir, partitions: Sequence[PartitionDir]) -> list[str]:
    """Return the topics that are not among `partitions`."""
    selected = {directory.topic for directory in partitions}
    existing = {
        directory.topic for directory in log_dir.partitions() if directory.kind is PartitionKind.NORMAL
    }
    return sorted(existing - selected)
