"""Files whose ranges are fetched ahead of the reader, such as objects in a bucket."""

from __future__ import annotations

import errno
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from native_log.prefetch import ProcessThreads
from native_log.storage.anonymous_file import KEPT_BYTES, LOOK_AHEAD_BYTES, AnonymousFile, FileRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from native_log.storage.byte_cache import ByteCache

_FIRST_BYTES = 64 << 10
"""What is fetched at first of bytes that are read in order. A reader of a few records needs no more."""
_LOOKUP_BYTES = 32 << 10
"""What is fetched of bytes that nobody has announced, as for a lookup, at least."""
_LOOKUP_LOADS = 4
"""After more sequential reads than this, the rest of the file is prefetched: it is not a lookup."""
_BLOCK_BYTES = 16 << 10
"""Lookups fetch whole blocks, which are kept for the next lookup."""
_KEPT_RANGE_BYTES = 128 << 10
"""Up to this size, the blocks of a range are kept, too: these are beginnings of reads, and ends of logs."""
_GROWTH = 4
MAX_RANGE_BYTES = 4 << 20
"""Sequential reads fetch ranges that grow up to this size."""
RANGES_AHEAD = 12
"""How many ranges are on their way at a time. One more may have arrived already."""

_threads = ProcessThreads(4 * RANGES_AHEAD, "kafkalog-fetch")


class _Fetched(NamedTuple):
    """Bytes that start at a position in the file, in the buffer in which they arrived."""

    position: int
    data: memoryview

    @property
    def end_position(self) -> int:
        return self.position + len(self.data)

    def part(self, position: int, end: int) -> memoryview:
        """Return the bytes from `position` to before `end`, or to the end of this buffer."""
        return self.data[position - self.position : end - self.position]


