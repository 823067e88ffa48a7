"""List a partition directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.results import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from native_log.records.results import ListedLog


def list_log(path: str, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> ListedLog | None:
    """Return the files of an ordinary partition directory and the end of its last segment.

    The kernel does this in one call. In plain Python there is nothing to gain, so this function returns None,
    and native_log.log.listing lists the directory.

    Args:
        path: the directory.
        max_batch_bytes: see `scan`.

    Returns:
        None if a compaction left files behind, a broker would not have given a file its name, a file is not a
        regular one, or the directory is changing.

    Raises OSError: the directory cannot be read.
    """
    del path, max_batch_bytes
    return None
