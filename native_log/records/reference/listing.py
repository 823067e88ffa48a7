"""List a partition directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.results import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from native_log.records.results import ListedLog


def list_log(path: str, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> ListedLog | None:
    """Return the files of a partition directory in its ordinary state, and the end of its last segment.

    The kernel does so in one call. In plain Python that would gain nothing, so this function returns None:
    native_log.log.listing then lists the directory.

    Args:
        path: the directory.
        max_batch_bytes: see `scan`.

    Returns:
        None if a compaction has left files, a name is not as brokers write it, a file is no regular file, or
        something changes the directory.

    Raises OSError: the directory cannot be read.
    """
    del path, max_batch_bytes
    return None
