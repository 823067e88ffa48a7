"""Open more files than a process may at first.

On most systems, a process starts with a soft limit of 1,024 open files, and may raise it to a hard limit. A
JVM, and so a broker, does this when it starts. A producer keeps three files open for each partition.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TOO_MANY_FILES = frozenset((errno.EMFILE, errno.ENFILE))
"""Errors of the process or the system, which say nothing about the file."""

_SPARE = 64
"""Raise the limit this early: other code lists directories, and needs descriptors for that."""
_MACOS_LIMIT = 10_240
"""The highest limit that macOS accepts (OPEN_MAX), although it reports none."""


def open_descriptor(path: str | Path, flags: int, mode: int = 0o777) -> int:
    """Open a file as os.open does, and return its descriptor.

    Close to the soft limit of open files, raise it to the hard limit.

    Raises OSError, which names the limit if too many files are open.
    """
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        message = f"Too many open files: this process may open {limit}; raise the limit with ulimit -n"
        raise OSError(errno.EMFILE, message, os.fspath(path)) from None
    if descriptor >= _SPARE:  # the lowest free number, so most processes stay below
        _raise_limit(descriptor + _SPARE)
    return descriptor


def _raise_limit(needed: int) -> None:
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MACOS_LIMIT if highest == resource.RLIM_INFINITY else highest
    if limit < min(needed, allowed):
        with contextlib.suppress(ValueError, OSError):  # the system allows less than it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, highest))
