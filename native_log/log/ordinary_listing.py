"""List an ordinary partition directory with one call of the compiled kernel.

With thousands of partitions, creating Python objects for all directory entries would take most of the time.
The kernel declines unusual directories, which `listing` handles: those with files of an interrupted
compaction, with names that no broker writes or with links, and those that are changing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from native_log.log.tail import Tail
from native_log.records import list_log
from native_log.segment.files import MAX_OFFSET
from native_log.segment.segment import LogSegment
from native_log.storage import LOCAL

if TYPE_CHECKING:
    from native_log.storage import Folder


class OrdinaryLog(NamedTuple):
    """The files of an ordinary directory.

    Attributes:
        segments, snapshots: see LogListing.
        tail: the end of the last segment; None unless that is small and undamaged.
    """

    segments: tuple[LogSegment, ...]
    snapshots: tuple[tuple[int, str], ...]
    tail: Tail | None


def list_ordinary(folder: Folder, max_batch_bytes: int) -> OrdinaryLog | None:
    """List a partition directory.

    Args:
        folder: the directory.
        max_batch_bytes: see PartitionLog.

    Returns:
        None if the directory is not local, is unusual or cannot be read, or if there is no kernel.
    """
    if folder.storage is not LOCAL:
        return None
    try:
        found = list_log(folder.path, max_batch_bytes=max_batch_bytes)
    except OSError:  # `listing` reports it
        return None
    if found is None:
        return None
    listed, snapshots, end = found
    ends = [*(each[1] for each in listed[1:]), MAX_OFFSET]
    segments = tuple(
        LogSegment(folder, base, log, size, inode, mtime_ms, index, time_index, transaction_index, end_offset)
        for (log, base, size, inode, mtime_ms, index, time_index, transaction_index), end_offset in zip(
            listed, ends, strict=False
        )
    )
    tail = None
    if end is not None:
        next_offset, position, timestamp_ms, largest_ms = end
        last = segments[-1]
        tail = Tail(
            last.size_bytes,
            max(next_offset, last.base_offset),
            last_position=position,
            last_timestamp_ms=timestamp_ms,
            segment_timestamp_ms=largest_ms,
        )
    return OrdinaryLog(segments, tuple(snapshots), tail)
