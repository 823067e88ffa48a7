"""List the files of a partition directory.

Names and the sizes of .log files come from one scan of the directory. Files are opened only to find the end
of the log, and the end of segments that an interrupted compaction left as `.swap` files.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, error_message
from native_log.log.log_files import SegmentFiles, loadable_files, select_files, swap_logs
from native_log.log.tail import Tail, find_tail
from native_log.segment.files import LOG, MAX_OFFSET
from native_log.segment.segment import LogSegment
from native_log.storage import TICK_NS, Window, is_file
from native_log.storage.opening import check_regular, check_regular_file

if TYPE_CHECKING:
    from collections.abc import Container

_MAX_SEGMENT_BYTES = 2**31 - 1
_ATTEMPTS = 5
_READS = 20


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log.

    Attributes:
        segments: by ascending base offset.
        snapshots: (offset, file name) of producer state snapshots, newest first.
    """

    segments: tuple[LogSegment, ...]
    snapshots: tuple[tuple[int, str], ...]


def list_log(directory: str, max_batch_bytes: int, ignored: Container[str] = ()) -> LogListing:
    """List a partition directory.

    Raises FileNotFoundError, NotADirectoryError, PermissionError; OSError if a .log file is no regular file.

    A running broker may rename a file between the scan of the names and the reading of its size. The
    directory is then listed again.

    Args:
        directory: the partition directory.
        max_batch_bytes: see PartitionLog.
        ignored: the names of files that are treated as missing.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _list_once(directory, max_batch_bytes, ignored)
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1 or not os.path.isdir(directory):  # noqa: PTH112 (a hot path of strings)
                raise
    raise AssertionError


def file_names(directory: str) -> list[str]:
    """Return the names in a partition directory of all .log files, and of all other regular files."""
    return list(_scan_directory(directory))


def irregular_logs(directory: str) -> dict[str, str]:
    """Return why some .log files are no regular files, by name. `list_log` must ignore them."""
    reasons = {}
    for name in file_names(directory):
        if name.endswith(f".{LOG}"):
            try:
                check_regular_file(f"{directory}/{name}", follow_link=True)
            except OSError as error:
                reasons[name] = error_message(error)
    return reasons


def _list_once(directory: str, max_batch_bytes: int, ignored: Container[str]) -> LogListing:
    by_name = _scan_directory(directory)
    files = loadable_files(name for name in by_name if name not in ignored)

    def segment(names: SegmentFiles, end_offset: int = MAX_OFFSET) -> LogSegment:
        stat = by_name[names.log].stat()
        check_regular(stat.st_mode, f"{directory}/{names.log}")
        if stat.st_size > _MAX_SEGMENT_BYTES:
            raise KafkaLogError(
                "expected a segment of less than 2^31 bytes, because positions have 32 bits, found "
                f"{stat.st_size} bytes; move the file away to read the rest of the log",
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
        # Without `replaced`, a .swap file is selected over another file of the same base offset. So this
        # gives the segments to open, to find the offsets that each .swap file covers.
        new = {names.base_offset: names for names in select_files(files, None).segments}
        next_offsets = [next_offset(segment(new[swap.offset]), max_batch_bytes) for swap in swaps]
        replaced = min(swap.offset for swap in swaps), max(next_offsets)
    chosen = select_files(files, replaced)
    ends = [*(names.base_offset for names in chosen.segments[1:]), MAX_OFFSET]
    return LogListing(tuple(map(segment, chosen.segments, ends)), chosen.snapshots)


def list_with_tail(directory: str, clean_shutdown: bool, max_batch_bytes: int) -> tuple[LogListing, Tail]:
    """List a partition directory and find the end of its last segment. Raises as list_log."""
    listing = list_log(directory, max_batch_bytes)
    if not listing.segments:
        return listing, Tail(0, 0)
    last = listing.segments[-1]
    if last.size_bytes == 0:
        return listing, Tail(0, last.base_offset)
    return listing, tail_of(last, clean_shutdown, max_batch_bytes)


def _scan_directory(directory: str) -> dict[str, os.DirEntry[str]]:
    """Return the files of a directory by name.

    The system returns a large directory in several parts. If a broker renames a file meanwhile, the file can
    be missing under both names, or appear under both. So the directory is read until it did not change during
    a read. Its modification time shows that, unless the time is so recent that a later change may have the
    same clock tick: then two reads must give the same names.
    """
    files: dict[str, os.DirEntry[str]] = {}
    for _ in range(_READS):
        before, changed_ns = files, os.stat(directory).st_mtime_ns  # noqa: PTH116
        with os.scandir(directory) as entries:
            files = {entry.name: entry for entry in entries if _is_file(entry)}
        is_old = time.time_ns() - changed_ns > TICK_NS
        is_same = os.stat(directory).st_mtime_ns == changed_ns  # noqa: PTH116
        if is_same and (is_old or files.keys() == before.keys()):
            break
    return files


def _is_file(entry: os.DirEntry[str]) -> bool:
    # A log can be read without its indexes, but not without a .log file: one that is no file is an error.
    return entry.name.endswith(f".{LOG}") or is_file(entry)


def next_offset(segment: LogSegment, max_batch_bytes: int) -> int:
    """Return the offset after the last record in the segment's file."""
    return tail_of(segment, False, max_batch_bytes).next_offset


def tail_of(segment: LogSegment, clean_shutdown: bool, max_batch_bytes: int) -> Tail:
    """Open the file of the last segment and find its end."""
    with segment.open() as file:
        return find_tail(
            segment, file, Window(), clean_shutdown=clean_shutdown, max_batch_bytes=max_batch_bytes
        )
