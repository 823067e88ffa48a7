"""Check the batches of slices: which bytes are intact, which are damaged, which offsets are missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.log.gaps import gaps_between
from native_log.log.offset_span import OffsetSpan
from native_log.policies import Gaps
from native_log.records import Scanned
from native_log.segment.files import MAX_OFFSET
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.log.slices import SegmentSlice
    from native_log.segment.damage import DamagedRange
    from native_log.segment.lookup import SegmentLookup

CHECKED_BYTES = 4 << 20
"""About how many bytes are checked before they are returned."""


@dataclass(frozen=True, slots=True)
class Intact:
    """Bytes with valid batches only."""

    slice: SegmentSlice

    @property
    def is_empty(self) -> bool:
        """Whether there are no bytes."""
        return self.slice.size_bytes == 0


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes without a valid batch.

    Attributes:
        slice: the bytes.
        range: the damaged range to which they belong.
        lost: the offsets of the span that the bytes may have held. It can be empty.
    """

    slice: SegmentSlice
    range: DamagedRange
    lost: OffsetSpan

    @property
    def is_empty(self) -> bool:
        """Whether there are no bytes."""
        return self.slice.size_bytes == 0


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets that no batch has, although the bytes are intact where it should be."""

    lost: OffsetSpan

    @property
    def is_empty(self) -> bool:
        """Whether there are no offsets."""
        return self.lost.is_empty


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that no batch has, which compaction may have removed: the topic's policy is unknown.

    Attributes:
        directory: the partition directory.
        span: the offsets.
    """

    directory: str
    span: OffsetSpan

    @property
    def is_empty(self) -> bool:
        """Whether there are no offsets."""
        return self.span.is_empty


CheckedPart = Intact | Damaged | Missing | Gap


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """Checks slices of one partition.

    Attributes:
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        gaps: whether compaction explains offsets that no batch has. If not, they are `Missing`; if that is
            unknown, they are a `Gap` in intact bytes.
    """

    max_batch_bytes: int
    gaps: Gaps

    @property
    def finds_missing(self) -> bool:
        """Whether offsets that no batch has are missing."""
        return self.gaps is Gaps.UNEXPLAINED

    def check(self, slices: Iterable[SegmentSlice], span: OffsetSpan) -> Iterator[CheckedPart]:
        """Yield the bytes of the slices and the missing offsets, in the order of offsets.

        Args:
            slices: slices that hold the offsets of `span`, in order.
            span: the offsets to look for.

        Raises:
            LogTruncatedError, FileNotFoundError: a file has changed since the slices were planned.
            OSError: a file cannot be read.
        """
        expected = span.start_offset
        for part in join_slices(slices):
            limits = (
                span.end_offset,
                part.segment.end_offset,
                MAX_OFFSET if part.max_offset is None else part.max_offset,
            )
            start = expected if self.finds_missing else max(expected, part.first_offset)
            end = max(start, min(limits))
            for checked in self._check_slice(part, OffsetSpan(start, end)):
                if not checked.is_empty:
                    yield checked
            expected = end
        if self.finds_missing and expected < span.end_offset:
            yield Missing(OffsetSpan(expected, span.end_offset))

    def _check_slice(self, part: SegmentSlice, span: OffsetSpan) -> Iterator[CheckedPart]:
        """Yield the bytes of one slice in chunks, which may be empty, and the missing offsets of `span`."""
        rest = replace(part, min_offset=span.start_offset, max_offset=span.end_offset)  # not yielded yet
        expected = span.start_offset  # the offset of the next batch
        with part.lookup(Window(), self.max_batch_bytes) as lookup:
            for scanned in _scan(lookup, part):
                if not isinstance(scanned, Scanned):
                    lost = _lost_offsets(scanned, part)
                    intact, rest = _cut(rest, scanned.position, lost.start_offset)
                    yield Intact(intact)
                    damaged, rest = _cut(rest, scanned.end_position, lost.end_offset)
                    yield Damaged(damaged, scanned, lost.intersection(span))
                    expected = max(expected, min(lost.end_offset, span.end_offset))
                    continue
                if scanned.batches.num_rows:
                    gaps = gaps_between(scanned.batches, expected) if self.gaps is not Gaps.COMPACTED else ()
                    for gap, position in gaps:
                        if self.finds_missing:
                            intact, rest = _cut(rest, position, gap.end_offset)
                            yield Intact(intact)
                            yield Missing(gap.intersection(span))
                        else:
                            yield Gap(part.segment.directory, gap.intersection(span))
                    expected = max(expected, scanned.next_offset or 0)
                if scanned.position - rest.start_position >= CHECKED_BYTES:
                    intact, rest = _cut(rest, scanned.position, scanned.next_offset or 0)
                    yield Intact(intact)
        yield Intact(rest)
        after = OffsetSpan(expected, span.end_offset)
        if self.finds_missing:
            yield Missing(after)
        elif self.gaps is Gaps.UNKNOWN:
            yield Gap(part.segment.directory, after)


def join_slices(slices: Iterable[SegmentSlice]) -> Iterator[SegmentSlice]:
    """Yield the slices. Those that follow each other in a file are yielded as one."""
    joined: SegmentSlice | None = None
    for each in slices:
        if joined is None:
            joined = each
        elif (joined.segment, joined.end_position) == (each.segment, each.start_position):
            joined = replace(joined, end_position=each.end_position, max_offset=each.max_offset)
        else:
            yield joined
            joined = each
    if joined is not None:
        yield joined


def _lost_offsets(damaged: DamagedRange, part: SegmentSlice) -> OffsetSpan:
    """Return the offsets that a damaged range of a segment may have held."""
    start = part.segment.base_offset if damaged.offset is None else damaged.offset
    end = part.segment.end_offset if damaged.next_offset is None else damaged.next_offset
    return OffsetSpan(start, max(start, end))


def _scan(lookup: SegmentLookup, part: SegmentSlice) -> Iterator[Scanned | DamagedRange]:
    """Yield the valid batches of a slice and the damaged ranges between them, in the order of positions."""
    damaged: list[DamagedRange] = []
    for scanned in lookup.batches(
        part.start_position, damaged.append, next_offset=part.next_offset, only_valid=True
    ):
        yield from damaged
        damaged.clear()
        yield scanned
    yield from damaged


def _cut(part: SegmentSlice, position: int, next_offset: int) -> tuple[SegmentSlice, SegmentSlice]:
    """Cut a slice at a batch, or at its start or end. `next_offset` is that of the second part."""
    after = replace(part, start_position=position, next_offset=max(part.next_offset, next_offset))
    return replace(part, end_position=position), after
