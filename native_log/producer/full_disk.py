"""Recognize errors that remain until somebody makes room on a disk."""

from __future__ import annotations

import errno
import shutil

_ERRORS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))


def is_full_disk(error: BaseException | None) -> bool:
    """Return whether a disk is full, a quota is used up, or the disk became read-only."""
    return isinstance(error, OSError) and error.errno in _ERRORS


def describe_free(directory: str) -> str:
    """Return the free space of the file system that contains a directory, as text."""
    try:
        return f"{shutil.disk_usage(directory).free} bytes free"
    except OSError as error:
        return f"free space unknown: {error.strerror}"
