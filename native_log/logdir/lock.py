"""Is a broker alive in a log directory? It holds a lock on the file `.lock` there (Kafka: FileLock)."""

from __future__ import annotations

import fcntl
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOCK_FILE = ".lock"

# struct flock of fcntl.h: (layout, and which of its fields are the type and the pid)
_FLOCK, _TYPE, _PID = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi", 0, 4)


def lock_holder(log_dir: Path) -> int | None:
    """The process that holds the log directory's lock: its pid, or 0 if it cannot be seen from here (another
    container or host); None if no process does.

    Java's FileLock is a POSIX lock, so it can be asked for without taking it, through a read-only descriptor.
    A clean stop removes the file, a crash leaves it unlocked.
    """
    try:
        file = (log_dir / LOCK_FILE).open("rb")
    except FileNotFoundError:
        return None
    # Closing any descriptor of a file drops all POSIX locks that this very process holds on it, so whoever
    # takes the lock must not ask this function meanwhile.
    with file:
        asked = [0] * 5
        asked[_TYPE] = fcntl.F_WRLCK
        try:
            answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_FLOCK, *asked))
        except OSError:  # a file system without locks: no broker can run on it
            return None
    found = struct.unpack(_FLOCK, answer)
    return None if found[_TYPE] == fcntl.F_UNLCK else found[_PID]
