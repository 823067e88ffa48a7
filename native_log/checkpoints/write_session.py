"""A log directory while this process writes in it (Kafka: LogManager, start to shutdown).

The lock is taken and the mark of a clean shutdown removed; at the end the checkpoints are written, and the
mark is put back if it was there and every log was closed in order. What stops between leaves a directory
without the mark: whoever opens it next recovers it from its recovery points on.
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
    update_offset_checkpoints,
)
from native_log.errors import LogDirInUseError
from native_log.storage import read_file
from native_log.storage.writing import fsync_directory, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":-1}'
"""The mark's content since Kafka 3.7; it is a mark whatever is in it."""


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """What the checkpoints say of a log that was closed in order. Offsets; None: no entry."""

    recovery_point: int
    high_watermark: int | None
    log_start_offset: int | None


class WriteSession:
    """Use `enter`; what was entered is left by `leave`. One for each directory, shared within the process."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self._lock = LogDirLock(log_dir)
        self._writers: set[str] = set()
        self._holders = 0
        self._closed: dict[tuple[str, int], ClosedLog] = {}
        mark = log_dir / CLEAN_SHUTDOWN_FILE
        try:
            self._mark: bytes | None = read_file(str(mark))
        except FileNotFoundError:
            self._mark = None
        self._in_order = True
        self._is_exclusive = False

    @property
    def was_clean(self) -> bool:
        """Whether the directory needed no recovery when it was entered."""
        return self._mark is not None

    @classmethod
    def enter(cls, log_dir: Path) -> WriteSession:
        """Raises LogDirInUseError if another process holds the directory, or `exclusive` does; OSError."""
        name = os.path.realpath(log_dir)
        with _guard:
            session = _sessions.get((name, os.getpid()))
            if session is not None and session._is_exclusive:
                raise LogDirInUseError(
                    "expected a log directory that can be written in, found one that this very process is "
                    "cleaning: wait for the end of that",
                    path=log_dir,
                )
            if session is None:
                session = _sessions[name, os.getpid()] = cls(log_dir)
            session._holders += 1
            return session

    @classmethod
    @contextmanager
    def exclusive(cls, log_dir: Path) -> Iterator[WriteSession]:
        """A block in which nothing else, in this process or another, writes in the log directory.

        For who changes logs from beneath, so that no open log may know of them. Raises LogDirInUseError.
        """
        name = os.path.realpath(log_dir)
        with _guard:
            if (name, os.getpid()) in _sessions:
                raise LogDirInUseError(
                    "expected a log directory that no one works in, found one in which this very process "
                    "appends or cleans: close the logs first",
                    path=log_dir,
                )
            session = cls.enter(log_dir)
            session._is_exclusive = True
        try:
            yield session
        finally:
            session.leave()

    def claim(self, partition_dir: Path) -> None:
        """Be the one in this process that writes in a partition.

        Raises LogDirInUseError: another one in this process writes there.
        """
        name = os.path.realpath(partition_dir)
        with _guard:
            if name in self._writers:
                raise LogDirInUseError(
                    "expected a partition that nothing writes in, found one that this very process has open "
                    "for appending: close that first",
                    path=partition_dir,
                )
            self._writers.add(name)

    def unclaim(self, partition_dir: Path) -> None:
        """A claim's end before anything was changed."""
        with _guard:
            self._writers.discard(os.path.realpath(partition_dir))

    def begin(self) -> None:
        """Before the first change: from here on a crash asks for recovery. Raises as `check_lock`."""
        self.check_lock()
        with _guard:
            mark = self.log_dir / CLEAN_SHUTDOWN_FILE
            if self._mark is not None and mark.exists():
                mark.unlink()
                fsync_directory(self.log_dir)

    def check_lock(self) -> None:
        """Raises LogDirInUseError if the directory's lock was lost: before each change of a log that is open
        for long."""
        self._lock.check()

    def mark_recovered(self) -> None:
        """All logs of the directory were made whole: the mark is put there if every one is closed in order,
        though it was not there before."""
        with _guard:
            self._mark = self._mark or CLEAN_SHUTDOWN

    def release(self, partition_dir: Path, key: tuple[str, int], closed: ClosedLog | None) -> None:
        """A claim's end; `closed` is None where the log could not be closed in order."""
        with _guard:
            self._writers.discard(os.path.realpath(partition_dir))
            if closed is None:
                self._in_order = False
            else:
                self._closed[key] = closed

    def leave(self, *, write: bool = True) -> None:
        """The last one to leave writes the checkpoints and gives the lock back.

        Args:
            write: without, nothing is written: the checkpoints say less than they could.
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
        mark = self.log_dir / CLEAN_SHUTDOWN_FILE
        if self._mark is not None and self._in_order and not mark.exists():
            replace_file(mark, self._mark)


_sessions: dict[tuple[str, int], WriteSession] = {}
_guard = threading.RLock()


def _new_guard_in_child() -> None:
    """Another thread of the parent, which a forked process does not have, may have held it."""
    global _guard
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_new_guard_in_child)
