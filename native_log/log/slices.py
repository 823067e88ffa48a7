"""Slices: the byte ranges of segments that hold a range of offsets, cut between batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.lookup import SegmentLookup

if TYPE_CHECKING:
    from native_log.records import OffsetOrder
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile, Window

SegmentId = tuple[int, int, int]
"""The identity of a segment file that is no longer written to: base offset, size in bytes, and modification
time in ms."""

EARLIER_SEGMENTS = 64
"""If a reader's segment disappears together with all of these segments before it, the reader assumes that
compaction merged them."""


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """A byte range of one segment, cut between batches.

    Attributes:
        segment: the segment as it was when the slice was planned.
        start_position, end_position: the byte range, end exclusive.
        min_offset, max_offset: only records with offsets in [min_offset, max_offset) are read; None: no
            bound, so that no record is filtered out by its offset.
        next_offset: no batch in the slice begins below it (see OffsetOrder).
    """

    segment: LogSegment
    start_position: int
    end_position: int
    min_offset: int | None
    max_offset: int | None
    next_offset: int

    @classmethod
    def of(
        cls,
        segment: LogSegment,
        start_position: int,
        end_position: int,
        min_offset: int | None = None,
        max_offset: int | None = None,
    ) -> SegmentSlice:
        """Return a slice of `segment` before which nothing is known about offsets."""
        return cls(segment, start_position, end_position, min_offset, max_offset, segment.base_offset)

    @property
    def size_bytes(self) -> int:
        """The number of bytes in the slice."""
        return self.end_position - self.start_position

    def __reduce__(self) -> tuple[type[SegmentSlice], tuple[object, ...]]:
        return SegmentSlice, (  # as LogSegment
            self.segment,
            self.start_position,
            self.end_position,
            self.min_offset,
            self.max_offset,
            self.next_offset,
        )

    @property
    def first_offset(self) -> int:
        """A lower bound of the offsets in the slice. Slices before it in a range have lower offsets."""
        return max(self.segment.base_offset, self.min_offset or 0, self.next_offset)

    def open(self) -> DataFile:
        """Open the segment's file. Raises LogTruncatedError if it is not the one of the plan; OSError."""
        return self.segment.open_same()

    def lookup(self, window: Window, max_batch_bytes: int) -> SegmentLookup:
        """Look up offsets up to the end of the slice. Raises as `open`."""
        return SegmentLookup(
            self.segment, self.end_position, window, max_batch_bytes=max_batch_bytes, file=self.open()
        )

    def order(self, file: DataFile) -> OffsetOrder:
        """Return the known bounds of the batches' offsets, to check their order."""
        return self.segment.offset_order(file, self.next_offset)


@dataclass(frozen=True, slots=True)
class Located:
    """Where the records of a span of offsets are.

    Attributes:
        slices: the byte ranges of the segments, in order.
        earlier: the last segments before that of the first slice, at most EARLIER_SEGMENTS. If a segment has
            disappeared, they show whether it was merged into an earlier one, or lost.
    """

    slices: tuple[SegmentSlice, ...]
    earlier: tuple[SegmentId, ...] = ()
