"""Locate a range of offsets in segments that follow each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from native_log.log.slices import EARLIER_SEGMENTS, Located, SegmentSlice
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.log.log_state import LogState
    from native_log.log.offset_span import OffsetSpan
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.lookup import OffsetLocation
    from native_log.segment.segment import LogSegment


def locate(state: LogState, span: OffsetSpan) -> Located:
    """Return the slices with the records of `span`. Raises OffsetOutOfRangeError."""
    slices = tuple(_slices(state, span.start_offset, span.end_offset))
    before = bisect_left(state.base_offsets, slices[0].segment.base_offset) if slices else 0
    first = max(0, before - EARLIER_SEGMENTS)
    return Located(slices, tuple(segment.id for segment in state.segments[first:before]))


def _slices(state: LogState, start: int, end: int) -> list[SegmentSlice]:
    state.check_offset(start)
    is_live = state.checkpoints.live
    is_empty = state.local_log_start_offset == state.log_end_offset
    if not state.segments or (start >= end and (is_live or not is_empty)):
        return []
    bases = state.base_offsets
    first = max(0, bisect_right(bases, start) - 1)
    # The log ends at the base offset of a last segment that begins with damage, which must be reported. In a
    # live log, the first batch of that segment may still be being written, for example by a commit.
    last = bisect_left(bases, end) - 1 if is_live or end < state.log_end_offset else len(bases) - 1
    # The CRC of a batch does not cover its offset. So bytes limit a range, and records are selected by the
    # offset they claim only if the range begins or ends within the log.
    min_offset = start if start > bases[0] else None
    max_offset = end if end < state.log_end_offset else None
    window = Window()
    slices = []
    for index in range(first, last + 1):
        segment = state.segments[index]
        start_position, end_position = 0, state.end_position(segment)
        next_offset = segment.base_offset
        starts_within = index == first and start > segment.base_offset
        ends_within = index == last and max_offset is not None and end not in bases[index + 1 : index + 2]
        if end_position and (starts_within or ends_within):
            cuts = [offset for offset, is_within in ((start, starts_within), (end, ends_within)) if is_within]
            locations = _find_locations(state, segment, cuts, window)
            if starts_within:
                start_position, next_offset = locations[start].position, locations[start].next_offset
            if ends_within:
                end_position = locations[end].end_position
        if start_position < end_position:
            slices.append(
                SegmentSlice(segment, start_position, end_position, min_offset, max_offset, next_offset)
            )
    return slices


def headers(
    state: LogState,
    start_offset: int | None,
    on_damage: Callable[[DamagedRange], None],
    *,
    check_crcs: bool,
) -> Iterator[tuple[LogSegment, Scanned]]:
    """Yield the batch headers of the segments. See LogState.headers."""
    window = Window()
    first = 0 if start_offset is None else max(0, bisect_right(state.base_offsets, start_offset) - 1)
    for segment in state.segments[first:]:
        end = state.end_position(segment)
        if end == 0:
            continue
        with SegmentLookup(segment, end, window, max_batch_bytes=state.max_batch_bytes) as lookup:
            position, next_offset = 0, segment.base_offset
            if start_offset is not None and start_offset > segment.base_offset:
                place = find_location(state, lookup, segment, start_offset)
                position, next_offset = place.position, place.next_offset
            for scanned in lookup.batches(
                position, on_damage, next_offset=next_offset, check_crcs=check_crcs
            ):
                yield segment, scanned


def find_location(state: LogState, lookup: SegmentLookup, segment: LogSegment, offset: int) -> OffsetLocation:
    """Return the location of an offset in a segment, and remember it if the state has a cache."""
    if state.locations is None:
        return lookup.find_offset(offset)
    return state.locations.find(lookup, segment, offset, state.end_position(segment))


def _find_locations(
    state: LogState, segment: LogSegment, offsets: Sequence[int], window: Window
) -> dict[int, OffsetLocation]:
    """Return the locations of ascending offsets in a segment.

    The file is not opened if `state.locations` knows all of them.
    """
    cache, end_position = state.locations, state.end_position(segment)
    if cache is not None:
        known = {offset: location for offset in offsets if (location := cache.get(segment, offset))}
        if len(known) == len(offsets):
            return known
    with SegmentLookup(segment, end_position, window, max_batch_bytes=state.max_batch_bytes) as lookup:
        return {offset: find_location(state, lookup, segment, offset) for offset in offsets}
