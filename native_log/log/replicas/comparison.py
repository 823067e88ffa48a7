"""Compare the batches of two copies of a log, by their headers and checksums.

A checksum covers a batch except its base offset and leader epoch, so equal offsets and checksums mean equal
records. Only ranges with different batches are decoded, to find whether their records differ too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from native_log.log.offset_span import OffsetSpan
from native_log.log.reading.log_range import LogRange
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from native_log.log.log_state import LogState
    from native_log.log.replicas.copies import InspectedCopy
    from native_log.segment.segment import LogSegment

_COLUMNS = ("baseOffset", "lastOffset", "sizeInBytes", "crc")
_RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class DifferentRange:
    """Consecutive offsets with different batches.

    Attributes:
        first_offset, last_offset: the offsets, both inclusive.
        has_equal_records: whether the records are equal, only stored in other batches.
    """

    first_offset: int
    last_offset: int
    has_equal_records: bool


class _Batch(NamedTuple):
    first_offset: int | None
    last_offset: int
    size_bytes: int
    crc: int


def different_ranges(
    copy: InspectedCopy, other: InspectedCopy, start_offset: int, end_offset: int
) -> Iterator[DifferentRange]:
    """Yield the ranges with different batches, in the order of offsets.

    Offsets that are damaged in one of the copies are not compared.

    Args:
        copy, other: the copies.
        start_offset, end_offset: the offsets to compare, end exclusive.
    """
    first: int | None = None
    last = start_offset
    for ours, theirs in _pairs(
        _comparable(copy, other, start_offset, end_offset), _comparable(other, copy, start_offset, end_offset)
    ):
        if ours == theirs:
            if first is not None:
                yield _different(copy.log, other.log, first, last)
            first = None
            continue
        for batch in (ours, theirs):
            if batch is not None:
                begin = batch.last_offset if batch.first_offset is None else batch.first_offset
                first = max(start_offset, begin) if first is None else min(first, max(start_offset, begin))
                last = min(batch.last_offset, end_offset - 1)
    if first is not None:
        yield _different(copy.log, other.log, first, last)


def _pairs(ours: Iterator[_Batch], theirs: Iterator[_Batch]) -> Iterator[tuple[_Batch | None, _Batch | None]]:
    """Yield the batches of both copies with equal last offsets as pairs, and others with None."""
    our, their = next(ours, None), next(theirs, None)
    while our is not None or their is not None:
        if their is None or (our is not None and our.last_offset < their.last_offset):
            yield our, None
            our = next(ours, None)
        elif our is None or their.last_offset < our.last_offset:
            yield None, their
            their = next(theirs, None)
        else:
            yield our, their
            our, their = next(ours, None), next(theirs, None)


def _comparable(copy: InspectedCopy, other: InspectedCopy, start: int, end: int) -> Iterator[_Batch]:
    """Yield the valid batches of a copy with offsets from `start` to before `end`.

    Batches with offsets that are damaged in the other copy are left out.
    """
    damaged = iter(other.lost)
    lost = next(damaged, None)
    for segment in copy.log.segments:
        if segment.end_offset <= start or segment.base_offset >= end:
            continue
        for batches in _valid_batches(copy.log, segment):
            columns = (batches.column(name).to_pylist() for name in _COLUMNS)
            for batch in map(_Batch, *columns):
                first = batch.last_offset if batch.first_offset is None else batch.first_offset
                if batch.last_offset < start or first >= end:
                    continue
                while lost is not None and lost.end_offset <= first:
                    lost = next(damaged, None)
                if lost is None or batch.last_offset < lost.start_offset:
                    yield batch


def _valid_batches(log: LogState, segment: LogSegment) -> Iterator[pa.RecordBatch]:
    """Yield the batches with right checksums of a segment (BATCH_SCHEMA)."""
    end = log.end_position(segment)
    if end == 0:
        return
    with SegmentLookup(segment, end, Window(), max_batch_bytes=log.max_batch_bytes) as lookup:
        for scanned in lookup.batches(0, lambda _: None, only_valid=True):
            if scanned.batches.num_rows:
                yield scanned.batches


def _different(log: LogState, other: LogState, first: int, last: int) -> DifferentRange:
    rows = zip_longest(_rows(log, first, last + 1), _rows(other, first, last + 1))
    return DifferentRange(first, last, all(ours == theirs for ours, theirs in rows))


def _rows(log: LogState, start: int, end: int) -> Iterator[tuple[object, ...]]:
    start = max(start, log.local_log_start_offset)
    slices = log.locate(OffsetSpan(start, end)).slices if start < end else ()
    located = LogRange(log.source, start, end, "read_uncommitted", slices)
    for batch in located.read(_RECORD_COLUMNS, mode="dropMalformed"):
        columns = (
            batch.column(name).cast("int64") if name == "timestamp" else batch.column(name)
            for name in _RECORD_COLUMNS
        )
        yield from zip(*(column.to_pylist() for column in columns), strict=True)
