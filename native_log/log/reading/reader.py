"""Read a range of a log chunk by chunk, past damage, while a broker may change the files."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from native_log.errors import LogTruncatedError, LostOffsetsError
from native_log.log.changing_files import ATTEMPTS, CHANGED, retry_changed
from native_log.log.offset_span import OffsetSpan
from native_log.log.producers.transactions import aborted_ranges
from native_log.log.reading.damage_log import DamageLog
from native_log.log.reading.damage_rows import damage_rows, insert_rows
from native_log.log.reading.row_selection import RowSelection
from native_log.log.reading.split import split_by_offsets
from native_log.log.slices import Located
from native_log.records import CORRUPT_RECORD, DecodeOptions, decode, decode_file
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import damage_in, damaged_range, first_damage, skipped_ranges
from native_log.segment.search import BatchSearch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.log.reading.options import ReadOptions
    from native_log.log.sliced_range import SlicedRange
    from native_log.log.slices import SegmentSlice
    from native_log.records import Decoded, OffsetOrder
    from native_log.segment.damage import DamagedRange

logger = logging.getLogger(__name__)

READ_BYTES = 4 << 20
"""How many bytes of a file are decoded in one call. They make batches of tens of thousands of rows, since
each batch has a cost for its consumer (almost a millisecond in Spark's JVM)."""

IS_TRANSACTIONAL = "isTransactional"


class Decode(Protocol):
    """What a Reader does with the batches of each chunk."""

    def __call__(
        self, cursor: BatchCursor, stop: int, columns: Sequence[str], options: DecodeOptions
    ) -> Decoded:
        """Decode the batches from the cursor's position to before byte `stop`.

        If `columns` has isTransactional although the query has not, the reader does not know yet which
        transactions were aborted. If the chunk has transactions, it is decoded again.
        """


def decode_rows(cursor: BatchCursor, stop: int, columns: Sequence[str], options: DecodeOptions) -> Decoded:
    """Decode records to rows. See Decode."""
    data = cursor.file.in_memory(cursor.position, stop)
    if data is not None:
        return decode(data, columns, options, base_position=cursor.position, order=cursor.order)
    read = partial(decode_file, columns=columns, options=options, order=cursor.order)
    return cursor.file.read_by(read, cursor.position, stop)


def read_rows(range: SlicedRange, columns: Sequence[str], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read the records of a range. See LogRange.read."""
    return Reader(range, columns, options).batches()


class Reader:
    """Read one range once.

    Args:
        range: the range.
        columns: see LogRange.read.
        options: how to read.
        decode: what to do with the batches.

    Attributes:
        next_offset: the offset after the last batch that was read.
        has_located_again: whether files were removed, replaced or truncated since the range was located.
    """

    def __init__(
        self,
        range: SlicedRange,
        columns: Sequence[str],
        options: ReadOptions,
        decode: Decode = decode_rows,
    ) -> None:
        self._range = range
        self._selection = RowSelection.of(columns, options, (range.topic, range.partition))
        self._options = options
        self._decode_batches = decode
        self._decoded_columns = [name for name in self._selection.columns if name != CORRUPT_RECORD]
        # The columns that are decoded until the first transaction: see _aborted.
        self._watched_columns = list(dict.fromkeys((*self._decoded_columns, IS_TRANSACTIONAL)))
        self._transactional_index = self._watched_columns.index(IS_TRANSACTIONAL)
        limits = [rows for rows in (options.first_rows, options.max_rows) if rows is not None]
        self._limit_rows = None if options.first_rows is None else min(limits)
        self._damage_log = DamageLog(logger, options)
        self.next_offset = range.start_offset
        self.has_located_again = False
        self._slices = range.slices
        self._aborted: bytes | None = None  # None: unknown, as long as no transaction was read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records. See LogRange.read for the errors."""
        try:
            yield from self._batches()
        finally:
            self._damage_log.finish()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        failed_at, failures = -1, 0
        for lost in self._range.source.lost(self._range.span):
            self._report_lost(lost)
        while True:
            try:
                self._aborted = b"" if self._range.isolation_level == "read_uncommitted" else None
                if self._selection.is_empty:
                    return
                left = replace(self._range, start_offset=self.next_offset, slices=self._slices)
                for segment_slice in left.readable_slices():
                    rest = self._selection.rest_of(segment_slice, self._range.max_batch_bytes)
                    for batch in self._read_slice(rest):
                        selected = self._selection.apply(batch)
                        if selected.num_rows:
                            yield selected
                return
            except CHANGED as error:
                if not self._options.relocate:
                    raise
                failures = failures + 1 if failed_at == self.next_offset else 1
                if failures == ATTEMPTS:
                    raise
                failed_at = self.next_offset
                self._locate_again(error)

    def _report_lost(self, lost: OffsetSpan) -> None:
        """Raise an error for offsets that are nowhere, or log a warning without `fail_on_data_loss`."""
        message = lost.describe_loss()
        if self._options.fail_on_data_loss:
            raise LostOffsetsError(message, path=self._range.path, offset=lost.start_offset)
        logger.warning("%s: %s", self._range.path, message)

    def _read_slice(self, segment_slice: SegmentSlice) -> Iterator[pa.RecordBatch]:
        """Yield the records of one slice."""
        with segment_slice.open() as file:
            start, end, order = (
                segment_slice.start_position,
                segment_slice.end_position,
                segment_slice.order(file),
            )
            file.will_read(start, end)
            search = BatchSearch(file, end, self._range.max_batch_bytes)
            cursor = BatchCursor(file, start, end, order, search=search, check_crcs=self._options.check_crcs)
            while cursor.has_more:
                stop = cursor.stop(READ_BYTES)
                decoded = self._decode(cursor, stop, segment_slice)
                if self._aborted is None and decoded.batch.column(self._transactional_index).true_count:
                    self._aborted = self._find_aborted()
                    decoded = self._decode(cursor, stop, segment_slice)
                decoded = cursor.advance(decoded, stop - cursor.position)
                if decoded.skipped:
                    search.restart()
                skipped = skipped_ranges(file.path, decoded.skipped)
                self._damage_log.add(skipped)
                batch = self._complete(decoded.batch)
                if skipped and self._options.mode == "permissive":
                    rows_before = [rows for rows, *_ in decoded.skipped]
                    batch = insert_rows(batch, self._damage_rows(skipped, segment_slice), rows_before)
                if batch.num_rows:
                    yield batch
                    self._limit_rows = self._options.max_rows
                if decoded.next_offset is not None:
                    self.next_offset = decoded.next_offset
                damage = damage_in(cursor, decoded, self._range.max_batch_bytes)
                if damage is not None:
                    order = cursor.order or order
                    if _is_beyond(order, segment_slice.max_offset):
                        return
                    if self._options.check_crcs:
                        damage, order = first_damage(cursor, damage, order, search)
                    if damage.position < cursor.position:  # the last batch counts as read, but is damaged
                        self.next_offset = order.next_offset
                    damaged = damaged_range(search, damage, order, order.next_offset)
                    self._damage_log.add([damaged])
                    if self._options.mode == "permissive":
                        yield self._damage_rows([damaged], segment_slice)
                    cursor.order = order
                    cursor.skip_to(damaged.end_position)

    def _find_aborted(self) -> bytes:
        """Return the aborted transactions of the batches that are left."""
        left = replace(self._range, slices=self._slices)
        rest = split_by_offsets(left, [self.next_offset])[-1]
        # Mode failFast fails anyway where it reads a damaged marker.
        only_valid = self._options.check_crcs and self._options.mode != "failFast"
        return aborted_ranges(rest, self._on_lost_marker, only_valid=only_valid)

    def _decode(self, cursor: BatchCursor, stop: int, segment_slice: SegmentSlice) -> Decoded:
        """Decode the batches from the cursor's position to `stop`."""
        columns = self._decoded_columns if self._aborted is not None else self._watched_columns
        # Mode failFast returns the rows before damage, and then fails.
        search = None if self._options.mode == "failFast" else cursor.search
        options = DecodeOptions(
            start_offset=self._selection.start_offset(segment_slice),
            end_offset=self._selection.end_offset(segment_slice),
            aborted=self._aborted or b"",
            check_crcs=self._options.check_crcs,
            max_batch_bytes=self._range.max_batch_bytes,
            max_rows=self._limit_rows,
            max_bytes=self._options.max_bytes,
            topic=self._range.topic,
            partition=self._range.partition,
            segment=segment_slice.segment.log,
            conditions=self._selection.conditions,
            skipper=None if search is None else search.skipper,
        )
        return self._decode_batches(cursor, stop, columns, options)

    def _damage_rows(self, damaged: Sequence[DamagedRange], segment_slice: SegmentSlice) -> pa.RecordBatch:
        segment = segment_slice.segment.log
        return damage_rows(
            damaged, self._selection.columns, self._range.topic, self._range.partition, segment
        )

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `_selection`. `_corrupt_record` is null in the rows of records."""
        names = self._selection.columns
        if len(names) == len(self._decoded_columns):
            count = len(names)
            return batch if batch.num_columns == count else batch.select(range(count))
        arrays = iter(batch.columns)
        nulls = pa.nulls(batch.num_rows, pa.string())
        return pa.RecordBatch.from_arrays(
            [nulls if name == CORRUPT_RECORD else next(arrays) for name in names], names=names
        )

    def _locate_again(self, error: FileNotFoundError | LogTruncatedError) -> None:
        """Locate the rest of the range after a file was removed, replaced or truncated during the read.

        Raises LogTruncatedError or FileNotFoundError if records were lost, with `fail_on_data_loss`; and
        `error` if the source cannot locate records again.
        """
        range = self._range
        start = max(self.next_offset, range.start_offset)
        read = (*range.earlier, *(each.segment.id for each in range.slices))
        span = OffsetSpan(start, max(start, range.end_offset))
        located = Located(self._slices, read)
        again = retry_changed(lambda: range.source.locate_again(located, span, error))
        if again.loss is not None:
            if self._options.fail_on_data_loss:
                raise again.loss from error
            logger.warning("%s. The rest is read, because data loss is not to fail the read", again.loss)
        self._range = replace(range, source=again.source)
        self._slices = again.slices
        self.has_located_again = True

    def _on_lost_marker(self, damaged: DamagedRange) -> None:
        if self._options.mode == "failFast":
            raise damaged.error()


def _is_beyond(order: OffsetOrder, end_offset: int | None) -> bool:
    """Return whether offsets have reached `end_offset`, so that what follows is not in the range."""
    return end_offset is not None and order.next_offset >= end_offset
