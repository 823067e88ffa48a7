"""A storage that passes calls on to another one, as a base of storages that change some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from native_log.storage.files import FileEntry, KnownFile, Storage
    from native_log.storage.local import DataFile


@dataclass(frozen=True, slots=True)
class WrappedStorage:
    """A storage with the files of another one. See Storage for the methods.

    Attributes:
        storage: has the files.
    """

    storage: Storage

    def list(self, path: str) -> Mapping[str, FileEntry]:
        """See Storage."""
        return self.storage.list(path)

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        """See Storage."""
        return self.storage.open(path, follow_link=follow_link, known=known)

    def listed(self, path: str) -> KnownFile | None:
        """See Storage."""
        return self.storage.listed(path)

    def exists(self, path: str) -> bool:
        """See Storage."""
        return self.storage.exists(path)

    def identity(self, path: str) -> str:
        """See Storage."""
        return self.storage.identity(path)
