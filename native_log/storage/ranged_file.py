"""Files of which ranges are fetched ahead of the reader, such as objects in a bucket."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from native_log.storage.anonymous_file import LOOK_AHEAD_BYTES, AnonymousFile, FileRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from typing_extensions import Buffer

_FIRST_BYTES = 64 << 10
"""What is fetched at first of bytes that are read in order. A reader of a few records needs no more."""
_LOOKUP_BYTES = 32 << 10
"""What is fetched around bytes that nobody has announced, as for a lookup."""
_GROWTH = 4
MAX_RANGE_BYTES = 4 << 20
"""Sequential reads fetch ranges that grow up to this size."""
RANGES_AHEAD = 12
"""How many ranges are on their way at a time. One more may have arrived already."""

_executor: tuple[int, ThreadPoolExecutor] | None = None
_lock = threading.Lock()


class RangedFile(AnonymousFile):
    """A file that is read by ranges. See DataFile for the attributes and methods."""

    __slots__ = ("_ahead", "_end", "_fetch", "_limit", "_sequential_loads", "_step")

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
            path, size_bytes, version, mtime_ms: see AnonymousFile.
            fetch: returns the bytes from a position to before another one. It is called by several threads.
                Raises OSError, LogTruncatedError.
        """
        super().__init__(path, size_bytes, version, mtime_ms)
        self._fetch = fetch
        self._ahead: deque[tuple[FileRange, Future[None]]] = deque()  # what is on its way, without gaps
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

    def close(self) -> None:
        """See DataFile. What is on its way is dropped when it arrives."""
        self._cancel()
        super().close()

    def _load(self, position: int, end: int) -> None:
        """Fetch the bytes from `position` to before `end`, and begin to fetch more of a sequential read."""
        is_sequential = position <= self._end < end or self._end < 0
        self._sequential_loads = self._sequential_loads + 1 if is_sequential else 0
        while (missing := self._first_missing(position, end)) is not None:
            if self._ahead and self._ahead[0][0].position <= missing < self._ahead[-1][0].end_position:
                self._take()
                continue
            self._cancel()
            if not is_sequential:
                self._step = _FIRST_BYTES
            if missing < self._limit:
                self._submit(missing, max(end, min(self._limit, missing + self._step)))
            else:
                self._look_up(missing, end)
        if is_sequential:
            self._fetch_ahead(end)
        self._end = max(end, self._end if is_sequential else 0)

    def _fetch_ahead(self, position: int) -> None:
        """Begin to fetch what follows, more with each load."""
        start = self._ahead[-1][0].end_position if self._ahead else self._held_until(position)
        while start < self._limit and self._has_room():
            start = self._submit(start, min(self._limit, start + self._step))

    def _has_room(self) -> bool:
        """Return whether to fetch one more range ahead: few at first, since the reader may stop soon."""
        coming = sum(not future.done() for _, future in self._ahead)
        return coming < min(self._sequential_loads, RANGES_AHEAD) and len(self._ahead) <= RANGES_AHEAD

    def _look_up(self, position: int, end: int) -> None:
        """Fetch bytes that are needed, and some around them."""
        start = max(0, min(position, self.size_bytes - _LOOKUP_BYTES))
        end = min(self.size_bytes, max(end, position + _LOOKUP_BYTES))
        while start < end:  # in this thread: when many logs are opened, each has one
            stop = min(end, start + MAX_RANGE_BYTES)
            self._bring(start, stop)
            self._hold(FileRange(start, stop))
            start = stop

    def _submit(self, position: int, end: int) -> int:
        """Begin to fetch a range, at most MAX_RANGE_BYTES of it. Return its end. The next one is larger."""
        end = min(end, position + MAX_RANGE_BYTES)
        self._step = min(self._step * _GROWTH, MAX_RANGE_BYTES)
        self._ahead.append(self._begin(position, end))
        return end

    def _begin(self, position: int, end: int) -> tuple[FileRange, Future[None]]:
        return FileRange(position, end), _pool().submit(self._bring, position, end)

    def _bring(self, position: int, end: int) -> None:
        """Fetch a range, and put it into memory."""
        data = memoryview(self._fetch(position, end))
        if len(data) != end - position:
            message = (
                f"expected {end - position} bytes from position {position} on, found {len(data)}; read again"
            )
            raise OSError(errno.EIO, message, self.path)
        self._write(position, data)

    def _take(self) -> None:
        """Wait for the first range that is on its way."""
        file_range, future = self._ahead.popleft()
        future.result()
        self._hold(file_range)

    def _cancel(self) -> None:
        for _, future in self._ahead:
            future.cancel()
        self._ahead.clear()


def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process that fetch ranges."""
    global _executor
    with _lock:
        if _executor is None or _executor[0] != os.getpid():
            workers = ThreadPoolExecutor(4 * RANGES_AHEAD, thread_name_prefix="kafkalog-fetch")
            _executor = os.getpid(), workers
        return _executor[1]
