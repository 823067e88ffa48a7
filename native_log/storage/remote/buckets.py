"""What one bucket, container or file system does for a storage of URLs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from native_log.errors import LogTruncatedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as it was listed.

    Attributes:
        size_bytes: its size.
        version: its ETag or another text that differs after it was replaced.
        mtime_ns: the time of the last change in epoch ns.
    """

    size_bytes: int
    version: str
    mtime_ns: int


FolderContent = tuple["Mapping[str, RemoteFile]", "Iterable[str]"]
"""The files in a folder by name, and the names of its folders."""


class Bucket(Protocol):
    """A bucket, container or remote file system. Keys are paths in it, without a slash at either end."""

    def list(self, folder: str) -> FolderContent:
        """Return what is in a folder. A missing one is empty."""

    def list_together(self, folder: str, names: Sequence[str]) -> Mapping[str, FolderContent]:
        """Return the contents of folders that are adjacent in the order of keys, by name.

        Folders that are missing in the result must be listed one by one.
        """

    def find(self, key: str) -> RemoteFile | None:
        """Return a file; None if there is none."""

    def read(self, key: str, file: RemoteFile, position: int, end: int) -> Buffer:
        """Return the bytes from `position` to before `end` of that version of a file.

        Raises FileNotFoundError; LogTruncatedError if there is another version.
        """


def replaced(path: str) -> LogTruncatedError:
    """Return the error that a file is no longer the one that was listed."""
    return LogTruncatedError(
        "expected the version of the file that was listed, found another one: it was replaced. Read again",
        path=path,
    )
