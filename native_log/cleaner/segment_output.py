"""The files of one segment as a cleaner writes them."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, BinaryIO

from native_log.segment.files import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

    from native_log.segment.transaction_index import AbortedTxn

OUTPUT_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""In the order they are renamed."""

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_INDEX_ENTRY = struct.Struct(">qi")
_TXN_INDEX_ENTRY = struct.Struct(">hqqqq")


class SegmentOutput:
    """Writes `<base offset>.log` and its indexes into a directory; a context manager that closes the files.

    Index entries are made batch by batch as newest brokers append (Kafka: LogSegment.append, KAFKA-806).
    Nothing is there to be relied on before `finish`.

    Args:
        state: part of the files' names, as CLEANED.
    """

    def __init__(self, directory: Path, base_offset: int, state: str, index_interval_bytes: int) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._state = state
        self._interval_bytes = index_interval_bytes
        self._log: BinaryIO = open(self._path(LOG), "wb", buffering=0)  # noqa: SIM115 (closed in __exit__)
        self.position = 0
        self._since_entry = 0
        self._index = bytearray()
        self._time_index = bytearray()
        self._largest = (-1, base_offset)  # timestamp, and the last offset of the batch that has it
        self._indexed_ms = -1

    def append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        """`batches`: BATCH_SCHEMA, the rows of `data`, whose first byte goes to `position`."""
        written = 0
        while written < len(data):
            written += self._log.write(data[written:])
        position, since_entry, interval = self.position, self._since_entry, self._interval_bytes
        times = batches.column("maxTimestamp")
        timestamps = int64s(batches, "maxTimestamp").tolist() if not times.null_count else times.to_pylist()
        for size, last_offset, timestamp_ms in zip(
            int32s(batches, "sizeInBytes").tolist(),
            int64s(batches, "lastOffset").tolist(),
            timestamps,
            strict=True,
        ):
            if timestamp_ms is not None and timestamp_ms > self._largest[0]:
                self._largest = timestamp_ms, last_offset
            if since_entry > interval:
                self._index += _INDEX_ENTRY.pack(last_offset - self._base_offset, position)
                self._add_time()
                since_entry = 0
            since_entry += size
            position += size
        self.position, self._since_entry = position, since_entry

    def finish(self, aborted: Sequence[AbortedTxn], mtime_ms: int) -> None:
        """Writes the indexes, and gives the files the age of what they were made from.

        What is on the disk for good is `flush_segment`'s.
        """
        self._add_time()
        self._write(INDEX, self._index)
        self._write(TIME_INDEX, self._time_index)
        if aborted:
            entries = (
                _TXN_INDEX_ENTRY.pack(0, t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset)
                for t in aborted
            )
            self._write(TRANSACTION_INDEX, b"".join(entries))
        for kind in (LOG, INDEX, TIME_INDEX):
            os.utime(self._path(kind), ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def _add_time(self) -> None:
        timestamp_ms, offset = self._largest
        if timestamp_ms > self._indexed_ms:
            self._time_index += _TIME_INDEX_ENTRY.pack(timestamp_ms, offset - self._base_offset)
            self._indexed_ms = timestamp_ms

    def _write(self, kind: str, data: bytes | bytearray) -> None:
        with open(self._path(kind), "wb") as file:
            file.write(data)

    def _path(self, kind: str) -> Path:
        return self._directory / file_name(self._base_offset, kind, self._state)

    def __enter__(self) -> SegmentOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()


def flush_segment(directory: Path, base_offset: int, state: str) -> None:
    """Waits until the finished files of a segment are on the disk."""
    for kind in OUTPUT_KINDS:
        path = directory / file_name(base_offset, kind, state)
        if path.exists():
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
