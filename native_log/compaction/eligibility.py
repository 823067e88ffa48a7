"""What of a log may be cleaned, and whether it is worth it (Kafka: LogCleanerManager, LogToClean).

Decisions only: nothing is opened here.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.config import LogConfig


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """What the decisions ask of a segment; sizes in bytes, before cleaning."""

    base_offset: int
    size_bytes: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    mtime_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The part of a log that a round cleans.

    Attributes:
        first_dirty_offset: what is below was cleaned before.
        end_offset: the round's end, exclusive: always a segment's base offset.
        clean_bytes: of segments that begin below the first dirty offset.
        cleanable_bytes: of those that the dirty part lies in. The one in which it begins counts in both.
        is_overdue: max.compaction.lag.ms is over for the oldest dirty segment.
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_candidate(self, config: LogConfig) -> bool:
        """Whether a broker would clean it now. (Kafka: LogCleanerManager.grabFilthiestCompactedLog)"""
        worth_it = self.dirty_ratio > config.min_cleanable_dirty_ratio or self.is_overdue
        return self.cleanable_bytes > 0 and worth_it


def cleanable(
    segments: Sequence[SourceSegment],
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    config: LogConfig,
    now_ms: int,
    largest_timestamp_ms: Callable[[int], int],
    first_timestamp_ms: Callable[[int], int],
) -> Cleanable:
    """What may be cleaned of the log with these segments, the last of which is active.

    Args:
        checkpoint: the log's entry in cleaner-offset-checkpoint. None, or one that lies outside of the log:
            all is dirty.
        largest_timestamp_ms, first_timestamp_ms: of the segment with that index (the file's mtime, resp. -1,
            where it has none). Asked only where min. resp. max.compaction.lag.ms needs them.

    (Kafka: LogCleanerManager.cleanableOffsets, maxCompactionDelay)
    """
    first_dirty = checkpoint if checkpoint is not None else log_start_offset
    if not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset
    bases = [segment.base_offset for segment in segments]
    active = len(segments) - 1
    dirty = range(max(0, bisect_right(bases, first_dirty) - 1), active)
    limits = [last_stable_offset, bases[active]]
    if config.min_compaction_lag_ms > 0:
        too_young = now_ms - config.min_compaction_lag_ms
        limits += [bases[index] for index in dirty if largest_timestamp_ms(index) > too_young][:1]
    limit = max(first_dirty, min(limits))
    # Cleaning ends at a segment's border, at or below the limit.
    end_index = active if limit >= bases[active] else max(0, bisect_right(bases, limit) - 1)
    end_offset = bases[end_index]
    start_index = max(0, bisect_right(bases, min(first_dirty, end_offset)) - 1)
    return Cleanable(
        first_dirty,
        end_offset,
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size_bytes for segment in segments[start_index:end_index]),
        _is_overdue(dirty, config, now_ms, first_timestamp_ms),
    )


def _is_overdue(
    dirty: range, config: LogConfig, now_ms: int, first_timestamp_ms: Callable[[int], int]
) -> bool:
    must_be_cleaned = now_ms - config.max_compaction_lag_ms
    if must_be_cleaned <= 0:
        return False
    times = [time for time in map(first_timestamp_ms, dirty) if time > 0]
    return bool(times) and must_be_cleaned > min(times)


def group_segments(
    segments: Sequence[SourceSegment], end_offset: int, config: LogConfig
) -> list[tuple[int, int]]:
    """The segments below `end_offset`, in groups that become one segment each: index ranges, end exclusive.

    Greedy, by sizes before cleaning, so that the output keeps within the limits of a segment. (Kafka:
    Cleaner.groupSegmentsBySize)
    """
    chosen = [segment for segment in segments if segment.base_offset < end_offset]
    groups = []
    start = 0
    while start < len(chosen):
        size = chosen[start].size_bytes
        index, time_index = chosen[start].index_bytes, chosen[start].time_index_bytes
        end = start + 1
        while end < len(chosen):
            following = chosen[end]
            size += following.size_bytes
            index += following.index_bytes
            time_index += following.time_index_bytes
            upper = chosen[end + 1].base_offset if end + 1 < len(chosen) else end_offset
            span = upper - 1 - chosen[start].base_offset
            in_span = following.size_bytes == 0 or span <= MAX_RELATIVE_OFFSET
            within = max(index, time_index) <= config.segment_index_bytes and size <= config.segment_bytes
            if not (within and in_span):
                break
            end += 1
        groups.append((start, end))
        start = end
    return groups
