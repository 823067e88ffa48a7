"""Files whose bytes are made from others, chunk by chunk, when they are read.

The bytes are put into anonymous memory with a file descriptor, at their own positions. So whatever reads a
local file by its descriptor, the kernel included, reads such a file, too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from native_log.storage.local import DataFile
from native_log.storage.ranged_file import LOOK_AHEAD_BYTES, anonymous_file

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class ChunkedFile(DataFile):
    """A file that is read by chunks of equal size. See DataFile for the attributes and methods."""

    __slots__ = ("_chunk_bytes", "_load_chunk", "_loaded")

    def __init__(
        self,
        path: str,
        size_bytes: int,
        inode: int | str,
        mtime_ms: int,
        chunk_bytes: int,
        load_chunk: Callable[[int], bytes],
    ) -> None:
        """Open a file of which nothing is read yet.

        Args:
            path, size_bytes, inode, mtime_ms: see DataFile.
            chunk_bytes: the size of each chunk but the last.
            load_chunk: returns the bytes of the chunk with this index. Raises KafkaLogError, OSError.
        """
        self._descriptor = anonymous_file()
        self.path = path
        self.size_bytes = size_bytes
        self.inode = inode
        self.mtime_ms = mtime_ms
        self._chunk_bytes = chunk_bytes
        self._load_chunk = load_chunk
        self._loaded: set[int] = set()
        os.ftruncate(self._descriptor, size_bytes)

    def read_into(self, buffer: memoryview, position: int) -> None:
        """See DataFile."""
        self._load(position, position + len(buffer))
        super().read_into(buffer, position)

    def read_by(self, function: Callable[[int, int, int], T], position: int, end: int) -> T:
        """See DataFile."""
        self._load(position, end + LOOK_AHEAD_BYTES)
        return super().read_by(function, position, end)

    def is_zero(self, position: int, end: int) -> bool:
        """See DataFile."""
        self._load(position, end)
        return super().is_zero(position, end)

    def _load(self, position: int, end: int) -> None:
        if position >= end:
            return
        first, last = position // self._chunk_bytes, (min(end, self.size_bytes) - 1) // self._chunk_bytes
        for index in range(first, last + 1):
            if index not in self._loaded:
                os.pwrite(self._descriptor, self._load_chunk(index), index * self._chunk_bytes)
                self._loaded.add(index)
