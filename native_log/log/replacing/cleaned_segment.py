"""The files of one segment as a cleaner writes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

from native_log.errors import KafkaLogError
from native_log.segment.files import CLEANED, INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.indexing import IndexState, entries_of
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int64s
from native_log.segment.transaction_index import transaction_index_bytes
from native_log.storage.writing import flush_file, naming

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

    from native_log.segment.transaction_index import AbortedTxn

OUTPUT_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""In the order they are renamed."""


class CleanedSegmentWriter:
    """Writes `<base offset>.log.cleaned` and its indexes into a directory; a context manager that closes its
    files.

    Index entries are made as newest brokers append (Kafka: LogSegment.append, KAFKA-806). Nothing is there to
    be relied on before `finish`.
    """

    def __init__(self, directory: Path, base_offset: int, index_interval_bytes: int) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._interval_bytes = index_interval_bytes
        self._log: BinaryIO = open(self._path(LOG), "wb", buffering=0)  # noqa: SIM115 (closed in __exit__)
        self.position = 0
        self._index, self._time_index = bytearray(), bytearray()
        self._indexing = IndexState(-1, base_offset)

    def append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        """`batches`: BATCH_SCHEMA, the rows of `data`, whose first byte goes to `position`.

        Raises:
            KafkaLogError: offsets too far apart for one segment (Kafka: LogSegmentOffsetOverflowException).
        """
        self._check_span(batches)
        written = 0
        with naming(self._path(LOG)):
            while written < len(data):
                written += self._log.write(data[written:])
        index, time_index, self._indexing = entries_of(
            _with_timestamps(batches),
            self._indexing,
            base_offset=self._base_offset,
            position=self.position,
            interval_bytes=self._interval_bytes,
            room=batches.num_rows,  # no more than before, and then there was room
        )
        self._index += index
        self._time_index += time_index
        self.position += len(data)

    def finish(self, aborted: Sequence[AbortedTxn], mtime_ms: int) -> None:
        """Writes the indexes, and gives the files the age of what they were made from.

        What is on the disk for good is `flush_segment`'s.
        """
        self._write(INDEX, self._index)
        self._write(TIME_INDEX, self._time_index + self._indexing.last_time_entry(self._base_offset))
        if aborted:
            self._write(TRANSACTION_INDEX, transaction_index_bytes(aborted))
        for kind in (LOG, INDEX, TIME_INDEX):
            os.utime(self._path(kind), ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def _check_span(self, batches: pa.RecordBatch) -> None:
        last_offset = int64s(batches, "lastOffset")[-1] if batches.num_rows else self._base_offset
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            raise KafkaLogError(
                f"expected offsets up to {self._base_offset + MAX_RELATIVE_OFFSET}, all that a segment of "
                f"base offset {self._base_offset} can hold, found {last_offset}. A broker splits such a "
                "segment when it loads the log: let one do that first",
                path=self._path(LOG),
                offset=last_offset,
            )

    def _write(self, kind: str, data: bytes | bytearray) -> None:
        with naming(self._path(kind)), open(self._path(kind), "wb") as file:
            file.write(data)

    def _path(self, kind: str) -> Path:
        return self._directory / file_name(self._base_offset, kind, CLEANED)

    def __enter__(self) -> CleanedSegmentWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()


def _with_timestamps(batches: pa.RecordBatch) -> pa.RecordBatch:
    """-1 for the timestamps that batches of magic 0 do not have."""
    timestamps = batches.column("maxTimestamp")
    if timestamps.null_count == 0:
        return batches
    index = batches.schema.get_field_index("maxTimestamp")
    return batches.set_column(index, "maxTimestamp", timestamps.fill_null(-1))


def flush_segment(directory: Path, base_offset: int) -> None:
    """Waits until the finished files of a segment are on the disk."""
    for kind in OUTPUT_KINDS:
        path = directory / file_name(base_offset, kind, CLEANED)
        if path.exists():
            flush_file(str(path))
