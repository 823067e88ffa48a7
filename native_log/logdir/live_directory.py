"""The state of one log directory, kept up to date: its checkpoints, its lock, and the partitions in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.checkpoints.lock import lock_holder
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
)
from native_log.checkpoints.write_intent import WRITE_INTENT, WriteIntent
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from native_log.logdir.directory_state import DirectoryState
from native_log.storage import LOCAL, listed_files, path_of, path_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.checkpoints.offset_checkpoints import OffsetCheckpoints
    from native_log.logdir.remote_starts import RemoteStarts
    from native_log.storage import FileVersion, Folder, ListedFile

_FIELDS = {
    REPLICATION_OFFSET_CHECKPOINT: "high_watermarks",
    LOG_START_OFFSET_CHECKPOINT: "log_start_offsets",
}
"""The checkpoint files that change what can be read, and their fields in OffsetCheckpoints."""


class LiveDirectory:
    """The state of one log directory, which `refresh` brings up to date.

    Attributes:
        state: the state when it was last refreshed. Recovery points and first dirty offsets are those of the
            time when the object was created.
    """

    def __init__(
        self, folder: Folder, now_ns: Callable[[], int], remote_starts: RemoteStarts | None = None
    ) -> None:
        """Read the state of a log directory. See DirectoryState.read."""
        self._now_ns = now_ns
        path = path_of(folder.path)
        self._root_version: FileVersion | None = None
        self._versions: dict[str, FileVersion | None] = {}
        self._listed: dict[str, ListedFile] = {}
        # The versions are taken before the files are read, so that a later change is noticed.
        if folder.storage is LOCAL:
            self._versions = {name: path_version(path / name, self._now_ns) for name in _FIELDS}
        else:
            self._listed = listed_files(folder.list())
        self.state = DirectoryState.read(path, remote_starts, folder.storage)

    def refresh(self) -> bool:
        """Bring the state up to date, and return whether it has changed.

        The lock is queried. Files are read only if they have changed. Raises FileNotFoundError if the
        directory does not exist any more; KafkaLogError; OSError.
        """
        before, path = self.state, self.state.path
        if before.storage is not LOCAL:
            return self._refresh_by_listing()
        state = replace(before, lock_holder=lock_holder(path), checkpoints=self._checkpoints())
        root = path_version(path, self._now_ns)
        if root is None or root != self._root_version or before.unfinished is not None:
            state = replace(
                state,
                has_high_watermarks=(path / REPLICATION_OFFSET_CHECKPOINT).exists(),
                clean_shutdown=(path / CLEAN_SHUTDOWN_FILE).exists(),
                unfinished=WriteIntent.read(path),
            )
            self._root_version = root
        if state == before:
            return False
        self.state = state
        return True

    def _refresh_by_listing(self) -> bool:
        before, listed = self.state, listed_files(self.state.folder.list())
        if listed == self._listed:
            return False
        self.state = DirectoryState.read(before.path, before.remote_starts, before.storage)
        self._listed = listed
        return self.state != before

    def refresh_unfinished(self) -> bool:
        """Look for a write that began after the last refresh, and return whether there is one.

        The logs that were refreshed in between may contain a part of it.
        """
        path = self.state.path
        if self.state.storage is not LOCAL:
            return False  # nothing commits there
        if self.state.unfinished is not None or not (path / WRITE_INTENT).exists():
            return False
        self.state = replace(self.state, unfinished=WriteIntent.read(path))
        return True

    def _checkpoints(self) -> OffsetCheckpoints:
        checkpoints, path = self.state.checkpoints, self.state.path
        for name, field in _FIELDS.items():
            version = path_version(path / name, self._now_ns)
            if version is None or version != self._versions[name]:
                checkpoints = replace(checkpoints, **{field: read_offset_checkpoint(path / name)})
                self._versions[name] = version
        return checkpoints
