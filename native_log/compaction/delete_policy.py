"""Old segments of compacted logs, deleted once the log is cleaned (Kafka: LogCleaner.cleanFilthiestLog,
LogCleanerManager.deletableLogs).

A cleaner does it to every compacted log that it could clean or had no reason to: with cleanup.policy
compact,delete all that retention does, with compact alone what lies below the log start offset.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.policies import RetentionPolicy
from native_log.retention.execution import apply
from native_log.retention.plan import CleanedSegment, RetentionPlan, judged, look

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.compaction.rounds import Group
    from native_log.compaction.statistics import GroupStatistics, PartitionStatistics
    from native_log.config import LogConfig
    from native_log.log import PartitionCheckpoints, PartitionLog


def with_deletion(
    told: PartitionStatistics,
    log: PartitionLog,
    config: LogConfig,
    now_ms: int,
    cleaned: Iterable[tuple[Group, GroupStatistics]] = (),
) -> PartitionStatistics:
    """The statistics of a log that is cleaned, or would be, with what retention would delete of it then.

    Args:
        log: as it was before.
        cleaned: its groups, and what each came to.
    """
    policy = RetentionPolicy(config, is_explicit=True)  # what is compacted cannot have remote storage
    after = [_cleaned_segment(group, stats) for group, stats in cleaned]
    gone = [segment for segment in judged(log, policy, now_ms, after) if segment.is_deleted]
    return replace(told, segments_deleted=len(gone), bytes_deleted=sum(one.size_bytes for one in gone))


def _cleaned_segment(group: Group, stats: GroupStatistics) -> CleanedSegment:
    largest = stats.largest_timestamp_ms
    return CleanedSegment(
        group.base_offset,
        group.end_offset,
        stats.rewritten.bytes_kept,
        largest if largest >= 0 else group.sources[-1].segment.mtime_ms,
    )


def delete_old_segments(
    cleaned: Sequence[tuple[PartitionStatistics, str, PartitionCheckpoints, LogConfig]], now_ms: int
) -> list[PartitionStatistics]:
    """Delete what `with_deletion` reported, and report the outcome. Hold the log directories' locks.

    Args:
        cleaned: statistics, path, checkpoints and settings of each partition.
    """
    plans = {
        index: look(
            path, told.topic, told.partition, checkpoints, RetentionPolicy(config, is_explicit=True), now_ms
        )
        for index, (told, path, checkpoints, config) in enumerate(cleaned)
        if told.segments_deleted
    }
    done = dict(zip(plans, apply(plans.values(), now_ms), strict=True))
    return [_told(told, done.get(index)) for index, (told, *_) in enumerate(cleaned)]


def _told(told: PartitionStatistics, plan: RetentionPlan | None) -> PartitionStatistics:
    if plan is None:
        return told
    if plan.error is not None:
        reason = f"{told.status}, but its old segments are not all deleted: {plan.error}"
        return replace(told, status="failed", reason=reason, segments_deleted=0, bytes_deleted=0)
    gone = [segment for segment in plan.segments if segment.is_deleted]
    return replace(told, segments_deleted=len(gone), bytes_deleted=sum(one.size_bytes for one in gone))
