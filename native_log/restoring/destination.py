"""The log directory to restore into: what is there, and how finished partitions get there.

Partitions are built in a folder next to it, DEST.unfinished-restore. A run that was stopped continues there:
finished partitions and segments are not copied again. Only when all partitions are finished, they are moved
into the directory.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from native_log.checkpoints.lock import LogDirLock
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.checkpoints.write_session import ClosedLog, WriteSession
from native_log.errors import KafkaLogError
from native_log.log import PartitionLog
from native_log.logdir.create import create_log_dir
from native_log.storage import folder_of, read_file
from native_log.storage.ownership import create_directories
from native_log.storage.writing import fsync_directory, removal_name, remove_folder, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from native_log.restoring.copying import CopiedLog

UNFINISHED = ".unfinished-restore"
"""The suffix of the folder in which partitions are built."""
REQUEST = "request.json"
"""The file in it that says what is restored."""
_REPLACED = "replaced"


class Destination:
    """A log directory, which may not exist yet.

    Attributes:
        path: the log directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._staging = path.with_name(path.name + UNFINISHED)

    def check_empty(self, name: str) -> str | None:
        """Check that a partition can be restored here. Return its topic id; None: it is not here.

        Raises KafkaLogError if it has records.
        """
        directory = self.path / name
        if not directory.exists() or self._is_installed(name):
            return None
        log = PartitionLog.open(directory)
        if log.log_end_offset > 0 or log.log_start_offset > 0:
            raise KafkaLogError(
                f"expected an empty partition, found one with offsets {log.log_start_offset} to "
                f"{log.log_end_offset}: records are never overwritten; restore to another directory",
                path=directory,
            )
        return read_topic_id(folder_of(directory))

    @contextmanager
    def building(self, request: Mapping[str, object]) -> Iterator[None]:
        """Hold the folder in which partitions are built. It is removed at the end, if there is no error.

        Args:
            request: what is restored, as JSON. A folder that was left by another request is not continued.

        Raises LogDirInUseError if another process uses the folder; KafkaLogError; OSError.
        """
        shutil.rmtree(removal_name(self._staging), ignore_errors=True)  # that of an earlier run
        if self._staging.is_symlink():
            self._staging.unlink()
        create_directories(self._staging)
        with LogDirLock(self._staging):
            file, text = self._staging / REQUEST, json.dumps(request, sort_keys=True)
            if file.exists() and read_file(str(file), follow_link=False) != text.encode():
                raise KafkaLogError(
                    "expected an unfinished restore with the same arguments, found one with others; finish "
                    "it with those, or remove this folder",
                    path=self._staging,
                )
            if not file.exists():
                replace_file(str(file), text.encode())
            yield
        remove_folder(self._staging)

    def finished(self, name: str) -> Path:
        """Return where a finished partition waits."""
        return self._staging / name

    def begin(self, name: str) -> Path | None:
        """Return where to build a partition, or to continue building it; None: it is finished already."""
        if self.finished(name).exists() or self._is_installed(name):
            return None
        path = self._staging / f"{name}.part"
        if path.is_symlink():
            path.unlink()
        return path

    def finish(self, name: str) -> None:
        """Count a partition as finished, after its files were flushed to disk."""
        path = self._staging / f"{name}.part"
        fsync_directory(path)
        path.rename(self.finished(name))
        fsync_directory(self._staging)

    def _is_installed(self, name: str) -> bool:
        return self._marker(name).exists() and not self.finished(name).exists()

    def _marker(self, name: str) -> Path:
        return self._staging / f"{name}.installed"

    def install(
        self, copied: Mapping[tuple[str, int], CopiedLog], cluster_id: str, node_id: int, version: int
    ) -> None:
        """Move finished partitions into the log directory, and write their checkpoints.

        Args:
            copied: the partitions by (topic, partition).
            cluster_id, node_id, version: of the log directory if it has to be created.

        Raises LogDirInUseError if a broker runs on it; OSError.
        """
        if not self.path.exists():
            create_log_dir(self.path, cluster_id, node_id, version=version)
        with WriteSession.exclusive(self.path) as session:
            session.begin()
            for key, log in copied.items():
                name = f"{key[0]}-{key[1]}"
                target = self.path / name
                if self.finished(name).exists():
                    self._move(name, target)
                session.release(
                    target, key, ClosedLog(log.log_end_offset, log.log_end_offset, log.log_start_offset)
                )
            fsync_directory(self.path)

    def _move(self, name: str, target: Path) -> None:
        # With the marker, a run that continues knows that a partition with records is its own.
        replace_file(str(self._marker(name)), b"")
        if target.exists():
            replaced = self._staging / _REPLACED
            shutil.rmtree(replaced, ignore_errors=True)
            target.rename(replaced)
        self.finished(name).rename(target)
