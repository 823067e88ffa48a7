"""A log directory while this process writes to it (Kafka: LogManager, from startup to shutdown).

A session takes the lock and removes the clean-shutdown marker. At its end it writes the checkpoints, and
restores the marker if it existed and all logs were closed cleanly. If the process crashes in between, the
marker is missing, and the next writer or broker recovers the logs from their recovery points.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.lock import LogDirLock
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    check_checkpoints,
    update_offset_checkpoints,
)
from native_log.errors import LogDirInUseError
from native_log.storage import read_file
from native_log.storage.ownership import warn_of_other_owner
from native_log.storage.writing import fsync_directory, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":-1}'
"""The content of the clean-shutdown marker since Kafka 3.7. Only the existence of the file counts."""


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """The checkpointed offsets of a log that was closed cleanly; None: no entry."""

    recovery_point: int
    high_watermark: int | None
    log_start_offset: int | None


class WriteSession:
    """The session of a log directory, shared within the process. Call `leave` once for each `enter`."""

    def __init__(self, log_dir: Path, *, sets_malformed_aside: bool) -> None:
        """Do not call this; use `enter` or `exclusive`."""
        self.log_dir = log_dir
        self._lock = LogDirLock(log_dir)
        self._writers: set[str] = set()
        self._holders = 0
        self._closed: dict[tuple[str, int], ClosedLog] = {}
        marker = log_dir / CLEAN_SHUTDOWN_FILE
        try:
            warn_of_other_owner(log_dir)
            if not sets_malformed_aside:
                check_checkpoints(log_dir)
            self._marker: bytes | None = read_file(str(marker), follow_link=False)
        except FileNotFoundError:
            self._marker = None
        except BaseException:
            self._lock.close()
            raise
        self._is_clean = True
        self._is_exclusive = False

    @property
    def was_clean(self) -> bool:
        """Whether the directory was cleanly shut down, and so needed no recovery, when the session began."""
        return self._marker is not None

    @classmethod
    def enter(cls, log_dir: Path, *, sets_malformed_aside: bool = False) -> WriteSession:
        """Return the session of the log directory; begin it if there is none.

        Args:
            log_dir: the log directory.
            sets_malformed_aside: the caller renames malformed checkpoint files. Others must not go on: to
                update one entry of such a file would lose the rest.

        Raises:
            LogDirInUseError: another process holds the directory, or a block of `exclusive`.
            KafkaLogError: a checkpoint file is malformed.
            OSError.
        """
        name = os.path.realpath(log_dir)
        with _guard:
            session = _sessions.get((name, os.getpid()))
            if session is not None and session._is_exclusive:
                raise LogDirInUseError(
                    "expected a log directory that no one compacts or repairs, found one in which this very "
                    "process does so; wait until it has finished",
                    path=log_dir,
                )
            if session is None:
                session = cls(log_dir, sets_malformed_aside=sets_malformed_aside)
                _sessions[name, os.getpid()] = session
            session._holders += 1
            return session

    @classmethod
    @contextmanager
    def exclusive(cls, log_dir: Path, *, sets_malformed_aside: bool = False) -> Iterator[WriteSession]:
        """Hold a session that no other writer in this process or another one can share.

        It is for operations that replace files of logs, such as compaction. Arguments and errors as for
        `enter`.
        """
        name = os.path.realpath(log_dir)
        with _guard:
            if (name, os.getpid()) in _sessions:
                raise LogDirInUseError(
                    "expected a log directory that no one writes to, found one that this very process "
                    "writes to; close its logs first",
                    path=log_dir,
                )
            session = cls.enter(log_dir, sets_malformed_aside=sets_malformed_aside)
            session._is_exclusive = True
        try:
            yield session
        finally:
            session.leave()

    def claim(self, partition_dir: Path) -> None:
        """Reserve a partition for one writer. Raises LogDirInUseError if it has a writer in this process."""
        name = os.path.realpath(partition_dir)
        with _guard:
            if name in self._writers:
                raise LogDirInUseError(
                    "expected a partition without a writer, found one that this very process has open for "
                    "appending; close that log first",
                    path=partition_dir,
                )
            self._writers.add(name)

    def unclaim(self, partition_dir: Path) -> None:
        """Give up a claim before anything was changed."""
        with _guard:
            self._writers.discard(os.path.realpath(partition_dir))

    def begin(self) -> None:
        """Remove the clean-shutdown marker. Call this before the first change. Raises as `check_lock`."""
        self.check_lock()
        with _guard:
            marker = self.log_dir / CLEAN_SHUTDOWN_FILE
            if self._marker is not None and marker.exists():
                marker.unlink()
                fsync_directory(self.log_dir)

    def check_lock(self, *, max_age_ms: int = 0) -> None:
        """Raise LogDirInUseError if the lock was lost. Call this before each change.

        `max_age_ms` is that of LogDirLock.check.
        """
        self._lock.check(max_age_ms=max_age_ms)

    def mark_recovered(self) -> None:
        """Note that all logs of the directory were recovered.

        The clean-shutdown marker is then written at the end, even if it did not exist before.
        """
        with _guard:
            self._marker = self._marker or CLEAN_SHUTDOWN

    def release(self, partition_dir: Path, key: tuple[str, int], closed: ClosedLog | None) -> None:
        """End a claim.

        Args:
            partition_dir: the partition that was claimed.
            key: its topic and partition.
            closed: the offsets to checkpoint; None: the log could not be closed cleanly.
        """
        with _guard:
            self._writers.discard(os.path.realpath(partition_dir))
            if closed is None:
                self._is_clean = False
            else:
                self._closed[key] = closed

    def leave(self, *, write: bool = True) -> None:
        """Leave the session. The last writer to leave writes the checkpoints and releases the lock.

        Args:
            write: False: write nothing, so that the checkpoints stay as they were.
        """
        with _guard:
            self._holders -= 1
            if self._holders:
                return
            _sessions.pop((os.path.realpath(self.log_dir), os.getpid()), None)
            try:
                if write:
                    self._finish()
            finally:
                self._lock.close()

    def _finish(self) -> None:
        saved = self._closed
        if saved:
            path = self.log_dir
            update_offset_checkpoints(
                {
                    path / RECOVERY_POINT_OFFSET_CHECKPOINT: {k: v.recovery_point for k, v in saved.items()},
                    path / LOG_START_OFFSET_CHECKPOINT: {k: v.log_start_offset for k, v in saved.items()},
                    path / REPLICATION_OFFSET_CHECKPOINT: {k: v.high_watermark for k, v in saved.items()},
                }
            )
        marker = self.log_dir / CLEAN_SHUTDOWN_FILE
        if self._marker is not None and self._is_clean and not marker.exists():
            replace_file(marker, self._marker)


_sessions: dict[tuple[str, int], WriteSession] = {}
_guard = threading.RLock()


def _reset_guard_in_child() -> None:
    """Replace the guard in a forked process, because another thread of the parent may have held it."""
    global _guard
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_reset_guard_in_child)
