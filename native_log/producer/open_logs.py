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

_changed = threading.Condition(threading.Lock())
"""Protects `_open` and `_closing`. It is notified when a log was closed."""
_open: dict[str, tuple[PartitionLog, int]] = {}
"""By path of the partition: the log, and how many producers use it."""
_closing: set[str] = set()
"""The paths of logs that are being closed. A log can be opened again only after that."""


def acquire(path: str, open_log: Callable[[], PartitionLog]) -> PartitionLog:
    """Return the log in the partition directory `path`. Call `release` once for each call.

    If another thread is closing the log, wait until it has finished.
    """
    name = os.path.realpath(path)
    with _changed:
        _changed.wait_for(lambda: name not in _closing)
        log, users = _open.get(name) or (open_log(), 0)
        _open[name] = log, users + 1
        return log


def release(path: str) -> None:
    """Close the log in `path`, unless another producer uses it."""
    name = os.path.realpath(path)
    with _changed:
        log, users = _open.pop(name)
        if users > 1:
            _open[name] = log, users - 1
            return
        _closing.add(name)
    try:
        log.close()
    finally:
        with _changed:
            _closing.discard(name)
            _changed.notify_all()


def _forget_in_child() -> None:
    """Forget the logs in a forked process: they belong to its parent."""
    global _changed
    _changed = threading.Condition(threading.Lock())
    _open.clear()
    _closing.clear()


os.register_at_fork(after_in_child=_forget_in_child)
