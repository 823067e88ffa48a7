"""One segment of a log: its files (Kafka: LogSegment)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.records import OffsetOrder
from native_log.segment.files import MAX_OFFSET
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from native_log.segment.time_index import TimeIndex
from native_log.segment.transaction_index import TransactionIndex
from native_log.storage import KnownFile, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.storage import DataFile, Folder


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files of a segment as they were when the directory was listed. No file is open.

    Attributes:
        folder: the directory of the partition.
        base_offset: the offset in the file names, a lower bound of the offsets in the segment.
        log: name of the file with the batches: `.log`, or `.log.swap` after a crash.
        size_bytes, inode, mtime_ms: size, inode number (or version of the object) and modification time of
            that file.
        index, time_index, transaction_index: names of the index files; None if there is no file.
        end_offset: the base offset of the next segment. All offsets in this segment are lower. See also
            `offset_order`.
    """

    folder: Folder
    base_offset: int
    log: str
    size_bytes: int
    inode: int | str
    mtime_ms: int
    index: str | None
    time_index: str | None
    transaction_index: str | None
    end_offset: int = MAX_OFFSET

    @property
    def directory(self) -> str:
        """The path of the partition's directory."""
        return self.folder.path

    @property
    def id(self) -> tuple[int, int, int]:
        """Identify the file on any host, by base offset, size and modification time in ms."""
        return self.base_offset, self.size_bytes, self.mtime_ms

    @property
    def path(self) -> Path:
        """Return the path of the file with the batches."""
        return path_of(f"{self.directory}/{self.log}")

    def open(self) -> DataFile:
        """Open the file with the batches. Raises FileNotFoundError, PermissionError, OSError."""
        known = KnownFile(self.size_bytes, self.inode, self.mtime_ms)
        return self.folder.storage.open(f"{self.folder.path}/{self.log}", known=known)

    def open_same(self) -> DataFile:
        """Open the file with the batches. If it was the last one of its log, it may have grown since.

        Raises LogTruncatedError if there is another file in its place, in which positions mean nothing: a
        broker compacts a log by replacing files. The new file may have the inode number of one that was
        removed.
        """
        file = self.open()
        if self._is_in(file, may_grow=self.end_offset == MAX_OFFSET):
            return file
        file.close()
        raise LogTruncatedError(
            "expected the file that the read was planned on, found another one: a broker is compacting "
            "this log; plan the read again",
            path=file.path,
        )

    def open_unchanged(self) -> DataFile:
        """Open the file with the batches. Raises LogTruncatedError if it has changed since it was listed."""
        file = self.open()
        if self._is_in(file, may_grow=False):
            return file
        file.close()
        raise LogTruncatedError(
            "expected the file that was listed when this run was planned, found another: something else "
            "changes this log. Stop it, and run this again",
            path=file.path,
        )

    def _is_in(self, file: DataFile, *, may_grow: bool) -> bool:
        """Return whether `file` is the one that was listed."""
        is_as_long = may_grow or file.size_bytes == self.size_bytes
        return is_as_long and file.matches(self.inode, self.size_bytes, self.mtime_ms)

    def is_same_file(self, later: LogSegment) -> bool:
        """Return whether a later listing has the same file with the batches, which may have grown since."""
        has_grown = later.inode == self.inode and later.size_bytes >= self.size_bytes
        return later.id == self.id or has_grown

    def __reduce__(self) -> tuple[type[LogSegment], tuple[object, ...]]:
        # A plan for many partitions pickles very many segments. This is several times faster than the default
        # of a dataclass.
        return LogSegment, (
            self.folder,
            self.base_offset,
            self.log,
            self.size_bytes,
            self.inode,
            self.mtime_ms,
            self.index,
            self.time_index,
            self.transaction_index,
            self.end_offset,
        )

    def offset_order(self, file: DataFile, next_offset: int | None = None) -> OffsetOrder:
        """Return what is known about the offsets of the batches.

        Args:
            file: the open file with the batches.
            next_offset: the offset after the previous batches; None: there are none, or it is unknown.

        No offset is 2^31 or more above the base offset, because no index entry can hold it: such a batch is
        damaged. Only old brokers wrote it, when they compacted a log; newer ones split that segment.
        """
        limit = min(self.end_offset, self.base_offset + MAX_RELATIVE_OFFSET + 1)
        return OffsetOrder(max(self.base_offset, next_offset or 0), limit, file.fileno())

    def listed_index(self) -> KnownFile | None:
        """Return the offset index as it was listed; None if there is none, or nothing is known of it."""
        return None if self.index is None else self.folder.storage.listed(f"{self.directory}/{self.index}")

    def load_offset_index(self, at_most: int | None = None, known: KnownFile | None = None) -> OffsetIndex:
        """Read the offset index, all of it or at most so many of its last entries.

        `known` is the index as it was listed.
        """
        return OffsetIndex.load(self._path(self.index), self.base_offset, self.folder.storage, at_most, known)

    def load_time_index(self) -> TimeIndex:
        return TimeIndex.load(self._path(self.time_index), self.base_offset, self.folder.storage)

    def last_time_entry(self) -> tuple[int, int] | None:
        """Return the last entry of the time index as (timestamp in ms, offset), without the others.

        None: there is no entry, no file, or the file cannot be read.
        """
        return TimeIndex.last_entry(self._path(self.time_index), self.base_offset, self.folder.storage)

    def load_transaction_index(self) -> TransactionIndex:
        return TransactionIndex.load(
            self._path(self.transaction_index), self.base_offset, self.folder.storage
        )

    def _path(self, name: str | None) -> str | None:
        return None if name is None else f"{self.directory}/{name}"
