"""Cutting a range between batches, so that its parts can be read apart."""

from __future__ import annotations

import builtins
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from native_log.log.segment_slices import EARLIER_SEGMENTS, SlicedRange
from native_log.segment.lookup import BatchBoundary, OffsetLocation, SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.log.segment_slices import SegmentSlice

Range = TypeVar("Range", bound=SlicedRange)
Cut = tuple[list["SegmentSlice"], list["SegmentSlice"]]


def split_by_bytes(range: Range, max_bytes: int) -> list[Range]:
    """See LogRange.split."""
    if max_bytes < 1:
        raise ValueError(f"max_bytes must be at least 1, found {max_bytes}")
    size = range.size_bytes
    count = -(-size // max_bytes)
    parts: list[Range] = []
    rest = range
    with _Lookups(range) as lookups:
        for number in builtins.range(1, count):
            # Counted from the end: what is before the cut is settled already.
            cut = _cut_at_byte(list(rest.slices), rest.size_bytes - size * (count - number) // count, lookups)
            if cut is None:
                continue
            offset, (left, right) = cut
            if left and right and rest.start_offset < offset < rest.end_offset:
                parts.append(replace(rest, end_offset=offset, slices=tuple(left)))
                rest = _behind(rest, offset, left, right)
    return [*parts, rest]


def split_by_offsets(range: Range, offsets: Iterable[int]) -> list[Range]:
    """See LogRange.split_at."""
    parts: list[Range] = []
    rest = range
    with _Lookups(range) as lookups:
        for offset in sorted(set(offsets)):
            if rest.start_offset < offset < rest.end_offset:
                left, right = _cut_at_offset(list(rest.slices), offset, lookups)
                parts.append(replace(rest, end_offset=offset, slices=tuple(left)))
                rest = _behind(rest, offset, left, right)
    return [*parts, rest]


def _behind(range: Range, offset: int, left: list[SegmentSlice], right: list[SegmentSlice]) -> Range:
    passed = dict.fromkeys((*range.earlier, *(piece.segment_id for piece in left)))
    return replace(range, start_offset=offset, slices=tuple(right), earlier=tuple(passed)[-EARLIER_SEGMENTS:])


class _Lookups(ExitStack):
    """Lookups by segment, each opened once."""

    def __init__(self, range: SlicedRange) -> None:
        super().__init__()
        self._range = range
        self._window = Window()
        self._by_segment: dict[str, SegmentLookup] = {}

    def of(self, piece: SegmentSlice) -> SegmentLookup:
        if piece.segment not in self._by_segment:
            end = max(other.end_position for other in self._range.slices if other.segment == piece.segment)
            lookup = SegmentLookup(
                piece.to_segment(self._range.path),
                end,
                self._window,
                max_batch_bytes=self._range.max_batch_bytes,
            )
            self._by_segment[piece.segment] = self.enter_context(lookup)
        return self._by_segment[piece.segment]


def _cut_at_byte(pieces: list[SegmentSlice], size_bytes: int, lookups: _Lookups) -> tuple[int, Cut] | None:
    """Cut off about `size_bytes` of the bytes of `pieces`, and say at which offset.

    None if there is no place to cut.
    """
    index = 0
    while index < len(pieces) and size_bytes >= (length := pieces[index].size_bytes):
        index, size_bytes = index + 1, size_bytes - length
    if index == len(pieces):
        return None
    piece = pieces[index]
    boundary: BatchBoundary | None = None
    if size_bytes > 0:
        boundary = lookups.of(piece).find_boundary(piece.start_position + size_bytes)
    elif index > 0:
        boundary = BatchBoundary(piece.start_position, piece.base_offset, piece.next_offset)
    if boundary is not None and boundary.position < piece.end_position:
        at, known = boundary.position, boundary.next_offset
        return boundary.offset, _cut(pieces, index, OffsetLocation(at, at, False, known, known), 0)
    if index + 1 < len(pieces):  # nothing to cut at in this piece: behind it
        return pieces[index + 1].base_offset, (pieces[: index + 1], pieces[index + 1 :])
    return None


def _cut_at_offset(pieces: list[SegmentSlice], offset: int, lookups: _Lookups) -> Cut:
    """Cut at `offset`.

    A batch with offsets on both sides goes to both, each side with the records that are its own.
    """
    candidates = [index for index, piece in enumerate(pieces) if piece.base_offset <= offset]
    if not candidates:
        return [], pieces
    segment = pieces[candidates[-1]].segment
    place = lookups.of(pieces[candidates[-1]]).find_offset(offset)
    for index in candidates:
        if pieces[index].segment == segment and place.position < pieces[index].end_position:
            return _cut(pieces, index, place, offset)
    return pieces[: candidates[-1] + 1], pieces[candidates[-1] + 1 :]


def _cut(pieces: Sequence[SegmentSlice], index: int, place: OffsetLocation, offset: int) -> Cut:
    piece = pieces[index]
    left, right = list(pieces[:index]), list(pieces[index + 1 :])
    position = place.position
    if position <= piece.start_position and not (place.straddles and position == piece.start_position):
        return left, [piece, *right]
    middle = min(place.end_position, piece.end_position) if place.straddles else position
    if piece.start_position < position:
        left.append(replace(piece, end_position=position))
    if middle < piece.end_position:
        right.insert(0, replace(piece, start_position=middle, next_offset=place.end_next_offset))
    if position < middle:
        batch = replace(piece, start_position=position, end_position=middle, next_offset=place.next_offset)
        left.append(replace(batch, max_offset=_least(piece.max_offset, offset)))
        right.insert(0, replace(batch, min_offset=max(piece.min_offset or 0, offset)))
    return left, right


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)
