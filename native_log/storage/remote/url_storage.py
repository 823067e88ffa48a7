"""The storage of URLs, each in its bucket."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.prefetch import map_ahead
from native_log.storage.byte_cache import ByteCache
from native_log.storage.files import Folder, KnownFile
from native_log.storage.local import LOCAL
from native_log.storage.ranged_file import RangedFile
from native_log.storage.remote.buckets import Bucket, RemoteFile
from native_log.storage.remote.credentials import StorageOptions, StorageOptionsLike
from native_log.storage.remote.list_ahead import SHORTEST, groups
from native_log.storage.urls import UrlPath, scheme_of, url_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Buffer

    from native_log.storage.files import FileEntry, Storage
    from native_log.storage.local import DataFile
    from native_log.storage.remote.buckets import FolderContent

_LISTED_FOLDERS = 256
"""How many folders a storage remembers. Opening a log looks at its folder and at the one above, and many logs
are opened at a time."""

_KEPT_BYTES = 32 << 20
"""How many bytes of indexes, and of batches around an offset, a storage remembers. 64 logs are opened at a
time."""

_LISTS_AHEAD = 4
"""How many groups of folders are listed at a time."""

_buckets: dict[tuple[int, str, StorageOptions], Bucket] = {}
"""The buckets by the process that opened them, URL and options. Others' buckets are never used."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """A file or folder: FileEntry and FileStat at once."""

    path: str
    file: RemoteFile | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def st_mode(self) -> int:
        return stat.S_IFDIR if self.file is None else stat.S_IFREG

    @property
    def st_size(self) -> int:
        return 0 if self.file is None else self.file.size_bytes

    @property
    def st_ino(self) -> str:
        return "" if self.file is None else self.file.version

    @property
    def st_mtime_ns(self) -> int:
        return 0 if self.file is None else self.file.mtime_ns

    def is_file(self) -> bool:
        return self.file is not None

    def is_dir(self) -> bool:
        return self.file is None

    def stat(self) -> RemoteEntry:
        return self


class _Listings:
    """The folders that were used last. They belong to one process and are never pickled."""

    def __init__(self) -> None:
        self._folders: OrderedDict[str, Mapping[str, RemoteEntry]] = OrderedDict()
        self._ahead: dict[str, FolderContent] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Listings], tuple[()]]:
        return _Listings, ()

    def put(self, folder: str, entries: Mapping[str, RemoteEntry]) -> None:
        with self._lock:
            self._folders[folder] = entries
            self._folders.move_to_end(folder)
            if len(self._folders) > _LISTED_FOLDERS:
                self._folders.popitem(last=False)

    def get(self, folder: str) -> Mapping[str, RemoteEntry] | None:
        with self._lock:
            if folder in self._folders:
                self._folders.move_to_end(folder)
            return self._folders.get(folder)

    def expect(self, contents: dict[str, FolderContent]) -> None:
        """Remember what was listed ahead, instead of what was remembered before."""
        self._ahead = contents

    def take_ahead(self, folder: str) -> FolderContent | None:
        """Return what was listed ahead for a folder, and forget it; None if nothing was."""
        return self._ahead.pop(folder, None)

    def forget(self, folder: str) -> None:
        with self._lock:
            self._folders.pop(folder, None)


