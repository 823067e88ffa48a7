"""Files whose bytes are put into anonymous memory when they are needed.

The memory has a file descriptor, and the bytes have the positions that they have in the file. So everything
that reads a local file by its descriptor, the kernel included, reads such a file, too.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from abc import abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from native_log.storage.local import DataFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

T = TypeVar("T")

LOOK_AHEAD_BYTES = 16 << 10
"""The kernel looks at the headers of the two batches after the bytes that it is given: see OffsetOrder."""
KEPT_BYTES = 4 << 20
"""How many bytes behind the reader are kept, for lookups that go back."""
_STEP_BYTES = 1 << 20
_MOST_REUSED_BYTES = 8 << 20
"""A larger buffer is not kept for the next read."""


class FileRange(NamedTuple):
    """Bytes of a file, end exclusive."""

    position: int
    end_position: int


class AnonymousFile(DataFile):
    """A file with parts in memory. See DataFile for the attributes and methods.

    What lies far behind the reader is given back to the system.
    """

    __slots__ = ("_held", "_joined", "_map")

    def __init__(self, path: str, size_bytes: int, version: int | str, mtime_ms: int) -> None:
        """Open a file, with nothing in memory yet.

        Args:
            path, size_bytes, mtime_ms: see DataFile.
            version: tells the file from another one of the same name.
        """
        self.path = path
        self.size_bytes = size_bytes
        self.inode = version
        self.mtime_ms = mtime_ms
        self._descriptor = _anonymous_descriptor()
        os.ftruncate(self._descriptor, size_bytes)
        self._map = mmap.mmap(self._descriptor, size_bytes) if size_bytes else None
        self._held: list[FileRange] = []
        """What is in memory: in order, and no range touches another one."""
        self._joined = bytearray()
        """A buffer for bytes that are in several others."""

    @abstractmethod
    def _bring(self, position: int, end: int) -> None:
        """Make the bytes from `position` to before `end`, both in the file, available. Raises OSError."""

    @abstractmethod
    def _part(self, position: int, end: int) -> memoryview | None:
        """Return the bytes from `position` to before `end`, or the first of them, where they are.

        None: they are only in the anonymous memory.
        """

    @property
    def has_all_bytes(self) -> bool:
        """See DataFile: only some of them are in memory."""
        return False

    def step_from(self, position: int) -> int:  # noqa: ARG002
        """See DataFile: what is read in one step must fit into memory."""
        return _STEP_BYTES

    def read_into(self, buffer: memoryview, position: int) -> None:
        """See DataFile."""
        if len(buffer):
            self._load_some(position, position + len(buffer))
            super().read_into(buffer, position)

    def read_by(self, function: Callable[[int, int, int], T], position: int, end: int) -> T:
        """See DataFile. The bytes are loaded before the call."""
        self._load_some(position, end + LOOK_AHEAD_BYTES)
        return function(self._descriptor, position, end)

    def in_memory(self, position: int, end: int) -> memoryview | None:
        """See DataFile. The result is valid until the next call. Bytes in a single buffer are not copied."""
        following = min(end + LOOK_AHEAD_BYTES, self.size_bytes)
        if position >= end:
            return None
        self._bring(position, following)
        found = self._join(position, end)
        if found is not None and end < following:
            self._copy(end, following)
        self._release(position)
        return found

    def is_zero(self, position: int, end: int) -> bool:
        """See DataFile."""
        while position < end:
            size = min(self.step_from(position), end - position)
            if self.read(position, size).strip(b"\0"):
                return False
            position += size
        return True

    def close(self) -> None:
        """See DataFile."""
        if self._map is not None:
            self._map.close()
        super().close()

    def _load_some(self, position: int, end: int) -> None:
        end = min(end, self.size_bytes)
        if position < end:
            self._bring(position, end)
            self._copy(position, end)
            self._release(position)

    def _join(self, position: int, end: int) -> memoryview | None:
        """Return bytes as one buffer; None if some of them are in the anonymous memory only."""
        parts: list[memoryview] = []
        at = position
        while at < end:
            part = self._part(at, end)
            if part is None:
                return None
            parts.append(part)
            at += len(part)
        if len(parts) == 1:
            return parts[0]
        size = end - position
        if not size <= len(self._joined) <= max(size, _MOST_REUSED_BYTES):
            self._joined = bytearray(size)
        joined = memoryview(self._joined)[:size]
        at = 0
        for part in parts:
            joined[at : at + len(part)] = part
            at += len(part)
        return joined

    def _copy(self, position: int, end: int) -> None:
        """Copy bytes to the anonymous memory, unless they are there already."""
        while (missing := self._first_missing(position, end)) is not None:
            part = self._part(missing, end)
            assert part is not None
            self._put(missing, part)

    def _put(self, position: int, data: Buffer) -> None:
        """Put bytes into the anonymous memory."""
        self._write(position, data)
        self._hold(FileRange(position, position + len(memoryview(data))))

    def _write(self, position: int, data: Buffer) -> None:
        """Put bytes at a position into memory."""
        view = memoryview(data)
        while len(view):
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written

    def _hold(self, new: FileRange) -> None:
        """Count the bytes of a range as in memory."""
        (start, end), others = new, []
        for held in self._held:
            if held.position <= end and start <= held.end_position:
                start, end = min(start, held.position), max(end, held.end_position)
            else:
                others.append(held)
        self._held = sorted([*others, FileRange(start, end)])

    def _held_until(self, position: int) -> int:
        """Return the end of the bytes that are held from `position` on; `position` if there are none."""
        index = bisect_right(self._held, position, key=lambda held: held.position) - 1
        return max(position, self._held[index].end_position) if index >= 0 else position

    def _first_missing(self, position: int, end: int) -> int | None:
        """Return the first byte from `position` to before `end` that is not held; None: all are."""
        first = self._held_until(position)
        return first if first < end else None

    def _release(self, position: int) -> None:
        """Give memory that lies far behind the reader back to the system."""
        if self._map is None or not hasattr(mmap, "MADV_REMOVE"):
            return
        while self._held and self._held[0].position < position - 2 * KEPT_BYTES:
            start, last = self._held[0]
            end = min(last, position - KEPT_BYTES)
            self._held[:1] = [FileRange(end, last)] if end < last else []
            first_page, end_page = -(-start // mmap.PAGESIZE), end // mmap.PAGESIZE
            if first_page < end_page:
                size = (end_page - first_page) * mmap.PAGESIZE
                self._map.madvise(mmap.MADV_REMOVE, first_page * mmap.PAGESIZE, size)


def _anonymous_descriptor() -> int:
    """Return the descriptor of a file without a name."""
    if sys.platform == "linux":
        return os.memfd_create("kafkalog", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
