"""Wait until something changes in directories: with inotify on Linux, otherwise by waking up regularly."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import select
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

logger = logging.getLogger(__name__)

_IN_MODIFY, _IN_MOVED_FROM, _IN_MOVED_TO, _IN_CREATE, _IN_DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_IN_MOVE_SELF, _IN_ONLYDIR, _IN_Q_OVERFLOW, _IN_IGNORED = 0x800, 0x1000000, 0x4000, 0x8000
_MASK = _IN_MODIFY | _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_MOVE_SELF | _IN_ONLYDIR
_EVENT = struct.Struct("iIII")
"""struct inotify_event: watch descriptor, mask, cookie, length of the name that follows."""
_BUFFER_BYTES = 64 << 10

_REST_S = 0.01
"""The shortest time between two looks at the files: a busy broker writes more often."""


class DirectoryWatch:
    """Watches directories; a context manager.

    Inotify does not show all changes: not those that another host makes on a network file system, nor the end
    of a process that held a lock. So all directories count as changed every `poll_interval_ms`, and without
    inotify nothing is different but the delay.
    """

    def __init__(
        self,
        poll_interval_ms: int,
        *,
        inotify: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the descriptors.

        Args:
            poll_interval_ms: the longest time until all directories count as changed.
            inotify: use inotify if the system has it.
            clock: the current time in seconds.
        """
        self._interval = poll_interval_ms / 1000
        self._clock = clock
        self._inotify = _Inotify.create() if inotify else None
        self._wake_reader, self._wake_writer = os.pipe()
        self._looked = self._looked_at_all = clock()

    def add(self, directories: Iterable[str]) -> bool:
        """Watch these directories, too. Return whether some of them were not watched before.

        Changes of those since they were last looked at may have been missed: look at them again.
        """
        return self._inotify is not None and self._inotify.add(directories)

    def wait(self, timeout_ms: int | None = None) -> set[str] | None:
        """Wait until a directory changes, the time is over, or `wake` was called.

        Args:
            timeout_ms: the longest time to wait; None: `poll_interval_ms`.

        Returns:
            The directories that have changed; None if any of them may have changed.
        """
        end = self._looked_at_all + self._interval
        if timeout_ms is not None:
            end = min(end, self._clock() + timeout_ms / 1000)
        changed: set[str] | None = set()
        if self._inotify is None:
            self._sleep(end)
        elif self._sleep(end, self._inotify.descriptor):
            self._sleep(min(end, self._looked + _REST_S))  # more changes may come soon
            changed = self._inotify.read()
        self._looked = self._clock()
        if changed is None or self._looked >= self._looked_at_all + self._interval:
            self._looked_at_all = self._looked
            return None
        return changed

    def wake(self) -> None:
        """Make this and every later `wait` return at once. Other threads may call this."""
        os.write(self._wake_writer, b"\0")

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        if self._inotify is not None:
            self._inotify.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sleep(self, end: float, descriptor: int | None = None) -> bool:
        """Wait until `end`, or until the descriptor can be read. Return whether it can be read."""
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(max(0.0, end - self._clock()) * 1000)
        return any(number == descriptor for number, _ in ready)


class _Inotify:
    """An inotify instance of Linux: see inotify(7)."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self.descriptor = descriptor
        self._watched: dict[str, int] = {}
        self._directories: dict[int, str] = {}
        self._is_full = False

    @classmethod
    def create(cls) -> _Inotify | None:
        """Return an instance; None if the system has no inotify, or no more instances for this user."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None
        if descriptor < 0:
            logger.info("inotify is not used: %s", os.strerror(ctypes.get_errno()))
            return None
        return cls(libc, descriptor)

    def add(self, directories: Iterable[str]) -> bool:
        is_new = False
        for directory in directories:
            if directory in self._watched or self._is_full:
                continue
            watch = self._libc.inotify_add_watch(self.descriptor, os.fsencode(directory), _MASK)
            if watch >= 0:
                is_new = True
                self._watched[directory] = watch
                self._directories[watch] = directory
            elif ctypes.get_errno() == errno.ENOSPC:
                self._is_full = True
                logger.info(
                    "%s and more: found by polling, fs.inotify.max_user_watches is reached", directory
                )
        return is_new

    def read(self) -> set[str] | None:
        """Return the directories that have changed; None if any of them may have changed."""
        changed: set[str] | None = set()
        while True:
            try:
                data = os.read(self.descriptor, _BUFFER_BYTES)
            except BlockingIOError:
                return changed
            position = 0
            while position < len(data):
                watch, mask, _, name_bytes = _EVENT.unpack_from(data, position)
                position += _EVENT.size + name_bytes
                directory = self._directories.get(watch)
                if mask & _IN_Q_OVERFLOW:
                    changed = None
                elif directory is not None and changed is not None:
                    changed.add(directory)
                if directory is not None and mask & (_IN_IGNORED | _IN_MOVE_SELF):
                    # It was removed or renamed. Another one of the same name may be added.
                    del self._directories[watch]
                    del self._watched[directory]
                    if mask & _IN_MOVE_SELF:
                        self._libc.inotify_rm_watch(self.descriptor, watch)

    def close(self) -> None:
        os.close(self.descriptor)