@dataclass(frozen=True, slots=True)
class UrlStorage:
    """Folders and files at URLs. See Storage for the methods.

    A file is opened in the version in which its folder was listed last.

    Attributes:
        options: credentials and other options of the buckets.
    """

    options: StorageOptions = field(default_factory=StorageOptions)
    _listings: _Listings = field(default_factory=_Listings, compare=False, repr=False)
    _blocks: ByteCache = field(default_factory=lambda: ByteCache(_KEPT_BYTES), compare=False, repr=False)

    def list(self, path: str) -> Mapping[str, FileEntry]:
        """See Storage."""
        bucket, key = self._locate(path)
        files, folders = self._listings.take_ahead(path) or bucket.list(key)
        entries = {name: RemoteEntry(f"{path}/{name}", None) for name in folders}
        entries |= {name: RemoteEntry(f"{path}/{name}", file) for name, file in files.items()}
        if not entries:
            if key and bucket.find(key) is not None:
                raise NotADirectoryError(errno.ENOTDIR, "this is a file", path)
            for folder in (path, path.rpartition("/")[0]):
                self._listings.forget(folder)
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        self._listings.put(path, entries)
        return entries

    def list_ahead(self, folder: str, names: Collection[str]) -> Iterator[Sequence[str]]:
        """List many folders with few requests. Yield their names in groups.

        Fewer than three folders are not listed, because that would take more requests.
        Until the next group is requested, the first `list` of each folder in a group returns what was found.

        Args:
            folder: their parent folder.
            names: their names.
        """
        if len(names) < SHORTEST:
            yield list(names)
            return
        bucket, key = self._locate(folder)
        existing = (self._listings.get(folder) or self.list(folder)).values()
        found = groups(names, [entry.name for entry in existing if entry.is_dir()])

        def content(group: tuple[Sequence[str], bool]) -> tuple[Sequence[str], Mapping[str, FolderContent]]:
            members, together = group
            return members, bucket.list_together(key, members) if together else {}

        for members, contents in map_ahead(content, found, _LISTS_AHEAD):
            self._listings.expect({f"{folder}/{name}": each for name, each in contents.items()})
            yield members
        self._listings.expect({})

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        """See Storage."""
        del follow_link  # there are no links
        bucket, key = self._locate(path)
        if known is not None:
            file: RemoteFile | None = RemoteFile(
                known.size_bytes, str(known.inode), known.mtime_ms * 1_000_000
            )
        else:
            file = self._find(path, bucket, key)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", path)
        read = partial(self._read, path, bucket, key, file)
        mtime_ms = file.mtime_ns // 1_000_000
        return RangedFile(path, file.size_bytes, file.version, mtime_ms, read, self._blocks)

    def listed(self, path: str) -> KnownFile | None:
        """See Storage."""
        folder, _, name = path.rpartition("/")
        entry = (self._listings.get(folder) or {}).get(name)
        if entry is None or entry.file is None:
            return None
        return KnownFile(entry.file.size_bytes, entry.file.version, entry.file.mtime_ns // 1_000_000)

    def exists(self, path: str) -> bool:
        """See Storage."""
        folder, _, name = path.rpartition("/")
        listed = self._listings.get(folder)
        if listed is not None:
            return name in listed
        bucket, key = self._locate(path)
        if bucket.find(key) is not None:
            return True
        try:
            return bool(self.list(path))
        except FileNotFoundError:
            return False

    def identity(self, path: str) -> str:
        """See Storage."""
        return path

    def _find(self, path: str, bucket: Bucket, key: str) -> RemoteFile | None:
        folder, _, name = path.rpartition("/")
        listed = self._listings.get(folder)
        if listed is None:
            return bucket.find(key)
        return listed[name].file if name in listed else None

    def _read(self, path: str, bucket: Bucket, key: str, file: RemoteFile, position: int, end: int) -> Buffer:
        try:
            return bucket.read(key, file, position, end)
        except (FileNotFoundError, LogTruncatedError):
            self._listings.forget(path.rpartition("/")[0])
            raise

    def _locate(self, path: str) -> tuple[Bucket, str]:
        """Return the bucket of a URL, and the key in it."""
        scheme, host, *keys = url_path(path).parts
        return _bucket(f"{scheme}//{host}", self.options), "/".join(keys)


def storage_of(path: object, options: StorageOptions) -> Storage:
    """Return the storage that has a path or URL."""
    return LOCAL if scheme_of(str(path)) is None else UrlStorage(options)


class Storages:
    """The storages of several paths: LOCAL, and one that has all URLs and remembers what it has listed.

    Attributes:
        options: those of the URLs.
    """

    def __init__(self, options: StorageOptionsLike, only: Storage | None = None) -> None:
        """Take the options of URLs, and the storage that has all paths; None: that depends on the path."""
        self.options = StorageOptions.of(options)
        self._only = only
        self._urls = UrlStorage(self.options)

    def folder(self, path: Path) -> Folder:
        """Return the folder at a path or URL."""
        return Folder(str(path), self._only or (self._urls if isinstance(path, UrlPath) else LOCAL))

    def are_local(self, paths: Iterable[Path]) -> bool:
        """Return whether all of the paths are on the local file system."""
        return all(self.folder(path).storage is LOCAL for path in paths)


def _bucket(url: str, options: StorageOptions) -> Bucket:
    """Return a bucket, which is opened once in each process.

    Raises OSError in a process whose parent has used buckets before the fork: the clients would hang there.
    """
    with _lock:
        process = os.getpid()
        if any(owner != process for owner, _, _ in _buckets):
            raise OSError(
                errno.ENOTSUP,
                "a process that was forked cannot use the connections of its parent; start processes by "
                'the method "spawn" or "forkserver", or fork before anything is read',
                url,
            )
        key = process, url, options
        if key not in _buckets:
            _buckets[key] = _open(url, options)
        return _buckets[key]


def _open(url: str, options: StorageOptions) -> Bucket:
    if scheme_of(url) == "hdfs":
        from native_log.storage.remote.hdfs_bucket import HdfsBucket

        return HdfsBucket(url, options.values(url))
    from native_log.storage.remote.object_bucket import ObjectBucket

    return ObjectBucket(url, options.values(url), options.provider(url))
