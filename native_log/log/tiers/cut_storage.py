"""A storage in which an object is shorter than its metadata says: what is missing is damage, not an end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.files import LOG
from native_log.storage import ChunkedFile, WrappedStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.storage import DataFile, KnownFile

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CutStorage(WrappedStorage):
    """A storage with one segment, whose end is missing. See WrappedStorage.

    Attributes:
        size_bytes: the size that the file with the batches had.
    """

    size_bytes: int

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        """See Storage. The missing end of the file with the batches reads as zeros."""
        if path.endswith(f".{LOG}"):
            return _CutFile(self.storage.open(path), self.size_bytes)
        return self.storage.open(path, follow_link=follow_link, known=known)


class _CutFile(ChunkedFile):
    """A file of `size_bytes` that contains only the bytes of `stored`."""

    __slots__ = ("_stored",)

    def __init__(self, stored: DataFile, size_bytes: int) -> None:
        self._stored = stored
        attributes = stored.path, size_bytes, stored.inode, stored.mtime_ms
        super().__init__(*attributes, _CHUNK_BYTES, self._read_chunk)

    def close(self) -> None:
        """See DataFile."""
        self._stored.close()
        super().close()

    def _read_chunk(self, index: int) -> Callable[[], bytes]:
        start = index * _CHUNK_BYTES
        size = min(_CHUNK_BYTES, self.size_bytes - start)
        there = max(0, min(size, self._stored.size_bytes - start))
        data = self._stored.read(start, there).ljust(size, b"\0")
        return lambda: data
