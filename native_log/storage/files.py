"""What reading logs needs of a storage: names, bytes and versions of files, and nothing of Kafka."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from native_log.storage.local import LOCAL

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from native_log.storage.local import DataFile


logger = logging.getLogger(__name__)


class FileStat(Protocol):
    """The state of a file when it was listed, with the names of os.stat_result.

    Attributes:
        st_mode: says whether it is a regular file.
        st_size: its size in bytes.
        st_ino: tells this file from another one that takes its name: an inode number, or the version of an
            object. It is compared and never interpreted.
        st_mtime_ns: the time of the last change in epoch ns.
    """

    @property
    def st_mode(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_ino(self) -> int | str: ...
    @property
    def st_mtime_ns(self) -> int: ...


class FileEntry(Protocol):
    """A file or folder in a listing. os.DirEntry is one."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...

    def is_file(self) -> bool:
        """Return whether it is a regular file or a link to one. Raises OSError if that is unknown."""

    def is_dir(self) -> bool:
        """Return whether it is a folder or a link to one. Raises OSError if that is unknown."""

    def stat(self) -> FileStat:
        """Return the state of the file. Raises FileNotFoundError, OSError."""


class KnownFile(NamedTuple):
    """A file as it was listed: size in bytes, inode number or version, modification time in epoch ms."""

    size_bytes: int
    inode: int | str
    mtime_ms: int


class Storage(Protocol):
    """Folders of files that can be read. Paths are absolute, with `/`.

    Storages are values that can be pickled: a task opens a log where the driver has found it.
    """

    def list(self, path: str) -> Mapping[str, FileEntry]:
        """Return the entries of a folder by name, all as of one moment.

        Raises FileNotFoundError, NotADirectoryError, PermissionError, OSError.
        """

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        """Open a regular file. Raises FileNotFoundError, PermissionError, OSError.

        Args:
            path: the file.
            follow_link: False: refuse a link.
            known: what is known of the file. A storage that has versions of files opens this version, and
                reading from it raises LogTruncatedError if it is gone; others open what is there.
        """

    def listed(self, path: str) -> KnownFile | None:
        """Return what is known of a file since its folder was listed; None if nothing is.

        Passing it to `open` in another process saves a request.
        """

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder at the path."""

    def identity(self, path: str) -> str:
        """Return a path that is the same for all paths to one folder."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, and the storage that has it."""

    path: str
    storage: Storage = LOCAL

    def __str__(self) -> str:
        return self.path

    @property
    def parent(self) -> Folder:
        """The folder that contains this one."""
        return Folder(self.path.rpartition("/")[0], self.storage)

    def __truediv__(self, name: str) -> Folder:
        """Return the folder `name` in this one."""
        return Folder(f"{self.path}/{name}", self.storage)

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return self.storage.exists(self.path)

    def was_removed(self) -> bool:
        """Return whether the folder is gone, and others, or files, are left beside it.

        If nothing is left, a disk may have been unmounted.
        """
        try:
            entries = self.parent.list()
        except OSError:
            return False
        return bool(entries) and self.path.rpartition("/")[2] not in entries

    def list(self) -> Mapping[str, FileEntry]:
        """Return its entries by name: see Storage.list."""
        return self.storage.list(self.path)

    def read(self, name: str, *, follow_link: bool = True) -> bytes:
        """Return all bytes of a small file. Raises as Storage.open.

        Args:
            name: the file.
            follow_link: False: refuse a link. A file that only kafkalog writes is never one, and the content
                of a file elsewhere must not get into the log directory.
        """
        with self.storage.open(f"{self.path}/{name}", follow_link=follow_link) as file:
            return file.read(0, file.size_bytes)

    def size_bytes(self, name: str) -> int:
        """Return the size of a file in bytes. Raises as Storage.open."""
        with self.storage.open(f"{self.path}/{name}") as file:
            return file.size_bytes

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder with that name."""
        return self.storage.exists(f"{self.path}/{name}")


ListedFile = tuple[int, int | str, int]
"""Size in bytes, inode number or version, and modification time in epoch ns of a file in a listing."""


def listed_files(entries: Mapping[str, FileEntry]) -> dict[str, ListedFile]:
    """Return the state of each file in a listing. If two answers are equal, nothing has changed meanwhile."""
    return {name: listed_file(entry) for name, entry in entries.items() if entry.is_file()}


def listed_file(entry: FileEntry) -> ListedFile:
    """Return the state of a file in a listing."""
    state = entry.stat()
    return state.st_size, state.st_ino, state.st_mtime_ns


def folder_of(place: str | os.PathLike[str] | Path | Folder) -> Folder:
    """Return a local directory as a folder, and a folder as it is."""
    return place if isinstance(place, Folder) else Folder(str(place))


def is_directory(entry: FileEntry) -> bool:
    """Return whether the entry is a directory or a link to one.

    Log a warning and return False if the system cannot tell, as for a link that leads to itself.
    """
    try:
        return entry.is_dir()
    except OSError as error:
        logger.warning("%s: skipped: %s", entry.path, error.strerror)
        return False


def is_file(entry: FileEntry) -> bool:
    """Return whether the entry is a file or a link to one. Otherwise as `is_directory`."""
    try:
        return entry.is_file()
    except OSError as error:
        logger.warning("%s: skipped: %s", entry.path, error.strerror)
        return False
