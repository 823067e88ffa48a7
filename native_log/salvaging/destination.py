"""Build a new log directory under another name, and give it its own name when it is complete."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from native_log.checkpoints.lock import LogDirLock
from native_log.checkpoints.write_session import WriteSession
from native_log.logdir.create import create_log_dir
from native_log.storage.writing import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

UNFINISHED = ".unfinished-salvage"
"""The suffix of the directory's name until it is complete."""
_SPARE_BYTES = 64 << 20
"""Free space that is left for indexes and snapshots, in addition to a hundredth of the logs."""


def check_destination(dest: Path, log_dirs: Sequence[Path], size_bytes: int) -> None:
    """Check that a log directory can be built at `dest`. Nothing is changed.

    Args:
        dest: the path of the new log directory.
        log_dirs: the log directories to copy, which must not contain it.
        size_bytes: the size of the .log files to copy.

    Raises:
        FileExistsError: the path exists and is not an empty directory.
        ValueError: the path lies in a log directory to copy.
        OSError: there is too little free space, or the path is a mount point.
    """
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        message = (
            "expected a path that does not exist or is an empty directory, found files; give another one"
        )
        raise FileExistsError(errno.EEXIST, message, str(dest))
    if os.path.ismount(dest):
        message = "expected a path that can be renamed, found a mount point; give a directory in it"
        raise OSError(errno.EBUSY, message, str(dest))
    for log_dir in log_dirs:
        real = log_dir.resolve()
        if real in dest.parents:
            raise ValueError(
                f"dest: expected a path outside of the log directory {log_dir}, found {dest}; "
                "the source must not be changed"
            )
    existing = next(parent for parent in dest.parents if parent.exists())
    free = shutil.disk_usage(existing).free
    needed = size_bytes + size_bytes // 100 + _SPARE_BYTES
    if free < needed:
        message = (
            f"expected {needed} bytes of free space for the copy, found {free}; "
            "give a destination on a larger disk"
        )
        raise OSError(errno.ENOSPC, message, str(existing))


@contextmanager
def new_log_dir(dest: Path, cluster_id: str, node_id: int, version: int) -> Iterator[WriteSession]:
    """Build a log directory in the block. Yield its write session, whose `log_dir` is where to write.

    At the end of the block the directory is renamed to `dest`. If the block raises an error, nothing is left.
    After a crash, a directory with the suffix UNFINISHED is left. The next call for the same path removes it.

    Args:
        dest: the path of the new log directory. It does not exist, or is empty.
        cluster_id, node_id, version: see create_log_dir.

    Raises LogDirInUseError if another process is building the same directory; ValueError; OSError.
    """
    staging = dest.with_name(dest.name + UNFINISHED)
    if staging.is_symlink():
        staging.unlink()
    if staging.exists():
        with LogDirLock(staging):
            shutil.rmtree(staging)
    create_log_dir(staging, cluster_id, node_id, version=version)
    try:
        session = WriteSession.enter(staging)
        is_complete = False
        try:
            session.begin()
            yield session
            is_complete = True
        finally:
            session.leave(write=is_complete)
        fsync_directory(staging)
        staging.rename(dest)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    fsync_directory(dest.parent)
