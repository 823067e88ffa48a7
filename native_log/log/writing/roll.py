"""Decide when to roll a segment (Kafka: LogSegment.shouldRoll, RollParams). The functions are pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.config import LogConfig


@dataclass(frozen=True, slots=True)
class ActiveSegment:
    """The state of the active segment that a decision depends on.

    Attributes:
        base_offset: its base offset.
        size_bytes: the size of its .log file.
        free_entries: the number of entries for which its indexes have room.
        rolling_timestamp_ms: the maximum timestamp of its first batch; -1 if there is none.
        created_ms: when it was created or opened.
        jitter_ms: how much earlier it is rolled, a random number in [0, segment.jitter.ms).
    """

    base_offset: int
    size_bytes: int
    free_entries: int
    rolling_timestamp_ms: int
    created_ms: int
    jitter_ms: int = 0


def roll_reason(
    segment: ActiveSegment,
    config: LogConfig,
    size_bytes: int,
    max_timestamp_ms: int,
    last_offset: int,
    now_ms: int,
) -> str | None:
    """Return why a segment must be rolled before a batch is appended; None if the batch fits.

    Age is measured by record timestamps. The clock (`now_ms`) counts only while the segment's first batch has
    no timestamp. So an idle log is not rolled before the next append, and a single record with a timestamp in
    the far future rolls the segment at once.

    Args:
        segment: the active segment.
        config: the log's settings.
        size_bytes, max_timestamp_ms, last_offset: those of the batch.
        now_ms: the current time.
    """
    if segment.size_bytes > config.segment_bytes - size_bytes:
        return "size"
    if segment.size_bytes > 0:
        if segment.rolling_timestamp_ms >= 0:
            waited_ms = max_timestamp_ms - segment.rolling_timestamp_ms
        else:
            waited_ms = now_ms - segment.created_ms
        if waited_ms > config.max_segment_ms - segment.jitter_ms:
            return "time"
    if segment.free_entries <= 0:
        return "index full"
    if not 0 <= last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
        return "offset overflow"
    return None


def count_fitting_batches(
    segment: ActiveSegment,
    config: LogConfig,
    sizes: Sequence[int],
    max_timestamps_ms: Sequence[int],
    last_offsets: Sequence[int],
    now_ms: int,
) -> int:
    """Return how many of the batches, in order, fit into the segment before it must be rolled.

    The number of free index entries is a limit too, because each batch may add one entry.
    """
    size, first_ms = segment.size_bytes, segment.rolling_timestamp_ms
    room = min(len(sizes), segment.free_entries)
    most_bytes, most_ms = config.segment_bytes, config.max_segment_ms - segment.jitter_ms
    for i in range(room):
        if size > most_bytes - sizes[i]:
            return i
        if size > 0:
            waited_ms = max_timestamps_ms[i] - first_ms if first_ms >= 0 else now_ms - segment.created_ms
            if waited_ms > most_ms:
                return i
        else:
            first_ms = max_timestamps_ms[i]
        if not 0 <= last_offsets[i] - segment.base_offset <= MAX_RELATIVE_OFFSET:
            return i
        size += sizes[i]
    return room
