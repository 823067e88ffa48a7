"""Files whose bytes are made from others, chunk by chunk, when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.storage.anonymous_file import LOOK_AHEAD_BYTES, AnonymousFile, FileRange

if TYPE_CHECKING:
    from collections.abc import Callable


class ChunkedFile(AnonymousFile):
    """A file that is read by chunks of equal size. See DataFile for the attributes and methods."""

    __slots__ = ("_chunk_bytes", "_load_chunk")

    def __init__(
        self,
        path: str,
        size_bytes: int,
        version: int | str,
        mtime_ms: int,
        chunk_bytes: int,
        load_chunk: Callable[[int], bytes],
    ) -> None:
        """Open a file of which nothing is read yet.

        Args:
            path, size_bytes, version, mtime_ms: see AnonymousFile.
            chunk_bytes: the size of each chunk but the last.
            load_chunk: returns the bytes of the chunk with this index. Raises KafkaLogError, OSError.
        """
        super().__init__(path, size_bytes, version, mtime_ms)
        self._chunk_bytes = chunk_bytes
        self._load_chunk = load_chunk

    def in_memory(self, position: int, end: int) -> memoryview | None:
        """See DataFile: one chunk has the bytes, and those that the kernel looks at after them."""
        following = min(end + LOOK_AHEAD_BYTES, self.size_bytes)
        index, start = divmod(position, self._chunk_bytes)
        if (following - 1) // self._chunk_bytes != index:
            return None
        if end < following:
            self._load_some(end, following)
        return memoryview(self._load_chunk(index))[start : start + end - position]

    def _load(self, position: int, end: int) -> None:
        while (missing := self._first_missing(position, end)) is not None:
            index, start = divmod(missing, self._chunk_bytes)
            part = memoryview(self._load_chunk(index))[start : start + end - missing]
            self._write(missing, part)
            self._hold(FileRange(missing, missing + len(part)))
