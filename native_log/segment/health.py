"""What can be believed of an index file."""

from __future__ import annotations

import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """`status` is "ok", "missing" (no file), "unreadable" (the system refuses it), "empty" (no byte),
    "zero-filled" (preallocated, zeros behind the valid entries), "torn" (ends within an entry) or "corrupt"
    (something else behind the valid entries).
    `entries` is the number of valid entries, those up to the first that cannot follow the one before it.
    """

    status: str
    entries: int


MISSING = IndexHealth("missing", 0)
UNREADABLE = IndexHealth("unreadable", 0)


def warn_unreadable(path: str, error: OSError) -> None:
    """Logs that a log is read without this index: all that it says is also in the log."""
    logger.warning("%s: the index is not used, the log is searched instead: %s", path, error.strerror)


def index_health(size_bytes: int, entry_bytes: int, entries: int, rest: bytes) -> IndexHealth:
    """Health of a file of `size_bytes` with so many valid entries, before the bytes `rest`."""
    if size_bytes == 0:
        status = "empty"
    elif rest.strip(b"\0"):
        status = "torn" if len(rest) < entry_bytes else "corrupt"
    elif len(rest) >= entry_bytes:
        status = "zero-filled"
    else:
        status = "torn" if rest else "ok"
    return IndexHealth(status, entries)
