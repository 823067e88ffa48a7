"""What lies in a partition directory.

One pass over its names and the sizes of its .log files; nothing is opened.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from native_log.errors import KafkaLogError
from native_log.log.log_files import SegmentFiles, loadable_files, select_files, swap_logs
from native_log.log.tail import Tail, find_tail
from native_log.segment.files import LOG, MAX_OFFSET
from native_log.segment.segment import LogSegment
from native_log.storage import DataFile, Window, is_file

_MAX_SEGMENT_BYTES = 2**31 - 1
_ATTEMPTS = 5
_READS = 20
_TICK_NS = 20_000_000
"""Times of files are those of the kernel's last tick, some milliseconds old."""


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log: segments by ascending base offset, snapshots as (offset, name), newest first."""

    segments: tuple[LogSegment, ...]
    snapshots: tuple[tuple[int, str], ...]


def list_log(directory: str, max_batch_bytes: int) -> LogListing:
    """List a partition directory. Raises FileNotFoundError, NotADirectoryError, PermissionError.

    A broker that works in it may rename files between the listing of names and the look at sizes: then it is
    listed again.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _list_once(directory, max_batch_bytes)
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1 or not os.path.isdir(directory):  # noqa: PTH112 (a hot path of strings)
                raise
    raise AssertionError


def _list_once(directory: str, max_batch_bytes: int) -> LogListing:
    by_name = _files(directory)
    files = loadable_files(by_name)

    def segment(names: SegmentFiles, end_offset: int = MAX_OFFSET) -> LogSegment:
        stat = by_name[names.log].stat()
        if stat.st_size > _MAX_SEGMENT_BYTES:
            raise KafkaLogError(
                "expected a segment of less than 2^31 bytes, for positions in it are 32 bits wide, found "
                f"{stat.st_size} bytes: no broker wrote this. Move the file away to read the rest of the log",
                path=f"{directory}/{names.log}",
            )
        return LogSegment(
            directory,
            names.base_offset,
            names.log,
            stat.st_size,
            stat.st_ino,
            stat.st_mtime_ns // 1_000_000,
            names.index,
            names.time_index,
            names.transaction_index,
            end_offset,
        )

    replaced = None
    if swaps := swap_logs(files):
        # The same files with nothing replaced: of each base offset the .swap is chosen, as a segment to look
        # into.
        new = {names.base_offset: names for names in select_files(files, None).segments}
        next_offsets = [next_offset(segment(new[swap.offset]), max_batch_bytes) for swap in swaps]
        replaced = min(swap.offset for swap in swaps), max(next_offsets)
    chosen = select_files(files, replaced)
    ends = [*(names.base_offset for names in chosen.segments[1:]), MAX_OFFSET]
    return LogListing(tuple(map(segment, chosen.segments, ends)), chosen.snapshots)


def list_with_tail(directory: str, clean_shutdown: bool, max_batch_bytes: int) -> tuple[LogListing, Tail]:
    """What lies in a partition directory, and where its last segment ends. Raises as list_log."""
    listing = list_log(directory, max_batch_bytes)
    if not listing.segments:
        return listing, Tail(0, 0)
    last = listing.segments[-1]
    if last.size_bytes == 0:
        return listing, Tail(0, last.base_offset)
    return listing, _tail(last, clean_shutdown, max_batch_bytes)


def _files(directory: str) -> dict[str, os.DirEntry[str]]:
    """The files of a directory.

    A large one is read in parts: a file that a broker renames meanwhile can be missed under both its names,
    or met twice. So it is read until nothing has changed: by the directory's own time, and where that may be
    of the same tick of the clock as a later change, by reading it again.
    """
    found: dict[str, os.DirEntry[str]] = {}
    for _ in range(_READS):
        before, changed_ns = found, os.stat(directory).st_mtime_ns  # noqa: PTH116
        with os.scandir(directory) as entries:
            found = {entry.name: entry for entry in entries if _is_listed(entry)}
        is_old = time.time_ns() - changed_ns > _TICK_NS
        is_same = os.stat(directory).st_mtime_ns == changed_ns  # noqa: PTH116
        if is_same and (is_old or found.keys() == before.keys()):
            break
    return found


def _is_listed(entry: os.DirEntry[str]) -> bool:
    # A log can be read without its indexes, but not without a .log: there the OSError is not for skipping.
    return entry.is_file() if entry.name.endswith(f".{LOG}") else is_file(entry)


def next_offset(segment: LogSegment, max_batch_bytes: int) -> int:
    """The offset behind what the segment's file holds."""
    return _tail(segment, False, max_batch_bytes).next_offset


def _tail(segment: LogSegment, clean_shutdown: bool, max_batch_bytes: int) -> Tail:
    with DataFile(f"{segment.directory}/{segment.log}") as file:
        return find_tail(
            segment, file, Window(), clean_shutdown=clean_shutdown, max_batch_bytes=max_batch_bytes
        )
