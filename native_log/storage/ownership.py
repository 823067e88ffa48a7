"""Give new files to the owner of the directory that they are in.

A broker runs as a user of its own, often `kafka`. After a command that root ran, for example with sudo, the
broker must be able to open what the command created.
"""

from __future__ import annotations

import logging
import os
import stat
from functools import cache
from typing import TYPE_CHECKING

from native_log.storage.descriptors import open_descriptor

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_ROOT = 0


def warn_of_other_owner(directory: Path) -> None:
    """Warn if files that this process creates in the directory will not belong to the directory's owner."""
    owner = directory.stat()
    if os.geteuid() not in (_ROOT, owner.st_uid):
        _warn(str(directory), owner.st_uid, owner.st_gid)


def files_of_others(directory: Path, owner: int) -> list[tuple[str, int]]:
    """Return the regular files in a directory that the user with the id `owner` may be unable to write.

    They belong to someone else, and neither their group nor all users may write them. Return the path and the
    owner's id of each, sorted. Raises OSError.
    """
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # a broker has removed it
                continue
            may_write = state.st_uid == owner or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if stat.S_ISREG(state.st_mode) and not may_write:
                found.append((entry.path, state.st_uid))
    return sorted(found)


def create_file(path: str | Path, flags: int, mode: int) -> int:
    """Open a file as os.open does, and return its descriptor. `flags` contain O_CREAT.

    If this process runs as root, a new file gets the owner and the group of its directory. An existing file
    keeps its owner: the owner of the directory may have made it a hard link to a file of someone else.
    """
    if os.geteuid() != _ROOT:
        return open_descriptor(path, flags, mode)
    try:
        descriptor = open_descriptor(path, flags | os.O_EXCL, mode)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return open_descriptor(path, flags, mode)
    try:
        _give_to_owner(descriptor, os.path.dirname(path) or os.curdir)  # noqa: PTH120 (a hot path of strings)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def create_directory(path: Path, *, exist_ok: bool = False) -> None:
    """Create a directory. If this process runs as root, it gets the owner and the group of its parent.

    Args:
        path: the directory.
        exist_ok: do nothing if there is a directory at the path, or a link to one.

    Raises FileExistsError if there is something at the path; OSError.
    """
    try:
        path.mkdir()
    except FileExistsError:
        if exist_ok and path.is_dir():
            return
        raise
    give_directory(path)


def give_directory(path: Path) -> None:
    """Give a directory that kafkalog has created to the owner of its parent, if this process runs as root.

    Raises OSError, for example if there is a link at the path.
    """
    if os.geteuid() != _ROOT:
        return
    descriptor = open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _give_to_owner(descriptor, path.parent)
    finally:
        os.close(descriptor)


def create_directories(path: Path) -> None:
    """Create a directory and its parents, as far as they are missing. Errors are as in create_directory."""
    if not path.exists():
        create_directories(path.parent)
    create_directory(path, exist_ok=True)


def _give_to_owner(descriptor: int, directory: str | Path) -> None:
    owner = os.stat(directory)  # noqa: PTH116 (a hot path of strings)
    if owner.st_uid == _ROOT:
        return
    try:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except PermissionError:  # root may lack this right, on NFS or in a container
        _warn(str(directory), owner.st_uid, owner.st_gid)


@cache
def _warn(directory: str, uid: int, gid: int) -> None:
    logger.warning(
        "%s: it belongs to the user with id %d, but new files in it will belong to the user of this process "
        "(%d). A broker may be unable to open them: run as its user, or give it the files afterwards with "
        "chown -R %d:%d %s",
        *(directory, uid, os.geteuid(), uid, gid, directory),
    )
