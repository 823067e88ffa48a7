"""Files whose bytes are made from others, chunk by chunk, when they are read."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from native_log.prefetch import ProcessThreads
from native_log.storage.anonymous_file import LOOK_AHEAD_BYTES, AnonymousFile, FileRange
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNKS_AHEAD = 3
"""How many chunks threads make while a sequential reader works on the one before."""

_LEAST_STEP_BYTES = 64 << 10
"""Steps are not shorter, so that few of them are needed when a chunk ends within a batch."""

_threads = ProcessThreads(available_cores(), "kafkalog-chunks")


class ChunkedFile(AnonymousFile):
    """A file that is read by chunks of equal size. See DataFile for the attributes and methods."""

    __slots__ = ("_ahead", "_chunk_bytes", "_end_index", "_first_position", "_joined", "_prepare", "_recent")

    def __init__(
        self,
        path: str,
        size_bytes: int,
        version: int | str,
        mtime_ms: int,
        chunk_bytes: int,
        prepare: Callable[[int], Callable[[], bytes]],
    ) -> None:
        """Open a file of which nothing is read yet.

        Args:
            path, size_bytes, version, mtime_ms: see AnonymousFile.
            chunk_bytes: the size of each chunk but the last.
            prepare: reads what the chunk with this index is made of. Returns a function that makes the chunk
                in any thread. Both raise KafkaLogError, OSError.
        """
        super().__init__(path, size_bytes, version, mtime_ms)
        self._chunk_bytes = chunk_bytes
        self._prepare = prepare
        self._recent: dict[int, bytes] = {}  # the chunk that was made last, and the one before it in the file
        self._first_position = size_bytes
        self._end_index = 0  # no chunk from here on is made before it is needed
        self._ahead: dict[int, Future[bytes]] = {}
        self._joined = bytearray()  # for bytes that span several chunks

    def step_from(self, position: int) -> int:
        """See DataFile: little at first, then the rest of a chunk, so that few bytes have to be copied."""
        if position == self._first_position:
            return _LEAST_STEP_BYTES
        rest = self._chunk_bytes - position % self._chunk_bytes
        return rest if rest >= _LEAST_STEP_BYTES else rest + _LEAST_STEP_BYTES

    def will_read(self, position: int, end: int) -> None:
        """See DataFile. From the second step on, the next chunks are made ahead."""
        self._first_position = position
        self._end_index = -(-min(end + LOOK_AHEAD_BYTES, self.size_bytes) // self._chunk_bytes)

    def in_memory(self, position: int, end: int) -> memoryview | None:
        """See DataFile. The result is valid until the next call. Bytes of a single chunk are not copied."""
        if position >= end:
            return None
        self._make_ahead(position)
        first = self._part(position, end)
        found = first if len(first) == end - position else self._join(position, end)
        self._copy(end, min(end + LOOK_AHEAD_BYTES, self.size_bytes))
        self._release(position)
        return found

    def close(self) -> None:
        """See DataFile. Chunks that are being made are dropped."""
        for future in self._ahead.values():
            future.cancel()
        self._ahead.clear()
        super().close()

    def _load(self, position: int, end: int) -> None:
        self._make_ahead(position)
        self._copy(position, end)

    def _copy(self, position: int, end: int) -> None:
        """Copy bytes to the anonymous memory, unless they are there already."""
        while (missing := self._first_missing(position, end)) is not None:
            part = self._part(missing, end)
            self._write(missing, part)
            self._hold(FileRange(missing, missing + len(part)))

    def _join(self, position: int, end: int) -> memoryview:
        """Return bytes of several chunks as one buffer, which is reused."""
        if len(self._joined) < end - position:
            self._joined = bytearray(end - position)
        joined = memoryview(self._joined)[: end - position]
        at = position
        while at < end:
            part = self._part(at, end)
            joined[at - position : at - position + len(part)] = part
            at += len(part)
        return joined

    def _part(self, position: int, end: int) -> memoryview:
        """Return the bytes from `position` to before `end`, or to the end of their chunk."""
        index, start = divmod(position, self._chunk_bytes)
        return memoryview(self._load_chunk(index))[start : start + end - position]

    def _load_chunk(self, index: int) -> bytes:
        """Return a chunk: one that is at hand, or has been made ahead."""
        if index in self._recent:
            return self._recent[index]
        coming = self._ahead.pop(index, None)
        chunk = self._prepare(index)() if coming is None else coming.result()
        before = self._recent.get(index - 1)
        self._recent = {index: chunk} if before is None else {index - 1: before, index: chunk}
        return chunk

    def _make_ahead(self, position: int) -> None:
        """Begin to make the chunks after that at a position, unless this is the first step of a reader."""
        if position <= self._first_position:
            return
        current = position // self._chunk_bytes
        wanted = range(current, min(current + 1 + _CHUNKS_AHEAD, self._end_index))
        for index in self._ahead.keys() - wanted:
            self._ahead.pop(index).cancel()
        for index in wanted[1:]:
            if index not in self._ahead and index not in self._recent:
                self._ahead[index] = self._begin(index)

    def _begin(self, index: int) -> Future[bytes]:
        """Begin to make a chunk. What fails is raised when the chunk is needed."""
        try:
            make = self._prepare(index)
        except Exception as error:
            failed: Future[bytes] = Future()
            failed.set_exception(error)
            return failed
        return _threads.submit(make)
