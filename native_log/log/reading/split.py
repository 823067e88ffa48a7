"""Split a range into parts that can be read separately."""

from __future__ import annotations

import builtins
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from native_log.log.sliced_range import SlicedRange
from native_log.log.slices import EARLIER_SEGMENTS
from native_log.segment.lookup import BatchBoundary, OffsetLocation, SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.log.slices import SegmentId, SegmentSlice
    from native_log.segment.segment import LogSegment

Range = TypeVar("Range", bound=SlicedRange)
Cut = tuple[list["SegmentSlice"], list["SegmentSlice"]]


def split_by_bytes(range: Range, max_bytes: int) -> list[Range]:
    """Split between batches. See LogRange.split."""
    if max_bytes < 1:
        raise ValueError(f"max_bytes: expected at least 1, found {max_bytes}")
    size = range.size_bytes
    count = -(-size // max_bytes)
    parts: list[Range] = []
    rest = range
    with _Lookups(range) as lookups:
        for number in builtins.range(1, count):
            # Measure from the end, since the parts before the cut are final.
            cut = _cut_at_byte(list(rest.slices), rest.size_bytes - size * (count - number) // count, lookups)
            if cut is None:
                continue
            offset, (left, right) = cut
            if left and right and rest.start_offset < offset < rest.end_offset:
                parts.append(replace(rest, end_offset=offset, slices=tuple(left)))
                rest = _after_cut(rest, offset, left, right)
    return [*parts, rest]


def split_by_offsets(range: Range, offsets: Iterable[int]) -> list[Range]:
    """Split at offsets. See LogRange.split_at."""
    parts: list[Range] = []
    rest = range
    with _Lookups(range) as lookups:
        for offset in sorted(set(offsets)):
            if rest.start_offset < offset < rest.end_offset:
                left, right = _cut_at_offset(list(rest.slices), offset, lookups)
                parts.append(replace(rest, end_offset=offset, slices=tuple(left)))
                rest = _after_cut(rest, offset, left, right)
    return [*parts, rest]


def split_between_slices(range: Range) -> list[Range]:
    """Split between slices. See LogRange.split_slices."""
    parts: list[Range] = []
    start, left, earlier = range.start_offset, list(range.slices[:1]), range.earlier
    for following in range.slices[1:]:
        offset = following.first_offset
        if start < offset < range.end_offset:
            part = replace(range, start_offset=start, end_offset=offset, slices=tuple(left), earlier=earlier)
            parts.append(part)
            start, left, earlier = offset, [], _earlier(part)
        left.append(following)
    return [*parts, replace(range, start_offset=start, slices=tuple(left), earlier=earlier)]


def first_batches(range: Range, max_bytes: int) -> Range:
    """Return the first batches of a range. See LogRange.first_batches."""
    left = max_bytes
    with _Lookups(range) as lookups:
        for index, part in enumerate(range.slices):
            if part.size_bytes <= left:
                left -= part.size_bytes
                continue
            lookup = lookups.of(part)
            boundary = lookup.find_boundary_before(part.start_position + left)
            if boundary is None or boundary.position <= part.start_position:
                if index:
                    return replace(range, end_offset=part.first_offset, slices=range.slices[:index])
                boundary = lookup.find_boundary(part.start_position + 1)
            if boundary is None or boundary.position >= part.end_position:
                following = range.slices[index + 1 : index + 2]
                end_offset = following[0].first_offset if following else range.end_offset
                return replace(range, end_offset=end_offset, slices=range.slices[: index + 1])
            cut = replace(part, end_position=boundary.position)
            return replace(range, end_offset=boundary.offset, slices=(*range.slices[:index], cut))
    return range


def _after_cut(range: Range, offset: int, left: list[SegmentSlice], right: list[SegmentSlice]) -> Range:
    earlier = _earlier(replace(range, slices=tuple(left)))
    return replace(range, start_offset=offset, slices=tuple(right), earlier=earlier)


def _earlier(range: SlicedRange) -> tuple[SegmentId, ...]:
    """Return the segments that are earlier for the range that follows this one: see Located."""
    passed = dict.fromkeys((*range.earlier, *(part.segment.id for part in range.slices)))
    return tuple(passed)[-EARLIER_SEGMENTS:]


class _Lookups(ExitStack):
    """The lookups of a range, one for each segment, which stays open."""

    def __init__(self, range: SlicedRange) -> None:
        super().__init__()
        self._range = range
        self._window = Window()
        self._by_segment: dict[LogSegment, SegmentLookup] = {}
        self.repairs_damage = range.source.repairs_damage

    def of(self, segment_slice: SegmentSlice) -> SegmentLookup:
        segment = segment_slice.segment
        if segment not in self._by_segment:
            end = max(each.end_position for each in self._range.slices if each.segment == segment)
            # A plan is only a hint: a reader locates the offsets again if a broker has replaced the file.
            lookup = SegmentLookup(segment, end, self._window, max_batch_bytes=self._range.max_batch_bytes)
            self._by_segment[segment] = self.enter_context(lookup)
        return self._by_segment[segment]


def _cut_at_byte(slices: list[SegmentSlice], size_bytes: int, lookups: _Lookups) -> tuple[int, Cut] | None:
    """Cut between batches after about `size_bytes`. Return the offset of the cut and the two sides.

    None if there is no boundary to cut at.
    """
    index = 0
    while index < len(slices) and size_bytes >= (length := slices[index].size_bytes):
        index, size_bytes = index + 1, size_bytes - length
    if index == len(slices):
        return None
    segment_slice = slices[index]
    boundary: BatchBoundary | None = None
    if size_bytes > 0:
        boundary = lookups.of(segment_slice).find_boundary(segment_slice.start_position + size_bytes)
    elif index > 0:
        boundary = BatchBoundary(
            segment_slice.start_position, segment_slice.first_offset, segment_slice.next_offset
        )
    if boundary is not None and boundary.position < segment_slice.end_position:
        at, next_offset = boundary.position, boundary.next_offset
        location = OffsetLocation(at, at, False, next_offset, next_offset)
        return boundary.offset, _cut(slices, index, location, 0)
    if index + 1 < len(slices):  # no boundary in this slice: cut after it
        return slices[index + 1].first_offset, (slices[: index + 1], slices[index + 1 :])
    return None


def _cut_at_offset(slices: list[SegmentSlice], offset: int, lookups: _Lookups) -> Cut:
    """Cut at `offset`.

    A batch with offsets on both sides belongs to both. Each side has only its own records.
    """
    candidates = [index for index, segment_slice in enumerate(slices) if segment_slice.first_offset <= offset]
    if not candidates:
        return [], slices
    last = slices[candidates[-1]]
    location = lookups.of(last).find_offset(offset)
    for index in candidates:
        segment_slice = slices[index]
        in_file = segment_slice.segment == last.segment
        if in_file and location.position < segment_slice.end_position:
            if lookups.repairs_damage and location.position < location.end_position:
                return _overlap(slices, index, location, offset)
            return _cut(slices, index, location, offset)
    return slices[: candidates[-1] + 1], slices[candidates[-1] + 1 :]


def _cut(slices: Sequence[SegmentSlice], index: int, location: OffsetLocation, offset: int) -> Cut:
    segment_slice = slices[index]
    left, right = list(slices[:index]), list(slices[index + 1 :])
    position = location.position
    if position <= segment_slice.start_position and not (
        location.straddles and position == segment_slice.start_position
    ):
        return left, [segment_slice, *right]
    middle = min(location.end_position, segment_slice.end_position) if location.straddles else position
    if segment_slice.start_position < position:
        left.append(replace(segment_slice, end_position=position))
    if middle < segment_slice.end_position:
        right.insert(0, replace(segment_slice, start_position=middle, next_offset=location.end_next_offset))
    if position < middle:
        batch = replace(
            segment_slice, start_position=position, end_position=middle, next_offset=location.next_offset
        )
        left.append(replace(batch, max_offset=_lower(segment_slice.max_offset, offset)))
        right.insert(0, replace(batch, min_offset=max(segment_slice.min_offset or 0, offset)))
    return left, right


def _overlap(slices: Sequence[SegmentSlice], index: int, location: OffsetLocation, offset: int) -> Cut:
    """Cut a slice of a joined log at a batch with offsets on both sides, or at damaged bytes.

    Both belong to both sides, because each side reads lost records from another place.
    """
    segment_slice = slices[index]
    left = replace(
        segment_slice,
        end_position=min(location.end_position, segment_slice.end_position),
        max_offset=_lower(segment_slice.max_offset, offset),
    )
    right = replace(
        segment_slice,
        start_position=max(location.position, segment_slice.start_position),
        min_offset=max(segment_slice.min_offset or 0, offset),
        next_offset=max(location.next_offset, segment_slice.next_offset),
    )
    return [*slices[:index], left], [right, *slices[index + 1 :]]


def _lower(offset: int | None, other: int) -> int:
    return other if offset is None else min(offset, other)
