"""Count the records of ranges, from the headers of batches as far as they suffice."""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.changing_files import CHANGED
from native_log.log.producers.transactions import aborted_ranges
from native_log.log.reading.damage_log import DamageLog
from native_log.log.reading.reader import read_rows
from native_log.log.reading.small_parts import THREADS, small_parts
from native_log.prefetch import map_ahead
from native_log.segment.scan import int64s
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.log.reading.log_range import LogRange
    from native_log.log.reading.options import ReadOptions
    from native_log.log.slices import SegmentSlice
    from native_log.segment.damage import DamagedRange

logger = logging.getLogger(__name__)

_FROM_HEADERS = {"offset", "topic", "partition"}
"""Columns about which the header of a batch says all."""


def count_rows(ranges: Sequence[LogRange], options: ReadOptions, threads: int = 1) -> int:
    """Return the number of rows that reading the ranges returns. See LogScan.count_rows."""
    parts = small_parts(ranges)
    if parts is not None:
        ranges, threads = parts, THREADS
    if threads == 1:
        return sum(count_range(each, options) for each in ranges)
    return sum(map_ahead(lambda each: count_range(each, options), ranges, threads))


def count_range(range: LogRange, options: ReadOptions) -> int:
    """Return the number of rows that reading the range returns.

    Raises: as LogRange.read, except for damage that only a checksum reveals.
    """
    if _headers_suffice(options) and not range.source.lost(range.span):
        try:
            return _HeaderCount(range, options).count()
        except CHANGED:
            pass  # a broker removed a segment; a reader continues with what took its place
    return _count_decoded(range, options)


def _headers_suffice(options: ReadOptions) -> bool:
    """Return whether headers decide about all batches but those that a bound cuts."""
    filter = options.filter
    if options.mode == "permissive" or filter is None:
        return options.mode != "permissive"
    return filter.is_exact and not filter.patterns and _FROM_HEADERS.issuperset(filter.columns)


def _count_decoded(range: LogRange, options: ReadOptions) -> int:
    return sum(batch.num_rows for batch in read_rows(range, [], options))


class _HeaderCount:
    """Counts the records of one range. Batches that headers do not decide are decoded."""

    def __init__(self, range: LogRange, options: ReadOptions) -> None:
        self._range = range
        self._options = options
        self._first, self._last = (None, None) if options.filter is None else options.filter.offsets
        self._aborted: dict[int, list[tuple[int, int]]] | None = None  # by producer; None: unknown yet
        if range.isolation_level == "read_uncommitted":
            self._aborted = {}

    def count(self) -> int:
        filter = self._options.filter
        if filter is not None and not (
            filter.is_possible and all(filter.selects([(self._range.topic, self._range.partition)]))
        ):
            return 0
        damage_log = DamageLog(logger, self._options)

        def on_damage(damaged: DamagedRange) -> None:
            damage_log.add([damaged])

        total, undecided, window = 0, [], Window()
        for part in self._range.readable_slices():
            with part.lookup(window, self._range.max_batch_bytes) as lookup:
                for scanned in lookup.batches(part.start_position, on_damage, next_offset=part.next_offset):
                    count, rest = self._count_batches(part, scanned.batches)
                    total += count
                    undecided += rest
        damage_log.finish()
        if undecided:
            # Batches of aborted transactions are not among them.
            left = replace(
                self._range,
                source=self._range.source.without_repair(),
                slices=tuple(undecided),
                isolation_level="read_uncommitted",
            )
            total += _count_decoded(left, self._options)
        return total

    def _count_batches(self, part: SegmentSlice, batches: pa.RecordBatch) -> tuple[int, list[SegmentSlice]]:
        """Return the number of records in batches that headers decide, and slices of the other batches."""
        if not batches.num_rows:
            return 0, []
        first, end = self._bounds(part)
        may_be_aborted = self._aborted != {} and batches.column("isTransactional").true_count > 0
        if not may_be_aborted and _are_whole(batches, first, end):
            return pc.sum(batches.column("recordCount")).as_py(), []
        lasts, bases = batches.column("lastOffset"), batches.column("baseOffset")
        has_data = pc.and_(
            pc.invert(batches.column("isControl")),
            pc.and_(pc.greater_equal(lasts, first), pc.coalesce(pc.less(bases, end), pa.scalar(True))),
        )
        is_whole = pc.and_(pc.greater_equal(bases, first), pc.less(lasts, end))
        is_decided = pc.coalesce(pc.and_(is_whole, _is_possible_count(batches)), pa.scalar(False))
        if may_be_aborted:
            has_data = pc.and_(has_data, self._is_committed(batches))
        counted = pc.and_(has_data, is_decided)
        total = pc.sum(batches.column("recordCount").filter(counted)).as_py() or 0
        rest = batches.filter(pc.and_(has_data, pc.invert(is_decided)))
        return total, list(self._slices(part, rest))

    def _bounds(self, part: SegmentSlice) -> tuple[int, int]:
        """Return the first offset to count in a slice, and the end, exclusive."""
        least = [offset for offset in (part.min_offset, self._first) if offset is not None]
        most = [part.max_offset, None if self._last is None else self._last + 1]
        return max(least, default=-(2**63)), min((o for o in most if o is not None), default=2**63 - 1)

    def _slices(self, part: SegmentSlice, batches: pa.RecordBatch) -> Iterator[SegmentSlice]:
        names = ("position", "sizeInBytes", "baseOffset")
        rows = zip(*(batches.column(name).to_pylist() for name in names), strict=True)
        for position, size_bytes, base_offset in rows:
            yield replace(
                part,
                start_position=position,
                end_position=position + size_bytes,
                next_offset=part.next_offset if base_offset is None else base_offset,
            )

    def _is_committed(self, batches: pa.RecordBatch) -> pa.Array:
        """Return whether each batch is of no aborted transaction."""
        if self._aborted is None:
            self._aborted = {}
            packed = aborted_ranges(self._range, lambda _: None, only_valid=False)
            for producer, first, last in struct.iter_unpack("=qqq", packed):
                self._aborted.setdefault(producer, []).append((first, last))
        rows = zip(
            *(batches.column(name).to_pylist() for name in ("isTransactional", "producerId", "baseOffset")),
            strict=True,
        )
        return pa.array([not (flag and self._is_aborted(producer, base)) for flag, producer, base in rows])

    def _is_aborted(self, producer_id: int, base_offset: int) -> bool:
        transactions = (self._aborted or {}).get(producer_id, [])
        at = bisect_right(transactions, (base_offset, 2**63))
        return at > 0 and base_offset <= transactions[at - 1][1]


def _are_whole(batches: pa.RecordBatch, first: int, end: int) -> bool:
    """Return whether all records of all batches count: most chunks of a log are like that."""
    columns = [batches.column(name) for name in ("recordCount", "baseOffset", "lastOffset")]
    if batches.column("isControl").true_count or any(column.null_count for column in columns):
        return False
    # The scan found that offsets increase.
    is_within = int64s(batches, "baseOffset")[0] >= first and int64s(batches, "lastOffset")[-1] < end
    return is_within and not _is_possible_count(batches).false_count


def _is_possible_count(batches: pa.RecordBatch) -> pa.Array:
    """Return for each batch whether its header has a possible record count; null if it has none."""
    counts, bases, lasts = (batches.column(name) for name in ("recordCount", "baseOffset", "lastOffset"))
    return pc.and_(pc.greater_equal(counts, 0), pc.less(counts, pc.add(pc.subtract(lasts, bases), 2)))
