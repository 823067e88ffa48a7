"""Local files, read with pread into reused buffers.

Never read through a mapping: a broker may truncate a file under its reader, and a mapping answers that with
SIGBUS, which no program survives. A copy out of the page cache into a buffer that stays in the CPU's cache
costs next to nothing.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError

if TYPE_CHECKING:
    from types import TracebackType

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
"""How many bytes a reader takes at once. Enough that a call costs nothing beside its work, few enough that
they are still in the CPU's cache when they are decoded."""

_ZEROS = bytes(1 << 16)
_NO_HOLES = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What lseek(SEEK_DATA) fails with on file systems that cannot tell holes from data."""
_PAGE_BYTES = 4096
"""A window holds each byte at the offset within a page that it has in the file. Linux copies with
`rep movsb`, which AMD processors run up to four times slower if the destination's offset within a page is 1
to 63 bytes higher."""


def is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether it is a directory, or a link to one. False, with a warning, where that cannot be found out, as
    for a link that leads to itself."""
    try:
        return entry.is_dir()
    except OSError as error:
        logger.warning("%s: skipped: %s", entry.path, error.strerror)
        return False


def is_file(entry: os.DirEntry[str]) -> bool:
    """The same for a file."""
    try:
        return entry.is_file()
    except OSError as error:
        logger.warning("%s: skipped: %s", entry.path, error.strerror)
        return False


class DataFile:
    """One file, open for reading; a context manager.

    Attributes:
        path: its path.
        size_bytes: its size when it was opened. What was appended since is not seen; if it is shorter by now,
            reading raises LogTruncatedError.
        inode, mtime_ms: its number and time of modification when it was opened.
    """

    __slots__ = ("_descriptor", "inode", "mtime_ms", "path", "size_bytes")

    def __init__(self, path: str) -> None:
        """Raises FileNotFoundError, PermissionError, OSError."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.path = path
        stat = os.fstat(self._descriptor)
        self.size_bytes = stat.st_size
        self.inode = stat.st_ino
        self.mtime_ms = stat.st_mtime_ns // 1_000_000

    def fileno(self) -> int:
        """The file's descriptor, as long as this is open."""
        return self._descriptor

    def was(self, inode: int, size_bytes: int, mtime_ms: int) -> bool:
        """Whether a file that had these attributes is this one, which may have grown since.

        A broker's cleaner puts other files under the same names. Size and time of modification are the same
        on every host; they tell a file that nobody writes to from a cleaned one. The inode tells a file that
        has grown, but only on the same host: file systems such as FUSE number files by mount.
        """
        is_unchanged = (self.size_bytes, self.mtime_ms) == (size_bytes, mtime_ms)
        return is_unchanged or (self.inode == inode and self.size_bytes >= size_bytes)

    def read_into(self, buffer: memoryview, position: int) -> None:
        """Fill `buffer` with the bytes from `position` on, which must lie within size_bytes."""
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
        """Up to `size_bytes` bytes from `position` on: fewer only at the end of the file."""
        data = bytearray(max(0, min(size_bytes, self.size_bytes - position)))
        self.read_into(memoryview(data), position)
        return bytes(data)

    def is_zero(self, position: int, end: int) -> bool:
        """Whether the bytes from `position` to `end` are all zero, as in a preallocated file.

        Holes are not read.
        """
        while position < end:
            try:
                position = os.lseek(self._descriptor, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole is left
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


class Window:
    """A reused buffer over one file after another: what a reader holds of a file at a time.

    It holds about `chunk_bytes`, and grows only where one batch needs more. What a chunk's end has of a batch
    is moved to the front when the next is read, not read again.
    """

    __slots__ = ("_buffer", "_chunk_bytes", "_file", "_filled", "_first", "_start")

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._buffer = memoryview(bytearray())
        self._file: DataFile | None = None
        self._start = 0  # position in the file of the first byte held
        self._first = 0  # its index in the buffer: see _PAGE_BYTES
        self._filled = 0

    def at(self, file: DataFile, position: int, end: int, needed_bytes: int = 1) -> memoryview:
        """The bytes of `file` from `position` on that are at hand: at least `needed_bytes`, or all up to
        `end`.

        The view is good until the next call. Raises LogTruncatedError if the file ends before `end`.
        """
        end = max(end, position)
        if file is self._file and self._start <= position <= self._start + self._filled:
            skip = position - self._start
            held = self._filled - skip
            if held >= min(needed_bytes, end - position):
                return self._buffer[self._first + skip :][: min(held, end - position)]
        else:
            skip = held = 0
        wanted = min(max(self._chunk_bytes, needed_bytes), end - position)
        first, kept = position % _PAGE_BYTES, self._buffer[self._first + skip :][:held]
        if first + wanted > len(self._buffer):
            self._buffer = _pages(_PAGE_BYTES + wanted)
        self._buffer[first : first + held] = kept
        self._file, self._start, self._first, self._filled = file, position, first, held
        file.read_into(self._buffer[first + held : first + wanted], position + held)
        self._filled = wanted
        return self._buffer[first : first + wanted]


def _pages(size_bytes: int) -> memoryview:
    """Zeroed memory that begins at a page boundary."""
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def read_file(path: str) -> bytes:
    """All bytes of a small file."""
    with DataFile(path) as file:
        return file.read(0, file.size_bytes)
