"""List ordinary partition directories with one call of the compiled kernel.

With thousands of partitions, creating Python objects for all directory entries would take most of the time.
The kernel declines unusual directories, which `listing` handles: those with files of an interrupted
compaction, with an index whose .log file is missing, with names that no broker writes or with links, and
those that are changing.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from native_log.log.tail import Tail
from native_log.prefetch import map_ahead
from native_log.records import list_logs
from native_log.segment.files import MAX_OFFSET
from native_log.segment.segment import LogSegment
from native_log.storage import LOCAL, Folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.records import ListedLog

_GROUP = 64
"""How many directories are listed together. Threads that take turns after each one would mostly wait."""


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
    return _ordinary(folder, list_logs([folder.path], max_batch_bytes=max_batch_bytes)[0])


def list_ahead(paths: Sequence[str], max_batch_bytes: int) -> Iterator[OrdinaryLog | None]:
    """Yield what `list_ordinary` returns for each local directory. A thread lists the next ones."""
    groups = [paths[start : start + _GROUP] for start in range(0, len(paths), _GROUP)]
    listed = map_ahead(partial(list_logs, max_batch_bytes=max_batch_bytes), groups, 1)
    for path, found in zip(paths, chain.from_iterable(listed), strict=True):
        yield _ordinary(Folder(path), found)


def _ordinary(folder: Folder, found: ListedLog | None) -> OrdinaryLog | None:
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
