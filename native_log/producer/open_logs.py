"""The logs to which the producers of this process write. They share them.

The settings with which the first producer opened a log apply until the last one closes it.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.log import PartitionLog

_guard = threading.Lock()
_open: dict[str, tuple[PartitionLog, int]] = {}
"""By path of the partition: the log, and how many producers use it."""


def acquire(path: str, open_log: Callable[[], PartitionLog]) -> PartitionLog:
    """Return the log in the partition directory `path`. Call `release` once for each call."""
    name = os.path.realpath(path)
    with _guard:
        log, users = _open.get(name) or (open_log(), 0)
        _open[name] = log, users + 1
        return log


def release(path: str) -> None:
    """Close the log in `path`, unless another producer uses it."""
    name = os.path.realpath(path)
    with _guard:
        log, users = _open.pop(name)
        if users > 1:
            _open[name] = log, users - 1
            return
    log.close()


def _forget_in_child() -> None:
    """Forget the logs in a forked process: they belong to its parent."""
    global _guard
    _guard = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_forget_in_child)
