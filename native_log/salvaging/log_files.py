"""Write the .log files of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.segment.files import LOG, file_name
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int64s
from native_log.storage import CHUNK_BYTES, FaultyFile
from native_log.storage.writing import AppendFile

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


class LogFiles:
    """The .log files in a partition directory, written one after the other.

    Args:
        directory: the partition directory; None: write nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._file: AppendFile | None = None
        self._base_offset = self._next_offset = 0

    def begin(self, base_offset: int) -> None:
        """Begin the segment of this base offset, or continue it."""
        self._base_offset = base_offset
        if self._directory is not None:
            self.close()
            path = self._directory / file_name(base_offset, LOG)
            self._file = AppendFile(str(path), path.stat().st_size if path.exists() else 0)

    def append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        """Append batches.

        A segment is split where offsets are too far from its base offset, as by a broker that loads it
        (Kafka: LogLoader, UnifiedLog.splitOverflowedSegment).

        Args:
            data: the bytes of the batches.
            batches: their rows of BATCH_SCHEMA.

        Raises OSError.
        """
        if self._file is None:
            return
        positions, last_offsets = int64s(batches, "position"), int64s(batches, "lastOffset")
        count, start = batches.num_rows, 0
        if last_offsets[count - 1] - self._base_offset > MAX_RELATIVE_OFFSET:
            for index in range(count):
                if last_offsets[index] - self._base_offset > MAX_RELATIVE_OFFSET:
                    end = positions[index] - positions[0]
                    self._file.append(data[start:end])
                    start = end
                    base = batches.column("baseOffset")[index].as_py()
                    self.begin(self._next_offset if base is None else base)
                self._next_offset = last_offsets[index] + 1
        self._file.append(data[start:])
        self._next_offset = last_offsets[count - 1] + 1

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def copy_file(source: Path, target: Path | None) -> str | None:
    """Copy a file if it can be read as a whole. Return why it cannot; None if it was copied.

    Args:
        target: the new file; None: only read.

    Raises OSError if the copy cannot be written.
    """
    try:
        file = FaultyFile(str(source))
    except OSError as error:
        return error.strerror or str(error)
    with file:
        copy = None if target is None else AppendFile(str(target))
        try:
            for position in range(0, file.size_bytes, CHUNK_BYTES):
                data = file.read(position, CHUNK_BYTES)
                if copy is not None:
                    copy.append(data)
            if copy is not None:
                copy.flush()
        finally:
            if copy is not None:
                copy.close()
        if not file.faults:
            return None
        if target is not None:
            target.unlink()
        return file.faults[0].reason
