"""Read local files with pread into reused buffers.

Files are not mapped into memory. A broker may truncate a file while it is read, and access to a mapped page
after its end kills the process (SIGBUS). To copy from the page cache into a buffer that stays in the CPU
cache costs next to nothing.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from native_log.errors import LogTruncatedError
from native_log.storage.opening import open_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
"""How many bytes to read at once: enough to make the cost of a call negligible, and few enough to be still in
the CPU cache when they are decoded."""

_ZEROS = bytes(1 << 16)
_NO_HOLES = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
"""Errors of lseek(SEEK_DATA) on file systems that do not know holes."""
_READS = 20
"""How often a directory that changes is read."""
_PAGE_BYTES = 4096
"""A window stores each byte at the same offset within a page as the file does. Linux copies with `rep movsb`,
which AMD processors run up to four times slower if the offset within a page is 1 to 63 bytes higher in the
destination than in the source."""


FileVersion = tuple[int, int, int]
"""Inode number, size in bytes and modification time in ns."""

TICK_NS = 20_000_000
"""File systems take timestamps from the last clock tick, which is some milliseconds old."""


def file_version(stat: os.stat_result, now_ns: int) -> FileVersion | None:
    """Return a value that differs after the file or directory has changed.

    Return None if its modification time is so recent that a later change may have the same clock tick. The
    file then counts as changed whenever it is looked at.

    Args:
        stat: the state of the file or directory.
        now_ns: the current time in epoch ns, taken before `stat`.
    """
    if now_ns - stat.st_mtime_ns <= TICK_NS:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


NO_FILE: FileVersion = (-1, -1, -1)
"""The version of a file that does not exist."""


def path_version(path: str | os.PathLike[str], now_ns: Callable[[], int]) -> FileVersion | None:
    """Return the version of the file at `path`: see file_version. `now_ns` is the clock, in epoch ns."""
    now = now_ns()
    try:
        return file_version(os.stat(path), now)  # noqa: PTH116 (a hot path of strings)
    except FileNotFoundError:
        return NO_FILE


class DataFile:
    """A file that is open for reading; a context manager.

    Attributes:
        path: path of the file.
        size_bytes: size of the file when it was opened. Bytes that were appended later are not read. If the
            file has become shorter, reading the missing bytes raises LogTruncatedError.
        inode: tells the file from another one that takes its name: the inode number, or the version of an
            object.
        mtime_ms: the modification time of the file when it was opened, in epoch ms.
    """

    __slots__ = ("_descriptor", "inode", "mtime_ms", "path", "size_bytes")

    inode: int | str

    def __init__(self, path: str, *, follow_link: bool = True) -> None:
        """Open the file. Raises FileNotFoundError, PermissionError, OSError: see open_file."""
        self._descriptor = open_file(path, os.O_RDONLY, follow_link=follow_link)
        self.path = path
        stat = os.fstat(self._descriptor)
        self.size_bytes = stat.st_size
        self.inode = stat.st_ino
        self.mtime_ms = stat.st_mtime_ns // 1_000_000

    def fileno(self) -> int:
        """Return the file descriptor, which is valid until `close`."""
        return self._descriptor

    @property
    def has_all_bytes(self) -> bool:
        """Whether all bytes of the file can be read by its descriptor, not just those of `read_by`."""
        return True

    def step_from(self, position: int) -> int:  # noqa: ARG002
        """Return how many bytes a loop should read in one step at most, unless a batch needs more."""
        return sys.maxsize

    def will_read(self, position: int, end: int) -> None:
        """Say that the bytes from `position` to before `end` are read next, in order."""

    def matches(self, inode: int | str, size_bytes: int, mtime_ms: int) -> bool:
        """Return whether this is the file that had these attributes before. It may have grown since.

        A broker's cleaner replaces a file by another one of the same name. Size and modification time are the
        same on every host. They identify a file that has not been written to since. The inode identifies a
        file that has grown, but only on the same host: file systems such as FUSE number files by mount.
        """
        is_unchanged = (self.size_bytes, self.mtime_ms) == (size_bytes, mtime_ms)
        return is_unchanged or (self.inode == inode and self.size_bytes >= size_bytes)

    def read_into(self, buffer: memoryview, position: int) -> None:
        """Fill `buffer` with the bytes from `position` on, which must lie within `size_bytes`.

        Raises LogTruncatedError if the file has been truncated before the end of these bytes.
        """
        filled = os.preadv(self._descriptor, [buffer], position)
        while filled < len(buffer):
            count = os.preadv(self._descriptor, [buffer[filled:]], position + filled)
            if count == 0:
                raise LogTruncatedError(
                    f"the file had {self.size_bytes} bytes when it was opened and now ends before "
                    f"{position + len(buffer)}: it was truncated while it was read. Read again from here",
                    path=self.path,
                    position=position + filled,
                )
            filled += count

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes from `position` on, or fewer at the end of the file."""
        data = bytearray(max(0, min(size_bytes, self.size_bytes - position)))
        self.read_into(memoryview(data), position)
        return bytes(data)

    def in_memory(self, position: int, end: int) -> memoryview | None:
        """Return the bytes from `position` to before `end` if they are in memory; None: use `read_by`."""
        del position, end
        return None

    def read_by(self, function: Callable[[int, int, int], T], position: int, end: int) -> T:
        """Return what `function` returns, which reads the bytes from `position` to before `end` by itself.

        Raises LogTruncatedError if the file has been truncated before `end`.

        Args:
            function: takes descriptor, `position` and `end`. Raises EOFError if the file ends before `end`.
        """
        while True:
            try:
                return function(self._descriptor, position, end)
            except EOFError:
                self.read(end - 1, 1)  # raises LogTruncatedError, unless the file has grown again

    def is_zero(self, position: int, end: int) -> bool:
        """Return whether the bytes from `position` to before `end` are all zero, as in a preallocated file.

        Holes are skipped.
        """
        while position < end:
            try:
                position = os.lseek(self._descriptor, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole is left
                    return True
                if error.errno not in _NO_HOLES:
                    raise
            if self.read(position, min(len(_ZEROS), end - position)).strip(b"\0"):
                return False
            position += len(_ZEROS)
        return True

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> DataFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalStorage:
    """The local file system. See Storage for the methods."""

    def __reduce__(self) -> str:
        return "LOCAL"

    def list(self, path: str) -> dict[str, os.DirEntry[str]]:
        """See Storage.

        The system returns a large directory in several parts. If a broker renames a file meanwhile, the file
        can be missing under both names, or appear under both. So the directory is read until it did not
        change during a read. Its modification time shows that, unless the time is so recent that a later
        change may have the same clock tick: then two reads must give the same names.
        """
        entries: dict[str, os.DirEntry[str]] = {}
        for _ in range(_READS):
            before, changed_ns = entries, os.stat(path).st_mtime_ns  # noqa: PTH116 (a hot path of strings)
            with os.scandir(path) as scanned:
                entries = {entry.name: entry for entry in scanned}
            is_old = time.time_ns() - changed_ns > TICK_NS
            is_same = os.stat(path).st_mtime_ns == changed_ns  # noqa: PTH116
            if is_same and (is_old or entries.keys() == before.keys()):
                break
        return entries

    def open(self, path: str, *, follow_link: bool = True, known: object = None) -> DataFile:
        """See Storage."""
        del known
        return DataFile(path, follow_link=follow_link)

    def listed(self, path: str) -> None:
        """See Storage. A local file is opened as it is."""

    def exists(self, path: str) -> bool:
        """See Storage."""
        return os.path.exists(path)  # noqa: PTH110 (a hot path of strings)

    def identity(self, path: str) -> str:
        """See Storage."""
        return os.path.realpath(path)


LOCAL = LocalStorage()
"""The storage of paths without another one."""


class Window:
    """A buffer with a part of a file, reused from chunk to chunk and from file to file.

    It has room for about `chunk_bytes`, and grows only for a batch that is larger. If a chunk ends within a
    batch, these bytes are moved to the front of the buffer and not read again.
    """

    __slots__ = ("_buffer", "_chunk_bytes", "_file", "_filled", "_first", "_start")

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._buffer = memoryview(bytearray())
        self._file: DataFile | None = None
        self._start = 0  # position in the file of the first byte in the buffer
        self._first = 0  # its index in the buffer: see _PAGE_BYTES
        self._filled = 0

    def at(self, file: DataFile, position: int, end: int, needed_bytes: int = 1) -> memoryview:
        """Return the bytes of `file` from `position` on, at least `needed_bytes` of them or all up to `end`.

        Read a chunk only if fewer bytes are in the buffer. The view is valid until the next call. Raises
        LogTruncatedError if the file ends before `end`.
        """
        end = max(end, position)
        if file is self._file and self._start <= position <= self._start + self._filled:
            skip = position - self._start
            held = self._filled - skip
            if held >= min(needed_bytes, end - position):
                return self._buffer[self._first + skip :][: min(held, end - position)]
        else:
            skip = held = 0
        size = min(max(self._chunk_bytes, needed_bytes), end - position)
        first, kept = position % _PAGE_BYTES, self._buffer[self._first + skip :][:held]
        if first + size > len(self._buffer):
            self._buffer = _allocate(_PAGE_BYTES + size)
        self._buffer[first : first + held] = kept
        self._file, self._start, self._first, self._filled = file, position, first, held
        file.read_into(self._buffer[first + held : first + size], position + held)
        self._filled = size
        return self._buffer[first : first + size]


def _allocate(size_bytes: int) -> memoryview:
    """Return zeroed memory. It begins at a page boundary, except for small files."""
    if size_bytes <= 2 * _PAGE_BYTES:  # to map pages would take longer than to read the file
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def read_file(path: str, *, follow_link: bool = True) -> bytes:
    """Return all bytes of a small file.

    Args:
        path: the file.
        follow_link: False: refuse a link. A file that only kafkalog writes is never one, and the content of
            a file elsewhere must not get into the log directory.

    Raises FileNotFoundError, PermissionError, OSError.
    """
    with DataFile(path, follow_link=follow_link) as file:
        return file.read(0, file.size_bytes)
