"""A range read piece by piece, chunk by chunk, over damage and over what a broker does to the files
meanwhile."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from native_log.arguments import Mode
from native_log.errors import LogTruncatedError
from native_log.log.producers.transactions import aborted_ranges
from native_log.log.reading.offset_lookup import locate
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA, DecodeOptions, decode_file
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import DamagedRange, damage_in, damaged_range
from native_log.segment.files import parse_file_name
from native_log.storage import DataFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.log.local_log import LocalLog
    from native_log.log.segment_slices import SegmentSlice, SlicedRange
    from native_log.records import Decoded

logger = logging.getLogger(__name__)

MODES = get_args(Mode)

READ_BYTES = 4 << 20
"""How much of a file is decoded in one call, so that rows come some ten thousand at a time: whoever takes a
batch of them has a cost for each (Spark's JVM most of a millisecond)."""

DEFAULT_MAX_BYTES = 8 << 20
"""Of Arrow memory, of one batch of records: what is well compressed would else make batches of any size."""

_IS_TRANSACTIONAL = "isTransactional"


def record_schema(columns: Sequence[str]) -> pa.Schema:
    """Of the record batches that have these columns. Raises ValueError for an unknown one."""
    if isinstance(columns, str):
        raise ValueError(f"columns is a list of names: [{columns!r}], found {columns!r}")
    fields = {name: RECORD_SCHEMA.field(name) for name in RECORD_SCHEMA.names}
    fields[CORRUPT_RECORD] = pa.field(CORRUPT_RECORD, pa.string())
    for name in columns:
        if name not in fields:
            raise ValueError(f"unknown column {name!r}; there are {', '.join(fields)}")
    return pa.schema([fields[name] for name in columns])


class Reader:
    """Reads one LogRange once. See LogRange.read."""

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
        # What is decoded until a transaction is met: see _aborted.
        self._watched_columns = list(dict.fromkeys((*self._decoded_columns, _IS_TRANSACTIONAL)))
        self._transactional_index = self._watched_columns.index(_IS_TRANSACTIONAL)
        self._mode = mode
        self._check_crcs = check_crcs
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._limit_rows = first_rows if max_rows is None or first_rows is None else min(first_rows, max_rows)
        self._on_damage = on_damage
        self._fail_on_data_loss = fail_on_data_loss
        self._next_offset = range.start_offset
        self._pieces = range.slices
        self._aborted: bytes | None = None  # not known yet: most logs have no transactions to look for

    def batches(self) -> Iterator[pa.RecordBatch]:
        relocated_at: int | None = None
        while self._pieces:
            try:
                self._aborted = b"" if self._range.isolation_level == "read_uncommitted" else None
                for index, piece in enumerate(self._pieces):
                    yield from self._read_piece(piece, self._pieces[index + 1 :])
                return
            except (FileNotFoundError, LogTruncatedError) as error:
                if relocated_at == self._next_offset:
                    raise
                relocated_at = self._next_offset
                self._pieces = self._relocated(error)

    def _read_piece(self, piece: SegmentSlice, others: tuple[SegmentSlice, ...]) -> Iterator[pa.RecordBatch]:
        """The records of `piece`. `others`: the pieces behind it."""
        with DataFile(f"{self._range.path}/{piece.segment}") as file:
            piece.check_file(file)
            order = piece.order(file)
            cursor = BatchCursor(file, piece.start_position, piece.end_position, order)
            while cursor.has_more:
                stop = cursor.stop(READ_BYTES)
                found = self._decode(cursor, stop, piece)
                if self._aborted is None and found.batch.column(self._transactional_index).true_count:
                    rest = replace(piece, start_position=cursor.position), *others
                    self._aborted = aborted_ranges(
                        replace(self._range, slices=rest), self._open_log, self._on_lost_marker
                    )
                    found = self._decode(cursor, stop, piece)
                found = cursor.advance(found, stop - cursor.position)
                if found.batch.num_rows:
                    yield self._complete(found.batch)
                    self._limit_rows = self._max_rows
                if found.next_offset is not None:
                    self._next_offset = found.next_offset
                damage = damage_in(cursor, found, self._range.max_batch_bytes)
                if damage is not None:
                    order = cursor.order or order
                    damaged = damaged_range(
                        file, damage, cursor.end, order, order.next_offset, self._range.max_batch_bytes
                    )
                    yield from self._report(damaged, piece)
                    cursor.skip_to(damaged.end_position)

    def _decode(self, cursor: BatchCursor, stop: int, piece: SegmentSlice) -> Decoded:
        """Decode the batches from the cursor's position to `stop`."""
        columns = self._decoded_columns if self._aborted is not None else self._watched_columns
        options = DecodeOptions(
            start_offset=piece.min_offset,
            end_offset=piece.max_offset,
            aborted=self._aborted or b"",
            check_crcs=self._check_crcs,
            max_batch_bytes=self._range.max_batch_bytes,
            max_rows=self._limit_rows,
            max_bytes=self._max_bytes,
            topic=self._range.topic,
            partition=self._range.partition,
            segment=piece.segment,
        )
        position, order = cursor.position, cursor.order
        while True:
            try:
                return decode_file(cursor.file.fileno(), position, stop, columns, options, order=order)
            except EOFError:
                cursor.file.read(stop - 1, 1)  # says that the file was truncated, unless it has grown again

    def _report(self, damaged: DamagedRange, piece: SegmentSlice) -> Iterator[pa.RecordBatch]:
        if self._mode == "failFast":
            raise damaged.error()
        logger.warning("skipped damaged bytes of a log: %s", damaged)
        if self._on_damage is not None:
            self._on_damage(damaged)
        if self._mode == "permissive":
            known = {
                "topic": self._range.topic,
                "partition": self._range.partition,
                "offset": damaged.offset,
                "position": damaged.position,
                "segment": piece.segment,
                CORRUPT_RECORD: str(damaged),
            }
            arrays = [pa.array([known.get(name)], _type_of(name)) for name in self._columns]
            yield pa.RecordBatch.from_arrays(arrays, names=self._columns)

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that were asked for: with `_corrupt_record`, null, where it was."""
        if len(self._columns) == len(self._decoded_columns):
            given = len(self._columns)
            return batch if batch.num_columns == given else batch.select(range(given))
        arrays = iter(batch.columns)
        nulls = pa.nulls(batch.num_rows, pa.string())
        return pa.RecordBatch.from_arrays(
            [nulls if name == CORRUPT_RECORD else next(arrays) for name in self._columns], names=self._columns
        )

    def _relocated(self, error: FileNotFoundError | LogTruncatedError) -> tuple[SegmentSlice, ...]:
        """Where what is still to be read lies, after a file was removed, replaced or cut under the reader."""
        range = self._range
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
        elif isinstance(error, LogTruncatedError) and self._is_cut(error, log):
            loss = LogTruncatedError(
                "the file was cut while it was read, and records from offset "
                f"{start} on went with it. Plan the read again",
                path=error.path,
                offset=start,
            )
        elif start < log.local_log_start_offset or self._is_lost(error, log):
            loss = FileNotFoundError(
                f"{range.path}: a segment was removed while it was read, and with it the records from "
                f"offset {start} on (by retention, DeleteRecords or by hand). Plan the read again from the "
                "log's start"
            )
        if loss is not None:
            if self._fail_on_data_loss:
                raise loss from error
            logger.warning("%s. What is left is read, for data loss is not to fail the read", loss)
            start, end = max(start, log.local_log_start_offset), min(end, log.log_end_offset)
        return locate(log, start, end)[0] if start < end else ()

    def _is_cut(self, error: LogTruncatedError, log: LocalLog) -> bool:
        """Whether a file has become shorter than it was when the read was planned.

        It is still the same file, by its inode: a cleaner puts another one in its place.
        """
        name = str(error.path).rpartition("/")[2]
        planned = next((piece for piece in self._pieces if piece.segment == name), None)
        now = next((segment for segment in log.segments if segment.log == name), None)
        if planned is None or now is None:
            return False
        return now.inode == planned.inode and now.size_bytes < planned.segment_bytes

    def _is_lost(self, error: Exception, log: LocalLog) -> bool:
        """Tell whether a segment was removed, not merged with others.

        A cleaner merges segments into a new file, under the name of the first of them. If the segment that
        now covers the removed one's offsets is a file that was there already, nothing was merged. Segments
        further ahead tell nothing: a cleaner may leave one of them with the same size and time.
        """
        if not isinstance(error, FileNotFoundError):
            return False
        removed = parse_file_name(str(error.filename).rpartition("/")[2])
        if removed is None:
            return False
        before = next((s for s in reversed(log.segments) if s.base_offset <= removed.offset), None)
        if before is None or before.base_offset == removed.offset:
            return False
        return before.id in {*self._range.earlier, *(piece.segment_id for piece in self._range.slices)}

    def _open_log(self) -> LocalLog:
        from native_log.log.local_log import LocalLog

        range = self._range
        return LocalLog.open(
            range.path, topic=range.topic, partition=range.partition, max_batch_bytes=range.max_batch_bytes
        )

    def _on_lost_marker(self, damaged: DamagedRange) -> None:
        if self._mode == "failFast":
            raise damaged.error()


def check_mode(mode: str) -> None:
    """Raises ValueError for one that there is not."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, found {mode!r}")


def _type_of(column: str) -> pa.DataType:
    return pa.string() if column == CORRUPT_RECORD else RECORD_SCHEMA.field(column).type
