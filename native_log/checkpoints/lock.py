"""The lock of a log directory, on the file `.lock` in it (Kafka: FileLock).

A broker holds a POSIX lock on the whole file (Java: FileChannel.tryLock). A process loses such a lock as soon
as it closes any descriptor of the file, for example when it copies the directory. So a writer here holds two
locks on separate bytes of the file:

- byte 0: an open file description lock. It lasts until its own descriptor is closed, no matter what else the
  process opens and closes. It conflicts with the locks of brokers and other writers.
- all other bytes: a POSIX lock. It shows which process holds the directory, which the other lock cannot.

If the system or the file system has no open file description locks, the POSIX lock covers all bytes and is
taken again before each append. If another process took the lock meanwhile, the append raises an error. With
both locks, an append looks from time to time whether the file was removed or replaced.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import struct
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.write_intent import undo_write_intent
from native_log.errors import LogDirInUseError
from native_log.storage.opening import open_file

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

LOCK_FILE = ".lock"

# The layout of struct flock in fcntl.h, and the order of its fields.
_FLOCK, _FIELDS = (
    ("qqihh", ("start", "length", "pid", "type", "whence"))
    if sys.platform == "darwin"
    else ("hhqqi", ("type", "whence", "start", "length", "pid"))
)
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)

_Range = tuple[int, int]
"""First byte, and number of bytes; 0: up to the maximum file size."""

_ALL: _Range = (0, 0)
_DESCRIPTION: _Range = (0, 1)
_POSIX: _Range = (1, 0)

_IN_USE = {errno.EAGAIN, errno.EACCES}
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@dataclass(slots=True)
class _HeldLock:
    """The lock of a log directory that this process holds.

    Attributes:
        path: the lock file.
        descriptor: the open lock file.
        posix_range: the bytes of the POSIX lock; `_ALL` without an open file description lock.
        count: the number of LogDirLock objects that share it.
        checked_ms: when `LogDirLock.check` last looked at the file, by the monotonic clock.
    """

    path: Path
    descriptor: int
    posix_range: _Range
    count: int = 0
    checked_ms: float = -math.inf

    def close(self) -> None:
        # Unlock explicitly: a forked process may have a copy of the descriptor, which would keep the lock.
        if self.posix_range != _ALL:
            _set_lock(self.descriptor, _OFD_SETLK or 0, fcntl.F_UNLCK, _DESCRIPTION)
        os.close(self.descriptor)


_held: dict[str, _HeldLock] = {}
"""The locks of this process by real path of the directory. All threads share one, because locks do not
exclude threads of the same process."""
_guard = threading.RLock()


def lock_holder(log_dir: Path) -> int | None:
    """Return the pid of the process that holds the lock of a log directory.

    Return 0 if the pid is not visible, because the process runs in another container or on another host.
    Return None if no other process holds the lock.

    The lock is queried through a read-only descriptor, without taking it. A broker that shuts down removes
    the file; a crash leaves it unlocked.
    """
    with _guard:
        if os.path.realpath(log_dir) in _held:
            return None
        try:
            descriptor = open_file(log_dir / LOCK_FILE, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return _locking_pid(descriptor)
        except OSError:  # on a file system without locks no broker can run
            return None
        finally:
            os.close(descriptor)


def describe_holder(pid: int) -> str:
    """Say that a process uses a log directory. `pid`: the answer of `lock_holder`, not None."""
    return f"in use by process {pid}" if pid else "in use"


class LogDirLock:
    """The lock of a log directory (Kafka: LogManager.lockLogDirs). A context manager.

    While it is held, no broker starts on the directory. If a broker runs, the lock cannot be taken.

    A process may take it several times and holds it until the last one is closed. A forked process does not
    inherit it, and cannot take it before this process has closed it. When a process takes the lock first, it
    rolls back a write that was interrupted during its commit (see WriteIntent).
    """

    def __init__(self, log_dir: Path) -> None:
        """Take the lock.

        Raises LogDirInUseError if another process holds it; KafkaLogError; OSError, also if the file system
        has no locks.
        """
        self._name = os.path.realpath(log_dir)
        self._closed = False
        with _guard:
            held = _held.get(self._name)
            if held is None:
                held = _acquire(log_dir)
                try:
                    undo_write_intent(log_dir)
                except BaseException:
                    held.close()
                    raise
                _held[self._name] = held
            held.count += 1
            self._held = held

    def check(self, *, max_age_ms: int = 0) -> None:
        """Check that the lock still protects the directory.

        Args:
            max_age_ms: how old the result may be. It does not apply without open file description locks,
                because another process can take a POSIX lock that this process has lost.

        Raises LogDirInUseError if the lock file was removed or replaced, if this process lost its lock and
        another one took it, or if this process was forked from the one that holds it.
        """
        with _guard:
            held = self._held
            if not self._is_held():
                raise LogDirInUseError(
                    "expected the process that holds this lock, found one that closed it or was forked from "
                    "its holder; open the log directory again",
                    path=held.path,
                )
            now_ms = time.monotonic_ns() // 1_000_000
            if held.posix_range != _ALL and now_ms < held.checked_ms + max_age_ms:
                return
            if not _is_same_file(held.descriptor, held.path):
                raise LogDirInUseError(
                    "expected the file that this process has locked, found it removed or replaced: another "
                    "process may write to the log directory; close it and run kafkalog verify",
                    path=held.path,
                )
            _lock_posix(held.descriptor, held.posix_range, held.path)
            held.checked_ms = now_ms

    def close(self) -> None:
        """Release the lock, unless other objects of this process share it."""
        with _guard:
            if not self._is_held():
                return
            self._closed = True
            self._held.count -= 1
            if not self._held.count:
                del _held[self._name]
                self._held.close()

    def _is_held(self) -> bool:
        return not self._closed and _held.get(self._name) is self._held

    def __enter__(self) -> LogDirLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _acquire(log_dir: Path) -> _HeldLock:
    path = log_dir / LOCK_FILE
    while True:
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            posix_range = _POSIX if _lock_description(descriptor, path) else _ALL
            _lock_posix(descriptor, posix_range, path)
            # A broker that shuts down removes the file, possibly after it was opened here.
            if _is_same_file(descriptor, path):
                return _HeldLock(path, descriptor, posix_range)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock_description(descriptor: int, path: Path) -> bool:
    """Lock byte 0 for this open file description. Return False if such locks are not supported."""
    if _OFD_SETLK is None:
        return False
    try:
        _set_lock(descriptor, _OFD_SETLK, fcntl.F_WRLCK, _DESCRIPTION)
    except OSError as error:
        if error.errno in _IN_USE:
            raise _in_use_error(descriptor, path) from None
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _lock_posix(descriptor: int, bytes_: _Range, path: Path) -> None:
    """Lock these bytes for this process. Do nothing if it holds the lock already."""
    try:
        _set_lock(descriptor, fcntl.F_SETLK, fcntl.F_WRLCK, bytes_)
    except OSError as error:
        if error.errno in _IN_USE:
            raise _in_use_error(descriptor, path) from None
        if error.errno in _UNSUPPORTED:
            raise OSError(
                error.errno,
                "expected a file system with locks, found one without, which cannot keep other processes "
                "from writing at the same time; mount it with locks, or work on a copy",
                str(path.parent),
            ) from None
        raise


def _in_use_error(descriptor: int, path: Path) -> LogDirInUseError:
    pid = _locking_pid(descriptor)
    return LogDirInUseError(
        "expected a log directory that no other process uses, found it locked by "
        f"{f'process {pid}' if pid else 'a process'}, most likely a broker; stop it, or work on a copy",
        path=path.parent,
    )


def _locking_pid(descriptor: int) -> int | None:
    """Return the pid of another process that has locked the file; 0 if it is not visible, None if none."""
    for bytes_ in (_POSIX, _ALL):  # first the bytes whose lock shows a pid
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, bytes_))
        lock: dict[str, int] = dict(zip(_FIELDS, struct.unpack(_FLOCK, answer), strict=True))
        if lock["type"] != fcntl.F_UNLCK:
            return max(lock["pid"], 0)
    return None


def _set_lock(descriptor: int, command: int, type_: int, bytes_: _Range) -> None:
    fcntl.fcntl(descriptor, command, _flock(type_, bytes_))


def _flock(type_: int, bytes_: _Range) -> bytes:
    values = {"type": type_, "whence": os.SEEK_SET, "start": bytes_[0], "length": bytes_[1], "pid": 0}
    return struct.pack(_FLOCK, *(values[name] for name in _FIELDS))


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _forget_in_child() -> None:
    """Close the copies of the descriptors in a forked process: only its parent holds the locks."""
    global _guard
    _guard = threading.RLock()  # another thread of the parent may have held the old one
    for held in _held.values():
        os.close(held.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
