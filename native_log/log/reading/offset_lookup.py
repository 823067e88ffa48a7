"""Locate a range of offsets in the files of a log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from native_log.log.segment_slices import EARLIER_SEGMENTS, SegmentSlice
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.local_log import LocalLog
    from native_log.log.segment_slices import SegmentId
    from native_log.segment.lookup import OffsetLocation
    from native_log.segment.segment import LogSegment


def locate(log: LocalLog, start: int, end: int) -> tuple[tuple[SegmentSlice, ...], tuple[SegmentId, ...]]:
    """Return the slices with the records from `start` to before `end`, and LogRange.earlier.

    Raises OffsetOutOfRangeError.
    """
    slices = tuple(_slices(log, start, end))
    before = 0
    if slices:
        before = bisect_left([s.base_offset for s in log.segments], slices[0].segment.base_offset)
    first = max(0, before - EARLIER_SEGMENTS)
    return slices, tuple(s.id for s in log.segments[first:before])


def _slices(log: LocalLog, start: int, end: int) -> list[SegmentSlice]:
    log.check_offset(start)
    is_live = log.checkpoints.live
    is_empty = log.local_log_start_offset == log.log_end_offset
    if not log.segments or (start >= end and (is_live or not is_empty)):
        return []
    bases = [segment.base_offset for segment in log.segments]
    first = max(0, bisect_right(bases, start) - 1)
    # The log ends at the base offset of a last segment that begins with damage, which must be reported. In a
    # live log, the first batch of that segment may still be being written, for example by a commit.
    last = bisect_left(bases, end) - 1 if is_live or end < log.log_end_offset else len(bases) - 1
    # The CRC of a batch does not cover its offset. So bytes limit a range, and records are selected by the
    # offset they claim only if the range begins or ends within the log.
    min_offset = start if start > bases[0] else None
    max_offset = end if end < log.log_end_offset else None
    window = Window()
    slices = []
    for index in range(first, last + 1):
        segment = log.segments[index]
        start_position, end_position = 0, log.end_position(segment)
        next_offset = segment.base_offset
        starts_within = index == first and start > segment.base_offset
        ends_within = index == last and max_offset is not None and end not in bases[index + 1 : index + 2]
        if end_position and (starts_within or ends_within):
            cuts = [offset for offset, is_within in ((start, starts_within), (end, ends_within)) if is_within]
            locations = find_locations(log, segment, cuts, window)
            if starts_within:
                start_position, next_offset = locations[start].position, locations[start].next_offset
            if ends_within:
                end_position = locations[end].end_position
        if start_position < end_position:
            slices.append(
                SegmentSlice(segment, start_position, end_position, min_offset, max_offset, next_offset)
            )
    return slices


def find_locations(
    log: LocalLog, segment: LogSegment, offsets: Sequence[int], window: Window
) -> dict[int, OffsetLocation]:
    """Return the locations of ascending offsets in a segment.

    The file is not opened if `log.locations` knows all of them.
    """
    cache, end_position = log.locations, log.end_position(segment)
    if cache is not None:
        known = {offset: location for offset in offsets if (location := cache.get(segment, offset))}
        if len(known) == len(offsets):
            return known
    with SegmentLookup(segment, end_position, window, max_batch_bytes=log.max_batch_bytes) as lookup:
        if cache is None:
            return {offset: lookup.find_offset(offset) for offset in offsets}
        return {offset: cache.find(lookup, segment, offset, end_position) for offset in offsets}
