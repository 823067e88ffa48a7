"""Open files whose names may come from elsewhere.

A copy that someone else made can contain a link, a named pipe or a device under the name of a file. To open a
pipe blocks, to open a device can change it, and a link leads out of the log directory.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from native_log.storage.descriptors import open_descriptor
from native_log.storage.ownership import create_directory, create_file, give_directory

if TYPE_CHECKING:
    from pathlib import Path

_MODE = 0o644
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class IrregularFileError(OSError):
    """A file is not opened, because it is a symbolic link, a named pipe or another special file.

    A file with several hard links is not opened to change it in place.
    """


def open_file(path: str | Path, flags: int, *, follow_link: bool = False) -> int:
    """Open a regular file, and return its descriptor.

    A new one gets mode 0644. If this process runs as root, it gets the owner of its directory.

    Args:
        path: the file. Links to the directory that contains it are followed.
        flags: those of os.open.
        follow_link: also open a link to a regular file. Do so only to read.

    Raises FileNotFoundError, IrregularFileError, and other errors of the operating system.
    """
    check_regular_file(path, follow_link=follow_link)
    flags |= os.O_CLOEXEC | (0 if follow_link else os.O_NOFOLLOW)
    return create_file(path, flags, _MODE) if flags & os.O_CREAT else open_descriptor(path, flags)


def check_regular_file(path: str | Path, *, follow_link: bool = False) -> None:
    """Raise IrregularFileError if there is something else than a regular file at the path.

    Args:
        path: the file. It may be missing.
        follow_link: accept a link to a regular file.
    """
    try:
        mode = os.stat(path, follow_symlinks=follow_link).st_mode  # noqa: PTH116 (a hot path of strings)
    except FileNotFoundError:
        return
    check_regular(mode, path)


def check_regular(mode: int, path: str | Path) -> None:
    """Raise IrregularFileError, which names `path`, unless a regular file has `mode` (st_mode)."""
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        advice = "replace it by a copy of the file" if stat.S_ISLNK(mode) else "move it away"
        code = errno.ELOOP if stat.S_ISLNK(mode) else errno.EINVAL
        raise IrregularFileError(code, f"expected a regular file, found {kind}; {advice}", os.fspath(path))


def make_folder(path: Path) -> None:
    """Create a directory of kafkalog's own if it is missing.

    Raises IrregularFileError if there is a link at its path.
    """
    create_directory(path, exist_ok=True)
    if path.is_symlink():
        raise IrregularFileError(
            errno.ELOOP, "expected a directory, found a symbolic link; remove the link", os.fspath(path)
        )
    # Another process may have created it, but not yet given it away. New files in it get its owner.
    give_directory(path)
