"""Files whose bytes are made from others, chunk by chunk, when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.storage.anonymous_file import AnonymousFile, FileRange

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

    def _load(self, position: int, end: int) -> None:
        while (missing := self._first_missing(position, end)) is not None:
            index = missing // self._chunk_bytes
            start, chunk = index * self._chunk_bytes, self._load_chunk(index)
            self._write(start, chunk)
            self._hold(FileRange(start, start + len(chunk)))
