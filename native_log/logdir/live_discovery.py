"""The partition directories at paths, kept up to date."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.logdir.discovery import find_all_partitions, find_partitions, keys_in
from native_log.storage import LOCAL, file_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from native_log.logdir.discovery import Discovery
    from native_log.storage import FileVersion, Storages


class LiveDiscovery:
    """The partition directories at paths, which `refresh` brings up to date."""

    def __init__(self, paths: Sequence[Path], storages: Storages, now_ns: Callable[[], int]) -> None:
        """Find the partition directories. Raises as find_all_partitions.

        Args:
            paths: log directories or partition directories.
            storages: have the paths.
            now_ns: the clock, in epoch ns.
        """
        self._storages, self._now_ns = storages, now_ns
        self._found = dict(zip(paths, find_all_partitions(paths, storages), strict=True))
        self._given = dict(self._found)
        self._versions: dict[Path, FileVersion | None] = dict.fromkeys(paths)

    @property
    def discoveries(self) -> Collection[Discovery]:
        """What was found at each path, in their order."""
        return self._found.values()

    def invalidate(self) -> None:
        """Make the next refresh list all paths and return True, even if nothing seems to have changed."""
        self._versions.clear()

    def refresh(self) -> bool:
        """List the paths that have changed, and return whether their partitions changed.

        If a partition has disappeared, all paths are listed again: a broker may have moved it to one that was
        listed before. See find_all_partitions.
        """
        before = list(self.discoveries)
        is_changed = self._list_changed()
        if is_changed and not keys_in(before) <= keys_in(self.discoveries):
            self.invalidate()
            self._list_changed()
        return is_changed

    def _list_changed(self) -> bool:
        is_changed = False
        for path, before in self._found.items():
            is_stale, version = path not in self._versions, None
            folder = self._storages.folder(path)
            if before.is_partition:
                partitions = self._given[path].partitions if folder.exists() else ()
                discovery = replace(before, partitions=partitions)
            else:
                if folder.storage is LOCAL:
                    now_ns = self._now_ns()
                    version = file_version(path.stat(), now_ns)
                    if version is not None and version == self._versions.get(path):
                        continue
                discovery = find_partitions(path, before, folder.storage)
            self._versions[path] = version
            if is_stale or discovery != before:
                self._found[path] = discovery
                is_changed = True
        return is_changed
