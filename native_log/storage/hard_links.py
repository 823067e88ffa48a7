"""Files that have several names, as in snapshots made with `cp -al` or `rsync --link-dest`."""

from __future__ import annotations

import errno
import os
import stat

from native_log.storage.opening import IrregularFileError


def other_links(path: str) -> tuple[int, int]:
    """Return the number of other names that a local file has, and its inode number.

    The number is 0 for a directory, whose links are its subdirectories. Raises OSError.
    """
    state = os.lstat(path)
    return 0 if stat.S_ISDIR(state.st_mode) else state.st_nlink - 1, state.st_ino


def check_only_link(path: str, descriptor: int | None = None) -> None:
    """Raise IrregularFileError if the file has another name, and so must not be changed in place.

    Args:
        path: the file.
        descriptor: its descriptor, if it is open.
    """
    links = os.stat(path if descriptor is None else descriptor).st_nlink  # noqa: PTH116
    if links > 1:
        raise IrregularFileError(
            errno.EMLINK,
            f"expected a file with one hard link, found {links}: changing it in place would also change the "
            "others, for example in a snapshot made with cp -al or rsync --link-dest; work on a full copy",
            path,
        )
