"""The health of an index file: how many of its entries are valid, and what follows them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from native_log.storage.descriptors import TOO_MANY_FILES

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """The health of an index file.

    Attributes:
        status: "ok"; "missing": there is no file; "unreadable": the system cannot read the file; "empty": the
            file has no bytes; "zero-filled": preallocated zeros follow the valid entries; "torn": the file
            ends within an entry; "corrupt": other bytes follow the valid entries.
        entries: number of valid entries, up to the first that cannot follow the previous one.
    """

    status: str
    entries: int


MISSING = IndexHealth("missing", 0)
UNREADABLE = IndexHealth("unreadable", 0)


def warn_unreadable(path: str, error: OSError) -> None:
    """Log a warning that the index is not used. The log can be read without it.

    Raise the error itself if too many files are open, which says nothing about this one.
    """
    if error.errno in TOO_MANY_FILES:
        raise error
    logger.warning("%s: the index cannot be read, and the log is searched instead: %s", path, error.strerror)


def index_health(size_bytes: int, entry_bytes: int, entries: int, rest: bytes) -> IndexHealth:
    """Return the health of an index file.

    Args:
        size_bytes: size of the file.
        entries: number of valid entries.
        rest: the bytes after the valid entries, or as many of them as are needed to judge them.
    """
    if size_bytes == 0:
        status = "empty"
    elif rest.strip(b"\0"):
        status = "torn" if len(rest) < entry_bytes else "corrupt"
    elif len(rest) >= entry_bytes:
        status = "zero-filled"
    else:
        status = "torn" if rest else "ok"
    return IndexHealth(status, entries)
