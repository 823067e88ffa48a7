"""Files of which ranges are fetched as they are needed, such as objects in a bucket.

The ranges are put into anonymous memory with a file descriptor, at the positions that they have in the
file. So everything that reads a local file by its descriptor, the kernel included, reads such a file, too.
What lies behind the reader is given back to the system.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import threading
from bisect import bisect_right
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from native_log.storage.local import DataFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from typing_extensions import Buffer

T = TypeVar("T")

_FIRST_BYTES = 64 << 10
"""What is fetched at first, and after a jump. A reader of a few records needs no more."""
_GROWTH = 4
MAX_RANGE_BYTES = 8 << 20
"""Sequential reads fetch ranges that grow up to this size."""
RANGES_AHEAD = 4
"""How many ranges are on their way at a time."""
LOOK_AHEAD_BYTES = 16 << 10
"""The kernel looks at the headers of the two batches after the bytes that it is given: see OffsetOrder."""
_KEPT_BYTES = 16 << 20
"""How many bytes behind the reader are kept, for lookups that go back."""

_executor: tuple[int, ThreadPoolExecutor] | None = None
_lock = threading.Lock()


class FileRange(NamedTuple):
    """Bytes of a file, end exclusive."""

    position: int
    end_position: int


class RangedFile(DataFile):
    """A file that is read by ranges. See DataFile for the attributes and methods."""

    __slots__ = ("_ahead", "_end", "_fetch", "_held", "_limit", "_map", "_sequential_loads", "_step")

    def __init__(
        self,
        path: str,
        size_bytes: int,
        version: int | str,
        mtime_ms: int,
        fetch: Callable[[int, int], Buffer],
    ) -> None:
        """Open a file of which nothing is fetched yet.

        Args:
            version: tells the file from another one of the same name.
            fetch: returns the bytes from a position to before another one. It is called by several threads.
                Raises OSError, LogTruncatedError.
        """
        self.path = path
        self.size_bytes = size_bytes
        self.inode = version
        self.mtime_ms = mtime_ms
        self._fetch = fetch
        self._descriptor = anonymous_file()
        os.ftruncate(self._descriptor, size_bytes)
        self._map = mmap.mmap(self._descriptor, size_bytes) if size_bytes else None
        self._held: list[FileRange] = []  # what was fetched: in order, none touches another
        self._ahead: deque[tuple[FileRange, Future[Buffer]]] = deque()  # what is on its way, without gaps
        self._limit = 0  # nothing after it is fetched before it is needed
        self._end = -1  # of the last bytes that were needed: a sequential read continues there or before
        self._sequential_loads = 0
        self._step = _FIRST_BYTES

    @property
    def step_bytes(self) -> int:
        """See DataFile: small at first, so that the first records are there soon."""
        return self._step

    def will_read(self, position: int, end: int) -> None:
        """See DataFile."""
        del position
        self._limit = min(end + LOOK_AHEAD_BYTES, self.size_bytes)

    def read_into(self, buffer: memoryview, position: int) -> None:
        """See DataFile."""
        if len(buffer):
            self._load(position, position + len(buffer))
            super().read_into(buffer, position)

    def read_by(self, function: Callable[[int, int, int], T], position: int, end: int) -> T:
        """See DataFile. The bytes are fetched before the call."""
        self._load(position, end)
        return function(self._descriptor, position, end)

    def is_zero(self, position: int, end: int) -> bool:
        """See DataFile."""
        while position < end:
            size = min(_FIRST_BYTES, end - position)
            if self.read(position, size).strip(b"\0"):
                return False
            position += size
        return True

    def close(self) -> None:
        """Close the file. What is on its way is dropped when it arrives."""
        self._cancel()
        if self._map is not None:
            self._map.close()
        os.close(self._descriptor)

    def _load(self, position: int, end: int) -> None:
        """Fetch the bytes from `position` to before `end`, and begin to fetch more of a sequential read."""
        end = min(end + LOOK_AHEAD_BYTES, self.size_bytes)
        is_sequential = position <= self._end < end or self._end < 0
        self._sequential_loads = self._sequential_loads + 1 if is_sequential else 0
        while (missing := self._first_missing(position, end)) is not None:
            if self._ahead and self._ahead[0][0].position <= missing < self._ahead[-1][0].end_position:
                self._take()
                continue
            self._cancel()
            if not is_sequential:
                self._step = _FIRST_BYTES
            self._submit(missing, max(end, min(self._limit, missing + self._step)))
        if is_sequential:
            self._fetch_ahead(end)
        self._end = max(end, self._end if is_sequential else 0)
        self._release(position)

    def _fetch_ahead(self, position: int) -> None:
        """Begin to fetch what follows, more with each load."""
        start = self._ahead[-1][0].end_position if self._ahead else self._held_until(position)
        while start < self._limit and len(self._ahead) < min(self._sequential_loads, RANGES_AHEAD):
            start = self._submit(start, min(self._limit, start + self._step))

    def _submit(self, position: int, end: int) -> int:
        """Begin to fetch a range, at most MAX_RANGE_BYTES of it. Return its end. The next one is larger."""
        end = min(end, position + MAX_RANGE_BYTES)
        self._step = min(self._step * _GROWTH, MAX_RANGE_BYTES)
        self._ahead.append((FileRange(position, end), _pool().submit(self._fetch, position, end)))
        return end

    def _take(self) -> None:
        """Wait for the first range that is on its way, and put it into memory."""
        (position, end), future = self._ahead.popleft()
        data: Any = future.result()
        assert self._map is not None
        self._map[position:end] = memoryview(data)
        self._hold(FileRange(position, end))

    def _cancel(self) -> None:
        for _, future in self._ahead:
            future.cancel()
        self._ahead.clear()

    def _hold(self, new: FileRange) -> None:
        start, end, others = new.position, new.end_position, []
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
        if not self._held or position - self._held[0].position < 2 * _KEPT_BYTES or self._map is None:
            return
        first, last = self._held[0]
        start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
        end = min(last, position - _KEPT_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start and hasattr(mmap, "MADV_REMOVE"):
            self._map.madvise(mmap.MADV_REMOVE, start, end - start)
            self._held[0] = FileRange(end, last)


def anonymous_file() -> int:
    """Return the descriptor of a file without a name."""
    if sys.platform == "linux":
        return os.memfd_create("kafkalog", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process that fetch ranges."""
    global _executor
    with _lock:
        if _executor is None or _executor[0] != os.getpid():
            workers = ThreadPoolExecutor(4 * RANGES_AHEAD, thread_name_prefix="kafkalog-fetch")
            _executor = os.getpid(), workers
        return _executor[1]
