"""Decide which part of a log can be compacted, and whether that is worth it (Kafka: LogCleanerManager).

These functions are pure: they open no file.
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
class SegmentSizes:
    """The sizes of a segment's files in bytes, before compaction."""

    base_offset: int
    size_bytes: int
    index_bytes: int = 0
    time_index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The part of a log that a round compacts (Kafka: LogToClean).

    Attributes:
        first_dirty_offset: the records below this offset were compacted before.
        end_offset: the end of the round, exclusive; always the base offset of a segment.
        clean_bytes: the size of the segments that begin below the first dirty offset.
        cleanable_bytes: the size of the segments that contain dirty records. A segment that contains the
            first dirty offset and begins below it counts in both sizes.
        is_overdue: whether the oldest dirty segment is older than max.compaction.lag.ms.
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
        """Return whether a broker would compact the log now.

        (Kafka: LogCleanerManager.grabFilthiestCompactedLog)
        """
        worth_it = self.dirty_ratio > config.min_cleanable_dirty_ratio or self.is_overdue
        return self.cleanable_bytes > 0 and worth_it


def cleanable_range(
    segments: Sequence[SegmentSizes],
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    config: LogConfig,
    now_ms: int,
    largest_timestamp_ms: Callable[[int], int],
    first_timestamp_ms: Callable[[int], int],
) -> CleanableRange:
    """Return the part of a log that can be compacted.

    Args:
        segments: all segments of the log; the last one is the active segment. There may be none.
        checkpoint: the log's entry in cleaner-offset-checkpoint. If it is None or outside the log, all
            records are dirty.
        largest_timestamp_ms: returns the largest timestamp of the segment with the given index, or the
            modification time of its file if its records have no timestamps. Called only if
            min.compaction.lag.ms is greater than 0.
        first_timestamp_ms: returns the timestamp of the first batch of the segment with the given index, or
            -1 if there is none. Called only if max.compaction.lag.ms is less than `now_ms`.

    (Kafka: LogCleanerManager.cleanableOffsets, maxCompactionDelay)
    """
    first_dirty = checkpoint if checkpoint is not None else log_start_offset
    if not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset
    if not segments:  # all .log files are missing; a broker creates a new one when it loads the log
        return CleanableRange(first_dirty, first_dirty, 0, 0, is_overdue=False)
    bases = [segment.base_offset for segment in segments]
    active = len(segments) - 1
    dirty = range(max(0, bisect_right(bases, first_dirty) - 1), active)
    limits = [last_stable_offset, bases[active]]
    if config.min_compaction_lag_ms > 0:
        too_young = now_ms - config.min_compaction_lag_ms
        limits += [bases[index] for index in dirty if largest_timestamp_ms(index) > too_young][:1]
    limit = max(first_dirty, min(limits))
    # A round ends at the beginning of a segment, at or below the limit.
    end_index = active if limit >= bases[active] else max(0, bisect_right(bases, limit) - 1)
    end_offset = bases[end_index]
    start_index = max(0, bisect_right(bases, min(first_dirty, end_offset)) - 1)
    return CleanableRange(
        first_dirty,
        end_offset,
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size_bytes for segment in segments[start_index:end_index]),
        _is_overdue(dirty, config, now_ms, first_timestamp_ms),
    )


def _is_overdue(
    dirty: range, config: LogConfig, now_ms: int, first_timestamp_ms: Callable[[int], int]
) -> bool:
    latest_overdue_ms = now_ms - config.max_compaction_lag_ms
    if latest_overdue_ms <= 0:
        return False
    times = [time for time in map(first_timestamp_ms, dirty) if time > 0]
    return bool(times) and min(times) < latest_overdue_ms


def group_segments(
    segments: Sequence[SegmentSizes], end_offset: int, config: LogConfig
) -> list[tuple[int, int]]:
    """Divide the segments below `end_offset` into groups. A round merges each group into one segment.

    A group takes as many consecutive segments as segment.bytes and segment.index.bytes allow. Their sizes
    before compaction count, so the merged segment stays within the limits. (Kafka:
    Cleaner.groupSegmentsBySize)

    Returns:
        An index range (start, end) of `segments` for each group; the end is exclusive.
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
