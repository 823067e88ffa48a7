"""When a new segment is begun (Kafka: LogSegment.shouldRoll, RollParams). Decisions only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.config import LogConfig


@dataclass(frozen=True, slots=True)
class ActiveSegment:
    """What a decision asks of the segment that is written.

    Attributes:
        base_offset, size_bytes: of it.
        free_entries: how many more entries its indexes can take.
        rolling_timestamp_ms: greatest timestamp of its first batch; -1 if it has none.
        created_ms: when it was created or opened.
        jitter_ms: how much earlier than others it is rolled; drawn from [0, segment.jitter.ms).
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
    """Why a new segment has to be begun before so many bytes are appended; None: they fit.

    Time is that of the records: the clock (`now_ms`) only counts while the segment has none with a timestamp.
    So an idle log is not rolled until something is appended to it, and one record of the far future rolls at
    once.
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
    """How many of the batches, one after the other, go into the segment before it has to be rolled.

    Index entries limit them too: with as many batches as there is room for entries the index may be full.
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
