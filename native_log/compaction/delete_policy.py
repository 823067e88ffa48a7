"""Delete old segments of compacted logs (Kafka: LogCleaner.cleanFilthiestLog,
LogCleanerManager.deletableLogs).

A broker's log cleaner does this for each log that it compacted, or that was not worth compacting. With
cleanup.policy compact,delete it applies all rules of retention. With compact alone it deletes only the
segments below the log start offset.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.policies import RetentionPolicy
from native_log.retention.execution import execute_plans
from native_log.retention.plan import CompactedSegment, decide_segments, plan_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.compaction.rounds import Group
    from native_log.compaction.statistics import GroupStatistics, PartitionStatistics
    from native_log.config import LogConfig
    from native_log.log import PartitionCheckpoints, PartitionLog
    from native_log.retention.plan import RetentionPlan


def add_planned_deletions(
    stats: PartitionStatistics,
    log: PartitionLog,
    config: LogConfig,
    now_ms: int,
    compacted: Iterable[tuple[Group, GroupStatistics]] = (),
) -> PartitionStatistics:
    """Add to the statistics what the delete policy would delete once the log is compacted.

    Args:
        log: the log before compaction.
        compacted: the groups of the round, and the result of rewriting each.
    """
    policy = RetentionPolicy(config, is_explicit=True)  # a compacted topic cannot have remote storage
    segments = [_compacted_segment(group, group_stats) for group, group_stats in compacted]
    deleted = [segment for segment in decide_segments(log, policy, now_ms, segments) if segment.is_deleted]
    return replace(
        stats, segments_deleted=len(deleted), bytes_deleted=sum(segment.size_bytes for segment in deleted)
    )


def _compacted_segment(group: Group, stats: GroupStatistics) -> CompactedSegment:
    largest = stats.largest_timestamp_ms
    return CompactedSegment(
        group.base_offset,
        group.end_offset,
        stats.rewritten.bytes_kept,
        largest if largest >= 0 else group.sources[-1].segment.mtime_ms,
    )


def delete_old_segments(
    partitions: Sequence[tuple[PartitionStatistics, str, PartitionCheckpoints, LogConfig]], now_ms: int
) -> list[PartitionStatistics]:
    """Delete what `add_planned_deletions` announced, and return the statistics with the outcome.

    Hold the locks of the log directories.

    Args:
        partitions: the statistics, directory, checkpoints and settings of each partition.
    """
    plans = {
        index: plan_partition(
            path, stats.topic, stats.partition, checkpoints, RetentionPolicy(config, is_explicit=True), now_ms
        )
        for index, (stats, path, checkpoints, config) in enumerate(partitions)
        if stats.segments_deleted
    }
    executed = dict(zip(plans, execute_plans(plans.values(), now_ms), strict=True))
    return [_add_outcome(stats, executed.get(index)) for index, (stats, *_) in enumerate(partitions)]


def _add_outcome(stats: PartitionStatistics, plan: RetentionPlan | None) -> PartitionStatistics:
    if plan is None:
        return stats
    if plan.error is not None:
        reason = f"{stats.status}, but not all of its old segments were deleted: {plan.error}"
        return replace(stats, status="failed", reason=reason, segments_deleted=0, bytes_deleted=0)
    deleted = [segment for segment in plan.segments if segment.is_deleted]
    return replace(
        stats, segments_deleted=len(deleted), bytes_deleted=sum(segment.size_bytes for segment in deleted)
    )
