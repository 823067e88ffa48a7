"""One segment of a log: its files (Kafka: LogSegment)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from native_log.errors import LogTruncatedError
from native_log.segment.files import MAX_OFFSET
from native_log.segment.offset_index import OffsetIndex
from native_log.segment.time_index import TimeIndex
from native_log.segment.transaction_index import TransactionIndex
from native_log.storage import DataFile


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files of a segment as they were when the directory was listed. Nothing of them is open.

    Attributes:
        directory: the partition's directory.
        base_offset: from the files' name: a lower bound of the offsets in it.
        log: name of the file with the batches (`.log`, or `.log.swap` after a crash, see load.py).
        size_bytes, inode, mtime_ms: of that file.
        index, time_index, transaction_index: names of the index files; None where there is none.
        end_offset: exclusive: the base offset of the next segment, which no offset in this one reaches.
    """

    directory: str
    base_offset: int
    log: str
    size_bytes: int
    inode: int
    mtime_ms: int
    index: str | None
    time_index: str | None
    transaction_index: str | None
    end_offset: int = MAX_OFFSET

    @property
    def id(self) -> tuple[int, int, int]:
        """Which file it is, on any host: base offset, size, time of modification in ms."""
        return self.base_offset, self.size_bytes, self.mtime_ms

    @property
    def path(self) -> Path:
        """The file with the batches."""
        return Path(self.directory, self.log)

    def open_unchanged(self) -> DataFile:
        """Open the file with the batches. Raises LogTruncatedError if it changed since it was listed."""
        file = DataFile(str(self.path))
        if file.size_bytes == self.size_bytes and file.matches(self.inode, self.size_bytes, self.mtime_ms):
            return file
        file.close()
        raise LogTruncatedError(
            "expected the file that was listed when this run was planned, found another: something else "
            "changes this log. Stop it, and run this again",
            path=file.path,
        )

    def load_offset_index(self) -> OffsetIndex:
        return OffsetIndex.load(self._path(self.index), self.base_offset)

    def load_time_index(self) -> TimeIndex:
        return TimeIndex.load(self._path(self.time_index), self.base_offset)

    def load_transaction_index(self) -> TransactionIndex:
        return TransactionIndex.load(self._path(self.transaction_index), self.base_offset)

    def _path(self, name: str | None) -> str | None:
        return None if name is None else f"{self.directory}/{name}"
