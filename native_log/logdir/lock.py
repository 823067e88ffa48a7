"""The lock of a log directory, on the file `.lock` in it (Kafka: FileLock): is a broker alive there, and to
be alone there like one."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from typing import TYPE_CHECKING

from native_log.errors import LogDirInUseError
from native_log.logdir.unfinished import undo_unfinished

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

LOCK_FILE = ".lock"

# struct flock of fcntl.h: (layout, and which of its fields are the type and the pid)
_FLOCK, _TYPE, _PID = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi", 0, 4)

_held: dict[str, tuple[int, int, int]] = {}
"""What this process holds: (descriptor, how often it was taken, pid) by the directory's real path. A POSIX
lock does not exclude its own process, is dropped when any descriptor of the file is closed, and does not pass
to a forked process: hence one descriptor for all, and the pid."""
_guard = threading.RLock()


def lock_holder(log_dir: Path) -> int | None:
    """The process that holds the log directory's lock: its pid, or 0 if it cannot be seen from here (another
    container or host); None if no process does, or this one.

    Java's FileLock is a POSIX lock, so it can be asked for without taking it, through a read-only descriptor.
    A clean stop removes the file, a crash leaves it unlocked.
    """
    with _guard:
        if _is_held(os.path.realpath(log_dir)):
            return None
        try:
            file = (log_dir / LOCK_FILE).open("rb")
        except FileNotFoundError:
            return None
        with file:
            asked = [0] * 5
            asked[_TYPE] = fcntl.F_WRLCK
            try:
                answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_FLOCK, *asked))
            except OSError:  # a file system without locks: no broker can run on it
                return None
    found = struct.unpack(_FLOCK, answer)
    return None if found[_TYPE] == fcntl.F_UNLCK else found[_PID]


class LogDirLock:
    """Holds a log directory as a broker does: none starts there meanwhile, and one that runs is not disturbed
    (Kafka: LogManager.lockLogDirs). A context manager.

    Within one process it may be taken several times: it is held until the last is closed. Whoever takes it
    first finds the directory as it was before a write that was cut short while it was published.
    """

    def __init__(self, log_dir: Path) -> None:
        """Raises LogDirInUseError if another process holds it; KafkaLogError; OSError."""
        self._name = os.path.realpath(log_dir)
        self._closed = False
        with _guard:
            descriptor, count, pid = _held.get(self._name, (-1, 0, 0))
            if not _is_held(self._name):
                descriptor, count, pid = self._take(log_dir), 0, os.getpid()
                try:
                    undo_unfinished(log_dir)
                except BaseException:
                    os.close(descriptor)
                    raise
            _held[self._name] = (descriptor, count + 1, pid)

    @staticmethod
    def _take(log_dir: Path) -> int:
        descriptor = os.open(log_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            pid = lock_holder(log_dir)
            raise LogDirInUseError(
                f"expected a log directory that no one else works in, found it locked by "
                f"{f'process {pid}' if pid else 'a process'}, most likely a broker: stop that, or work on a "
                "copy",
                path=log_dir,
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def close(self) -> None:
        with _guard:
            if self._closed:
                return
            self._closed = True
            if not _is_held(self._name):
                return
            descriptor, count, pid = _held.pop(self._name)
            if count > 1:
                _held[self._name] = (descriptor, count - 1, pid)
            else:
                os.close(descriptor)

    def __enter__(self) -> LogDirLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_held(name: str) -> bool:
    held = _held.get(name)
    return held is not None and held[2] == os.getpid()
