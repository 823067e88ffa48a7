"""A storage in memory, and one that fails. They prove that logs are read through the interface only."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from native_log.storage import DataFile, WrappedStorage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from native_log.storage import FileEntry, KnownFile


@dataclass(frozen=True)
class MemoryEntry:
    """A file or folder in memory: FileEntry and FileStat at once."""

    path: str
    st_mode: int
    data: bytes = b""
    st_ino: int = 0
    st_mtime_ns: int = 0

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def st_size(self) -> int:
        return len(self.data)

    def is_file(self) -> bool:
        return stat.S_ISREG(self.st_mode)

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.st_mode)

    def stat(self) -> MemoryEntry:
        return self


class MemoryFile(DataFile):
    """A file in memory, open for reading."""

    __slots__ = ()

    def __init__(self, entry: MemoryEntry) -> None:
        self._descriptor = os.memfd_create(entry.name)
        os.pwrite(self._descriptor, entry.data, 0)
        self.path = entry.path
        self.size_bytes = entry.st_size
        self.inode = entry.st_ino
        self.mtime_ms = entry.st_mtime_ns // 1_000_000


@dataclass(frozen=True, eq=False)
class MemoryStorage:
    """Files by path. Parents of files are folders."""

    entries: Mapping[str, MemoryEntry]

    @classmethod
    def copy_of(cls, directory: Path, at: str) -> MemoryStorage:
        """Copy a local directory to the path `at`."""
        entries = {at: MemoryEntry(at, stat.S_IFDIR)}
        for number, file in enumerate(sorted(directory.rglob("*")), 1):
            path = f"{at}/{file.relative_to(directory)}"
            if file.is_dir():
                entries[path] = MemoryEntry(path, stat.S_IFDIR)
            else:
                state = file.stat()
                entries[path] = MemoryEntry(path, stat.S_IFREG, file.read_bytes(), number, state.st_mtime_ns)
        return cls(entries)

    def list(self, path: str) -> dict[str, MemoryEntry]:
        folder = self._find(path)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return {
            entry.name: entry for key, entry in self.entries.items() if key.rpartition("/")[0] == folder.path
        }

    def open(self, path: str, *, follow_link: bool = True, known: object = None) -> DataFile:
        del follow_link, known  # there are no links and no versions
        return MemoryFile(self._find(path))

    def listed(self, path: str) -> None:
        return None

    def exists(self, path: str) -> bool:
        return path in self.entries

    def identity(self, path: str) -> str:
        return path

    def _find(self, path: str) -> MemoryEntry:
        try:
            return self.entries[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path) from None


@dataclass(frozen=True, eq=False)
class FailingStorage(WrappedStorage):
    """A storage that fails on one access.

    Attributes:
        failing: the number of the access that fails, from 0.
        accesses: the paths of all accesses so far.
    """

    failing: int
    accesses: list[str] = field(default_factory=list)

    def list(self, path: str) -> Mapping[str, FileEntry]:
        self._count(path)
        return self.storage.list(path)

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        self._count(path)
        return self.storage.open(path, follow_link=follow_link, known=known)

    def _count(self, path: str) -> None:
        self.accesses.append(path)
        if len(self.accesses) == self.failing + 1:
            raise OSError(errno.EIO, "Input/output error", path)
