"""The lock of a log directory, on the file `.lock` in it (Kafka: FileLock).

A broker holds a POSIX lock on the whole file (Java: FileChannel.tryLock). Such a lock is lost as soon as its
process closes any descriptor of the file, as a copy of the directory does. So a writer here holds two locks
on separate bytes of the file:

- byte 0: an open file description lock. It lasts until its own descriptor is closed, whatever else the
  process opens and closes. Brokers and other writers collide with it.
- all other bytes: a POSIX lock. It names the process that holds the directory, which the first kind cannot.

Where the system or the file system has no open file description locks, the POSIX lock covers all bytes, and
is taken again before each append: between a loss and the next append another process can get in, and is then
reported by that append.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.write_intent import undo_write_intent
from native_log.errors import LogDirInUseError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

LOCK_FILE = ".lock"

# struct flock of fcntl.h: its layout, and the order of its fields
_FLOCK, _FIELDS = (
    ("qqihh", ("start", "length", "pid", "type", "whence"))
    if sys.platform == "darwin"
    else ("hhqqi", ("type", "whence", "start", "length", "pid"))
)
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)

_Range = tuple[int, int]
"""First byte, and number of bytes; 0: up to the greatest offset there can be."""

_ALL: _Range = (0, 0)
_DESCRIPTION: _Range = (0, 1)
_POSIX: _Range = (1, 0)

_IN_USE = {errno.EAGAIN, errno.EACCES}
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@dataclass(slots=True)
class _HeldLock:
    """A directory's lock as this process holds it.

    Attributes:
        posix_range: bytes of its POSIX lock; `_ALL` where there is no open file description lock.
        count: number of LogDirLock objects that share it.
    """

    path: Path
    descriptor: int
    posix_range: _Range
    count: int = 0

    def close(self) -> None:
        # A forked process may have the descriptor too: closing alone would leave the lock to it.
        if self.posix_range != _ALL:
            _set_lock(self.descriptor, _OFD_SETLK or 0, fcntl.F_UNLCK, _DESCRIPTION)
        os.close(self.descriptor)


_held: dict[str, _HeldLock] = {}
"""By the directory's real path. Locks do not exclude threads of their own process: hence one for all."""
_guard = threading.RLock()


def lock_holder(log_dir: Path) -> int | None:
    """The process that holds the log directory's lock: its pid, or 0 if it cannot be seen from here (another
    container or host); None if no process does, or this one.

    Locks can be queried through a read-only descriptor, without taking them. A clean stop of a broker removes
    the file, a crash leaves it unlocked.
    """
    with _guard:
        if os.path.realpath(log_dir) in _held:
            return None
        try:
            file = (log_dir / LOCK_FILE).open("rb")
        except FileNotFoundError:
            return None
        with file:
            try:
                return _locking_pid(file.fileno())
            except OSError:  # a file system without locks: no broker can run on it
                return None


class LogDirLock:
    """Holds a log directory as a broker does: none starts there meanwhile, and one that runs is not disturbed
    (Kafka: LogManager.lockLogDirs). A context manager.

    Within one process it may be taken several times: it is held until the last is closed. A forked process
    does not inherit it, and cannot take it before this one has closed it. Whoever takes it first finds the
    directory as it was before a write that was cut short while it was published.
    """

    def __init__(self, log_dir: Path) -> None:
        """Raises LogDirInUseError if another process holds it; KafkaLogError; OSError, also for a file system
        without locks."""
        self._name = os.path.realpath(log_dir)
        self._closed = False
        with _guard:
            held = _held.get(self._name)
            if held is None:
                held = _take(log_dir)
                try:
                    undo_write_intent(log_dir)
                except BaseException:
                    held.close()
                    raise
                _held[self._name] = held
            held.count += 1
            self._held = held

    def check(self) -> None:
        """Make sure that the lock still protects the directory.

        Raises LogDirInUseError if the lock file was removed or replaced, if another process has taken a lock
        that this one lost, or if this process was forked from the one that holds it.
        """
        with _guard:
            held = self._held
            if not self._is_held():
                raise LogDirInUseError(
                    "expected a process that holds this lock, found one that closed it or was forked from "
                    "its holder: open the log directory again",
                    path=held.path,
                )
            if not _is_same_file(held.descriptor, held.path):
                raise LogDirInUseError(
                    "expected the file that this process has locked, found it removed or replaced: another "
                    "process may write in the log directory. Close it, and run kafkalog verify",
                    path=held.path,
                )
            _take_posix(held.descriptor, held.posix_range, held.path)

    def close(self) -> None:
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


def _take(log_dir: Path) -> _HeldLock:
    path = log_dir / LOCK_FILE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            posix_range = _POSIX if _take_description(descriptor, path) else _ALL
            _take_posix(descriptor, posix_range, path)
            # A broker that stops removes the file: it may have done so since it was opened.
            if _is_same_file(descriptor, path):
                return _HeldLock(path, descriptor, posix_range)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _take_description(descriptor: int, path: Path) -> bool:
    """Lock byte 0 for this open file description; False where there are no such locks."""
    if _OFD_SETLK is None:
        return False
    try:
        _set_lock(descriptor, _OFD_SETLK, fcntl.F_WRLCK, _DESCRIPTION)
    except OSError as error:
        if error.errno in _IN_USE:
            raise _in_use(descriptor, path) from None
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _take_posix(descriptor: int, bytes_: _Range, path: Path) -> None:
    """Lock these bytes for this process; does nothing if it has them."""
    try:
        _set_lock(descriptor, fcntl.F_SETLK, fcntl.F_WRLCK, bytes_)
    except OSError as error:
        if error.errno in _IN_USE:
            raise _in_use(descriptor, path) from None
        if error.errno in _UNSUPPORTED:
            raise OSError(
                error.errno,
                "expected a file system with locks, found one without: nothing would keep another process "
                "from writing at the same time. Mount it with locks, or work on a copy",
                str(path.parent),
            ) from None
        raise


def _in_use(descriptor: int, path: Path) -> LogDirInUseError:
    pid = _locking_pid(descriptor)
    return LogDirInUseError(
        "expected a log directory that no one else works in, found it locked by "
        f"{f'process {pid}' if pid else 'a process'}, most likely a broker: stop that, or work on a copy",
        path=path.parent,
    )


def _locking_pid(descriptor: int) -> int | None:
    """Pid of another process that has locked the file, 0 if it cannot be seen; None: none has."""
    for one in (_POSIX, _ALL):  # first the bytes whose lock has a pid
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, one))
        found: dict[str, int] = dict(zip(_FIELDS, struct.unpack(_FLOCK, answer), strict=True))
        if found["type"] != fcntl.F_UNLCK:
            return max(found["pid"], 0)
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
    """A forked process has copies of the descriptors, but not the say: its parent goes on to write."""
    global _guard
    _guard = threading.RLock()  # another thread of the parent may have held it
    for held in _held.values():
        os.close(held.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
