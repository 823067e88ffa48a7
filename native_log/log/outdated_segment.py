"""Notice a .log file that is older than its index, as in a copy of a log that is still being made."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from native_log.log.offset_span import OffsetSpan

if TYPE_CHECKING:
    from native_log.log.log_state import LogState
    from native_log.log.sliced_range import SlicedRange


def missing_start(log: LogState, range: SlicedRange) -> str | None:
    """Return why the records at the start of a range are missing; None if nothing shows that they are.

    A segment may end before the next one begins, because compaction removed records. But when a broker has
    completed a segment, its time index names one of the last offsets (Kafka:
    LogSegment.onBecomeInactiveSegment). If the .log file ends before that, it is an older version.

    Args:
        log: the log in which the range was located.
        range: the range.
    """
    start = range.start_offset
    if range.span.is_empty or (range.slices and range.slices[0].segment.base_offset <= start):
        return None
    index = bisect_right(log.base_offsets, start) - 1
    if index < 0 or index == len(log.segments) - 1:
        return None
    segment = log.segments[index]
    entry = segment.last_time_entry()
    if entry is None or entry[1] < start:
        return None
    if not range.slices and log.locate(OffsetSpan(start, segment.end_offset)).slices:
        return None  # the segment has later records, and compaction has removed those of the range
    return (
        f"{segment.log} ends before offset {start}, but its time index says that it had offset {entry[1]}: "
        "the file is incomplete, as in a copy that is still being made"
    )
