"""Write the .log files of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.segment.files import LOG, file_name
from native_log.storage import CHUNK_BYTES, FaultyFile
from native_log.storage.writing import AppendFile

if TYPE_CHECKING:
    from pathlib import Path


class LogFiles:
    """The .log files in a partition directory, written one after the other.

    Args:
        directory: the partition directory; None: write nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._file: AppendFile | None = None

    def begin(self, base_offset: int) -> None:
        """Begin the segment of this base offset, or continue it."""
        if self._directory is not None:
            self.close()
            path = self._directory / file_name(base_offset, LOG)
            self._file = AppendFile(str(path), path.stat().st_size if path.exists() else 0)

    def append(self, data: memoryview) -> None:
        """Append the bytes of batches. Raises OSError."""
        if self._file is not None:
            self._file.append(data)

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
