"""Read a range of a log chunk by chunk, past damage, while a broker may change the files."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import LogTruncatedError
from native_log.log.producers.transactions import aborted_ranges
from native_log.log.reading.columns import check_mode
from native_log.log.reading.damage_log import DamageLog
from native_log.log.reading.offset_lookup import locate
from native_log.log.reading.split import split_by_offsets
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA, DecodeOptions, decode_file
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import DamagedRange, damage_in, damaged_range
from native_log.segment.files import parse_file_name
from native_log.segment.search import BatchSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from native_log.log.local_log import LocalLog
    from native_log.log.segment_slices import SegmentSlice, SlicedRange
    from native_log.records import Decoded, OffsetOrder

logger = logging.getLogger(__name__)

READ_BYTES = 4 << 20
"""How many bytes of a file are decoded in one call. They make batches of some ten thousand rows, since each
batch has a cost for its consumer (almost a millisecond in Spark's JVM)."""

DEFAULT_MAX_BYTES = 8 << 20
"""Arrow memory of one batch of records. Without a limit, well compressed data makes batches of any size."""

_IS_TRANSACTIONAL = "isTransactional"


class Reader:
    """Read one LogRange once. See LogRange.read for the arguments."""

    def __init__(
        self,
        range: SlicedRange,
        columns: list[str],
        *,
        mode: str,
        check_crcs: bool,
        max_rows: int | None,
        max_bytes: int | None,
        first_rows: int | None,
        on_damage: Callable[[DamagedRange], None] | None,
        fail_on_data_loss: bool,
    ) -> None:
        check_mode(mode)
        self._range = range
        self._columns = columns
        self._decoded_columns = [name for name in columns if name != CORRUPT_RECORD]
        # The columns that are decoded until the first transaction: see _aborted.
        self._watched_columns = list(dict.fromkeys((*self._decoded_columns, _IS_TRANSACTIONAL)))
        self._transactional_index = self._watched_columns.index(_IS_TRANSACTIONAL)
        self._mode = mode
        self._check_crcs = check_crcs
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._limit_rows = first_rows if max_rows is None or first_rows is None else min(first_rows, max_rows)
        self._on_damage = on_damage
        self._damage_log = DamageLog(logger)
        self._fail_on_data_loss = fail_on_data_loss
        self._next_offset = range.start_offset
        self._slices = range.slices
        self._aborted: bytes | None = None  # None: unknown, as long as no transaction was read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records. See LogRange.read for the errors."""
        try:
            yield from self._batches()
        finally:
            self._damage_log.finish()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        relocated_at: int | None = None
        while True:
            try:
                self._aborted = b"" if self._range.isolation_level == "read_uncommitted" else None
                readable = replace(self._range, slices=self._slices).readable_slices()
                for index, segment_slice in enumerate(readable):
                    yield from self._read_slice(segment_slice, self._slices[index + 1 :])
                return
            except (FileNotFoundError, LogTruncatedError) as error:
                if relocated_at == self._next_offset:
                    raise
                relocated_at = self._next_offset
                self._slices = self._relocate(error)

    def _read_slice(
        self, segment_slice: SegmentSlice, later: tuple[SegmentSlice, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of one slice.

        Args:
            later: the slices after it.
        """
        with segment_slice.open() as file:
            start, end, order = (
                segment_slice.start_position,
                segment_slice.end_position,
                segment_slice.order(file),
            )
            search = BatchSearch(file, end, self._range.max_batch_bytes)
            cursor = BatchCursor(file, start, end, order, search=search, check_crcs=self._check_crcs)
            while cursor.has_more:
                stop = cursor.stop(READ_BYTES)
                decoded = self._decode(cursor, stop, segment_slice)
                if self._aborted is None and decoded.batch.column(self._transactional_index).true_count:
                    rest = replace(segment_slice, start_position=cursor.position), *later
                    self._aborted = aborted_ranges(self._rest(rest), self._open_log, self._on_lost_marker)
                    decoded = self._decode(cursor, stop, segment_slice)
                decoded = cursor.advance(decoded, stop - cursor.position)
                if decoded.batch.num_rows:
                    yield self._complete(decoded.batch)
                    self._limit_rows = self._max_rows
                if decoded.next_offset is not None:
                    self._next_offset = decoded.next_offset
                damage = damage_in(cursor, decoded, self._range.max_batch_bytes)
                if damage is not None:
                    order = cursor.order or order
                    if _is_beyond(order, segment_slice.max_offset):
                        return
                    damaged = damaged_range(search, damage, order, order.next_offset)
                    yield from self._report(damaged, segment_slice)
                    cursor.skip_to(damaged.end_position)

    def _rest(self, slices: tuple[SegmentSlice, ...]) -> SlicedRange:
        """Return the range that is left when `slices` are left.

        The later slices of a merged log are not known yet. Its rest begins at the next offset.
        """
        if self._range.merged is None:
            return replace(self._range, slices=slices)
        return split_by_offsets(self._range, [self._next_offset])[-1]

    def _decode(self, cursor: BatchCursor, stop: int, segment_slice: SegmentSlice) -> Decoded:
        """Decode the batches from the cursor's position to `stop`."""
        columns = self._decoded_columns if self._aborted is not None else self._watched_columns
        options = DecodeOptions(
            start_offset=segment_slice.min_offset,
            end_offset=segment_slice.max_offset,
            aborted=self._aborted or b"",
            check_crcs=self._check_crcs,
            max_batch_bytes=self._range.max_batch_bytes,
            max_rows=self._limit_rows,
            max_bytes=self._max_bytes,
            topic=self._range.topic,
            partition=self._range.partition,
            segment=segment_slice.segment.log,
        )
        decode = partial(decode_file, columns=columns, options=options, order=cursor.order)
        return cursor.file.read_by(decode, cursor.position, stop)

    def _report(self, damaged: DamagedRange, segment_slice: SegmentSlice) -> Iterator[pa.RecordBatch]:
        if self._mode == "failFast":
            raise damaged.error()
        self._damage_log.add(damaged)
        if self._on_damage is not None:
            self._on_damage(damaged)
        if self._mode == "permissive":
            known = {
                "topic": self._range.topic,
                "partition": self._range.partition,
                "offset": damaged.offset,
                "position": damaged.position,
                "segment": segment_slice.segment.log,
                CORRUPT_RECORD: str(damaged),
            }
            arrays = [pa.array([known.get(name)], _type_of(name)) for name in self._columns]
            yield pa.RecordBatch.from_arrays(arrays, names=self._columns)

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the requested columns. `_corrupt_record` is null in the rows of records."""
        if len(self._columns) == len(self._decoded_columns):
            count = len(self._columns)
            return batch if batch.num_columns == count else batch.select(range(count))
        arrays = iter(batch.columns)
        nulls = pa.nulls(batch.num_rows, pa.string())
        return pa.RecordBatch.from_arrays(
            [nulls if name == CORRUPT_RECORD else next(arrays) for name in self._columns], names=self._columns
        )

    def _relocate(self, error: FileNotFoundError | LogTruncatedError) -> tuple[SegmentSlice, ...]:
        """Locate the rest of the range after a file was removed, replaced or truncated during the read.

        Raises LogTruncatedError or FileNotFoundError if records were lost, with `fail_on_data_loss`; and
        `error` itself for a merged log, because another plan might read other copies.
        """
        range = self._range
        if range.merged is not None:
            raise error
        start, end = max(self._next_offset, range.start_offset), range.end_offset
        log = self._open_log()
        loss: Exception | None = None
        if end > log.log_end_offset:
            loss = LogTruncatedError(
                f"the log was truncated while it was read: it reached offset {end} and now ends at "
                f"{log.log_end_offset}. Plan the read again",
                path=range.path,
                offset=start,
            )
        elif isinstance(error, LogTruncatedError) and self._is_truncated(error, log):
            loss = LogTruncatedError(
                f"the file was truncated while it was read, and records from offset {start} on are lost. "
                "Plan the read again",
                path=error.path,
                offset=start,
            )
        elif start < log.local_log_start_offset or self._is_lost(error, log):
            loss = FileNotFoundError(
                f"{range.path}: a segment was removed while it was read, with the records from offset "
                f"{start} on (by retention, DeleteRecords or by hand). Plan the read again from the "
                "log's start"
            )
        if loss is not None:
            if self._fail_on_data_loss:
                raise loss from error
            logger.warning("%s. The rest is read, because data loss is not to fail the read", loss)
            start, end = max(start, log.local_log_start_offset), min(end, log.log_end_offset)
        return locate(log, start, end)[0] if start < end else ()

    def _is_truncated(self, error: LogTruncatedError, log: LocalLog) -> bool:
        """Return whether a file is shorter than it was when the read was planned.

        The inode shows whether it is the same file: a broker's cleaner replaces a file by another one.
        """
        name = str(error.path).rpartition("/")[2]
        planned = next((each.segment for each in self._slices if each.segment.log == name), None)
        current = next((segment for segment in log.segments if segment.log == name), None)
        if planned is None or current is None:
            return False
        return current.inode == planned.inode and current.size_bytes < planned.size_bytes

    def _is_lost(self, error: Exception, log: LocalLog) -> bool:
        """Return whether a segment was removed and not merged with others.

        A broker's cleaner merges segments into a new file with the name of the first of them. So if the
        offsets of the removed segment now belong to a segment whose file existed before, nothing was merged.
        Segments before that one are not evidence: a cleaner may rewrite a file with the same size and time.
        """
        if not isinstance(error, FileNotFoundError):
            return False
        removed = parse_file_name(str(error.filename).rpartition("/")[2])
        if removed is None:
            return False
        before = next((s for s in reversed(log.segments) if s.base_offset <= removed.offset), None)
        if before is None or before.base_offset == removed.offset:
            return False
        return before.id in {
            *self._range.earlier,
            *(each.segment.id for each in self._range.slices),
        }

    def _open_log(self) -> LocalLog:
        range = self._range
        if range.merged is not None:
            from native_log.log.replicas.merged_log import MergedLog

            return MergedLog.of(range.merged, range.topic, range.partition, range.max_batch_bytes)
        from native_log.log.local_log import LocalLog

        return LocalLog.open(
            range.path,
            topic=range.topic,
            partition=range.partition,
            checkpoints=range.checkpoints,
            max_batch_bytes=range.max_batch_bytes,
        )

    def _on_lost_marker(self, damaged: DamagedRange) -> None:
        if self._mode == "failFast":
            raise damaged.error()


def _is_beyond(order: OffsetOrder, end_offset: int | None) -> bool:
    """Return whether offsets have reached `end_offset`, so that what follows is not in the range."""
    return end_offset is not None and order.next_offset >= end_offset


def _type_of(column: str) -> pa.DataType:
    return pa.string() if column == CORRUPT_RECORD else RECORD_SCHEMA.field(column).type
