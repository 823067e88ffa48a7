"""Open more files than a process may at first.

Most systems let a process open 1,024 files, and raise this limit itself up to another one. A JVM does so when
it starts, and so a broker does. A producer needs three open files for each partition.
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
"""The limit is raised before it is reached: directories are listed elsewhere, and need descriptors, too."""
_MACOS_LIMIT = 10_240
"""What macOS accepts (OPEN_MAX) although it names no limit."""


def open_descriptor(path: str | Path, flags: int, mode: int = 0o777) -> int:
    """Open a file as os.open does, and return its descriptor.

    If this process may soon not open more files, its limit is raised as far as the system allows.
    """
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        message = f"Too many open files: this process may open {limit}; raise the limit with ulimit -n"
        raise OSError(errno.EMFILE, message, os.fspath(path)) from None
    if descriptor >= _SPARE:  # the lowest that is free: few processes have so many open files
        _raise_limit(descriptor + _SPARE)
    return descriptor


def _raise_limit(needed: int) -> None:
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MACOS_LIMIT if highest == resource.RLIM_INFINITY else highest
    if limit < min(needed, allowed):
        with contextlib.suppress(ValueError, OSError):  # the system allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, highest))
