"""Files whose bytes are made from others, chunk by chunk, when they are read."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from native_log.prefetch import ProcessThreads
from native_log.storage.anonymous_file import LOOK_AHEAD_BYTES, AnonymousFile
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNKS_AHEAD, _BYTES_AHEAD = 3, 12 << 20
"""How many chunks threads prepare for a sequential reader, and how many bytes these chunks may have."""

_LEAST_STEP_BYTES = 64 << 10
"""Steps are not shorter, so that few of them are needed when a chunk ends within a batch."""

_threads = ProcessThreads(available_cores(), "kafkalog-chunks")


class ChunkedFile(AnonymousFile):
    """A file that is read by chunks of equal size. See DataFile for the attributes and methods."""

    __slots__ = ("_ahead", "_chunk_bytes", "_end_index", "_first_position", "_prepare", "_recent")

    def __init__(
        self,
        path: str,
        size_bytes: int,
        version: int | str,
        mtime_ms: int,
        chunk_bytes: int,
        prepare: Callable[[int], Callable[[], bytes]],
    ) -> None:
        """Open a file without reading anything.

        Args:
            path, size_bytes, version, mtime_ms: see AnonymousFile.
            chunk_bytes: the size of each chunk but the last.
            prepare: reads what the chunk with this index is made of. Returns a function that makes the chunk
                in any thread. Both raise KafkaLogError, OSError.
        """
        super().__init__(path, size_bytes, version, mtime_ms)
        self._chunk_bytes = chunk_bytes
        self._prepare = prepare
        self._recent: dict[int, bytes] = {}  # the chunk needed last, and the one before it in the file
        self._first_position = size_bytes
        self._end_index = 0  # chunks from here on are made only when they are needed
        self._ahead: dict[int, Future[bytes]] = {}

    def step_from(self, position: int) -> int:
        """See DataFile. Steps are small at first, then end with a chunk, so that few bytes are copied."""
        if position == self._first_position:
            return _LEAST_STEP_BYTES
        rest = self._chunk_bytes - position % self._chunk_bytes
        step = rest if rest >= _LEAST_STEP_BYTES else rest + _LEAST_STEP_BYTES
        return min(step, super().step_from(position))

    def will_read(self, position: int, end: int) -> None:
        """See DataFile. From the second step on, the next chunks are made ahead."""
        self._first_position = position
        self._end_index = -(-min(end + LOOK_AHEAD_BYTES, self.size_bytes) // self._chunk_bytes)

    def close(self) -> None:
        """See DataFile. Chunks that are being made are dropped."""
        for future in self._ahead.values():
            future.cancel()
        self._ahead.clear()
        super().close()

    def _bring(self, position: int, end: int) -> None:  # noqa: ARG002
        """Start making the chunks that follow `position`, unless this is the first step of a reader."""
        if position <= self._first_position:
            return
        current = position // self._chunk_bytes
        ahead = min(_CHUNKS_AHEAD, _BYTES_AHEAD // self._chunk_bytes)
        wanted = range(current, min(current + 1 + ahead, self._end_index))
        for index in self._ahead.keys() - wanted:
            self._ahead.pop(index).cancel()
        for index in wanted[1:]:
            if index not in self._ahead and index not in self._recent:
                self._ahead[index] = self._begin(index)

    def _part(self, position: int, end: int) -> memoryview:
        index, start = divmod(position, self._chunk_bytes)
        part = memoryview(self._load_chunk(index))[start : start + end - position]
        assert part, f"chunk {index} of {self.path} is shorter than it should be"
        return part

    def _load_chunk(self, index: int) -> bytes:
        """Return a chunk. Make it now, unless it was made ahead or was needed recently."""
        if index in self._recent:
            return self._recent[index]
        coming = self._ahead.pop(index, None)
        chunk = self._prepare(index)() if coming is None else coming.result()
        before = self._recent.get(index - 1)
        self._recent = {index: chunk} if before is None else {index - 1: before, index: chunk}
        return chunk

    def _begin(self, index: int) -> Future[bytes]:
        """Start making a chunk. An error is raised when the chunk is needed."""
        try:
            make = self._prepare(index)
        except Exception as error:
            failed: Future[bytes] = Future()
            failed.set_exception(error)
            return failed
        return _threads.submit(make)