class RangedFile(AnonymousFile):
    """A file that is read by ranges. See DataFile for the attributes and methods."""

    __slots__ = (
        "_ahead",
        "_blocks",
        "_end",
        "_fetch",
        "_fetched",
        "_limit",
        "_sequential_loads",
        "_step",
    )

    def __init__(
        self,
        path: str,
        size_bytes: int,
        version: int | str,
        mtime_ms: int,
        fetch: Callable[[int, int], Buffer],
        blocks: ByteCache,
    ) -> None:
        """Open a file without fetching anything.

        Args:
            path, size_bytes, version, mtime_ms: see AnonymousFile.
            fetch: returns the bytes from a position to before another one. It is called by several threads.
                Raises OSError, LogTruncatedError.
            blocks: what was fetched for lookups, by path, version and number of the block.
        """
        super().__init__(path, size_bytes, version, mtime_ms)
        self._fetch = fetch
        self._blocks = blocks
        self._ahead: deque[tuple[FileRange, Future[memoryview]]] = deque()  # on their way, without gaps
        self._fetched: list[_Fetched] = []  # the ranges close to the reader
        self._limit = 0  # nothing after it is fetched before it is needed
        self._end = -1  # of the last bytes that were needed: a sequential read continues there or before
        self._sequential_loads = 0
        self._step = _FIRST_BYTES

    def step_from(self, position: int) -> int:  # noqa: ARG002
        """See DataFile: small at first, so that the first records are there soon."""
        return self._step if self._sequential_loads else _FIRST_BYTES

    def will_read(self, position: int, end: int) -> None:
        """See DataFile. The first of these bytes are requested at once."""
        self._limit = min(end + LOOK_AHEAD_BYTES, self.size_bytes)
        start = position - position % _BLOCK_BYTES
        if not self._ahead and start < self._limit and not self._is_known(start):
            self._submit(start, min(self._limit, position + self._step + LOOK_AHEAD_BYTES))

    def close(self) -> None:
        """See DataFile. What is on its way is dropped when it arrives."""
        self._cancel()
        self._fetched.clear()
        super().close()

    def _bring(self, position: int, end: int) -> None:
        """Fetch the bytes from `position` to before `end`, and begin to fetch more of a sequential read."""
        is_sequential = position <= self._end < end or self._end < 0
        self._sequential_loads = self._sequential_loads + 1 if is_sequential else 0
        while (missing := self._known_until(position)) < end:
            if self._ahead and self._ahead[0][0].position <= missing < self._ahead[-1][0].end_position:
                self._take()
                continue
            if self._recall(missing):
                continue
            self._cancel()
            if not is_sequential:
                self._step = _FIRST_BYTES
            if missing >= self._limit and self._sequential_loads > _LOOKUP_LOADS:
                self._limit = self.size_bytes
            if missing < self._limit:
                self._submit(missing, max(end, min(self._limit, missing + self._step)))
            else:
                self._look_up(missing, end)
        if is_sequential:
            self._fetch_ahead(end)
        self._end = max(end, self._end if is_sequential else 0)
        # To bound memory, only ranges near the reader are kept. What lies further back is fetched again.
        first = position - KEPT_BYTES
        self._fetched = [each for each in self._fetched if each.position < end and first < each.end_position]

    def _known_until(self, position: int) -> int:
        """Return the first byte from `position` on that is neither fetched nor in the anonymous memory."""
        while True:
            end = self._held_until(position)
            fetched = self._fetched_at(end)
            if fetched is None:
                return end
            position = fetched.end_position

    def _fetched_at(self, position: int) -> _Fetched | None:
        """Return the fetched range that contains a position; None if there is none."""
        return next((each for each in self._fetched if each.position <= position < each.end_position), None)

    def _part(self, position: int, end: int) -> memoryview | None:
        fetched = self._fetched_at(position)
        return None if fetched is None else fetched.part(position, end)

    def _fetch_ahead(self, position: int) -> None:
        """Begin to fetch what follows, more with each load."""
        start = self._ahead[-1][0].end_position if self._ahead else self._known_until(position)
        while not self._ahead and start < self._limit and self._recall(start):
            start = self._known_until(start)
        while start < self._limit and self._has_room():
            start = self._submit(start, min(self._limit, start + self._step))

    def _has_room(self) -> bool:
        """Return whether to fetch one more range ahead: few at first, since the reader may stop soon."""
        coming = sum(not future.done() for _, future in self._ahead)
        return coming < min(self._sequential_loads, RANGES_AHEAD) and len(self._ahead) <= RANGES_AHEAD

    def _look_up(self, position: int, end: int) -> None:
        """Fetch bytes that are needed, and some around them, in whole blocks."""
        start = position - position % _BLOCK_BYTES
        end = max(end, position + _LOOKUP_BYTES)
        end = min(self.size_bytes, end + -end % _BLOCK_BYTES)
        while start < end:  # in this thread: when many logs are opened, each has one
            stop = min(end, start + MAX_RANGE_BYTES)
            data = self._get(start, stop)
            self._put(start, data)
            self._keep(start, data)
            start = stop

    def _is_known(self, position: int) -> bool:
        return self._known_until(position) > position or self._recall(position)

    def _recall(self, position: int) -> bool:
        """Take the block at a position from those that were kept. Return whether it was there."""
        number = position // _BLOCK_BYTES
        block = self._blocks.get((self.path, self.inode, number))
        if block is not None:
            self._put(number * _BLOCK_BYTES, block)
        return block is not None

    def _keep(self, position: int, data: memoryview) -> None:
        """Keep the whole blocks in bytes that were fetched."""
        end = position + len(data)
        for start in range(position + -position % _BLOCK_BYTES, end, _BLOCK_BYTES):
            stop = min(start + _BLOCK_BYTES, self.size_bytes)
            if stop <= end:
                block = bytes(data[start - position : stop - position])
                self._blocks.put((self.path, self.inode, start // _BLOCK_BYTES), block)

    def _submit(self, position: int, end: int) -> int:
        """Begin to fetch a range, at most MAX_RANGE_BYTES of it. Return its end. The next one is larger."""
        end = min(end, position + MAX_RANGE_BYTES)
        self._step = min(self._step * _GROWTH, MAX_RANGE_BYTES)
        self._ahead.append(self._begin(position, end))
        return end

    def _begin(self, position: int, end: int) -> tuple[FileRange, Future[memoryview]]:
        return FileRange(position, end), _threads.submit(partial(self._get, position, end))

    def _get(self, position: int, end: int) -> memoryview:
        """Fetch a range, in any thread. Raises OSError if the answer is too short."""
        data = memoryview(self._fetch(position, end))
        if len(data) != end - position:
            message = (
                f"expected {end - position} bytes from position {position} on, found {len(data)}; read again"
            )
            raise OSError(errno.EIO, message, self.path)
        return data

    def _take(self) -> None:
        """Wait for the first range that is on its way."""
        (position, end), future = self._ahead.popleft()
        data = future.result()
        self._fetched.append(_Fetched(position, data))
        if end - position <= _KEPT_RANGE_BYTES:
            self._keep(position, data)

    def _cancel(self) -> None:
        for _, future in self._ahead:
            future.cancel()
        self._ahead.clear()
