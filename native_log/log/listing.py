"""List the files of a partition directory.

Names and the sizes of .log files come from one scan of the directory. Files are opened only to find the end
of the log, and the end of segments that an interrupted compaction left as `.swap` files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, error_message
from native_log.log.changing_files import ATTEMPTS, CHANGED
from native_log.log.log_files import (
    SegmentFiles,
    indexes_without_log,
    loadable_files,
    select_files,
    swap_logs,
)
from native_log.log.ordinary_listing import list_ordinary
from native_log.log.tail import Tail, find_tail
from native_log.segment.files import LOG, MAX_OFFSET, MAX_SEGMENT_BYTES
from native_log.segment.scan import BATCH_COLUMNS, scan_file
from native_log.segment.segment import LogSegment
from native_log.storage import Folder, Window, folder_of, is_file
from native_log.storage.opening import check_regular, check_regular_file

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
    from native_log.log.ordinary_listing import OrdinaryLog
    from native_log.storage import FileEntry, KnownFile

_LOG_SUFFIX = f".{LOG}"


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log.

    Attributes:
        segments: by ascending base offset.
        snapshots: (offset, file name) of producer state snapshots, newest first.
        without_log: the base offsets of offset indexes whose .log file is missing, sorted.
    """

    segments: tuple[LogSegment, ...]
    snapshots: tuple[tuple[int, str], ...]
    without_log: tuple[int, ...] = ()

    def before_write(self, end: EndBeforeWrite | None) -> LogListing:
        """Return the listing as it was before an unfinished write. `end` is None if there is none."""
        if end is None:
            return self
        segments = [segment for segment in self.segments if segment.base_offset <= end.base_offset]
        if segments and segments[-1].base_offset == end.base_offset:
            size = min(segments[-1].size_bytes, end.size_bytes)
            segments[-1] = replace(segments[-1], size_bytes=size, end_offset=MAX_OFFSET)
        return LogListing(
            tuple(segments),
            tuple(snapshot for snapshot in self.snapshots if snapshot[0] <= end.offset),
            tuple(base for base in self.without_log if base <= end.base_offset),
        )


def list_log(
    directory: str | Folder,
    max_batch_bytes: int,
    ignored: Container[str] = (),
    entries: Mapping[str, FileEntry] | None = None,
) -> LogListing:
    """List a partition directory.

    Raises FileNotFoundError, NotADirectoryError, PermissionError; OSError if a .log file is not regular.

    A running broker may rename a file between the scan of the names and the reading of its size. The
    directory is then listed again.

    Args:
        directory: the partition directory.
        max_batch_bytes: see PartitionLog.
        ignored: the names of files that are treated as missing.
        entries: what Folder.list has returned, unless the directory is local; None: list the directory now.
    """
    folder = folder_of(directory)
    if entries is not None:
        return _listing_of(folder, _files(entries), max_batch_bytes, ignored)
    return _list_any(folder, max_batch_bytes, ignored) if ignored else _list(folder, max_batch_bytes)[0]


def _list(
    folder: Folder, max_batch_bytes: int, listed: OrdinaryLog | None = None
) -> tuple[LogListing, Tail | None]:
    """List a directory. Return the end of its last segment, too, if listing has found it."""
    ordinary = listed or list_ordinary(folder, max_batch_bytes)
    if ordinary is None:
        return _list_any(folder, max_batch_bytes), None
    return LogListing(ordinary.segments, ordinary.snapshots), ordinary.tail


def _list_any(folder: Folder, max_batch_bytes: int, ignored: Container[str] = ()) -> LogListing:
    for attempt in range(ATTEMPTS):
        try:
            return _listing_of(folder, _files(folder.list()), max_batch_bytes, ignored)
        except FileNotFoundError:
            if attempt == ATTEMPTS - 1 or not folder.exists():
                raise
    raise AssertionError


def file_names(directory: str | Folder) -> list[str]:
    """Return the names in a partition directory of all .log files, and of all other regular files."""
    return list(_files(folder_of(directory).list()))


def irregular_logs(directory: str) -> dict[str, str]:
    """Return why some .log files are not regular files, by name. `list_log` must ignore them."""
    reasons = {}
    for name in file_names(directory):
        if name.endswith(f".{LOG}"):
            try:
                check_regular_file(f"{directory}/{name}", follow_link=True)
            except OSError as error:
                reasons[name] = error_message(error)
    return reasons


def _listing_of(
    directory: Folder, by_name: Mapping[str, FileEntry], max_batch_bytes: int, ignored: Container[str]
) -> LogListing:
    files = loadable_files(by_name if not ignored else [name for name in by_name if name not in ignored])

    def segment(names: SegmentFiles, end_offset: int = MAX_OFFSET) -> LogSegment:
        stat = by_name[names.log].stat()
        check_regular(stat.st_mode, f"{directory}/{names.log}")
        if stat.st_size > MAX_SEGMENT_BYTES:
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
        next_offsets = [end_of_swap(segment(new[swap.offset]), max_batch_bytes) for swap in swaps]
        replaced = min(swap.offset for swap in swaps), max(next_offsets)
    chosen = select_files(files, replaced)
    ends = [*(names.base_offset for names in chosen.segments[1:]), MAX_OFFSET]
    without_log = tuple(indexes_without_log(by_name)) if chosen.has_other_indexes else ()
    return LogListing(tuple(map(segment, chosen.segments, ends)), chosen.snapshots, without_log)


def list_with_tail(
    directory: Folder, clean_shutdown: bool, max_batch_bytes: int, listed: OrdinaryLog | None = None
) -> tuple[LogListing, Tail]:
    """List a partition directory and find the end of its last segment. Raises as list_log.

    Args:
        directory: the partition directory.
        clean_shutdown: see find_tail.
        max_batch_bytes: see PartitionLog.
        listed: what `list_ahead` has found; None: list the directory now.
    """
    for attempt in range(ATTEMPTS):
        listing, tail = _list(directory, max_batch_bytes, listed)
        try:
            return listing, tail or _tail(listing, clean_shutdown, max_batch_bytes)
        except CHANGED:  # a broker has just removed, replaced or truncated the last segment
            if attempt == ATTEMPTS - 1:
                raise
        listed = None
    raise AssertionError


def _tail(listing: LogListing, clean_shutdown: bool, max_batch_bytes: int) -> Tail:
    if not listing.segments:
        return Tail(0, 0)
    last = listing.segments[-1]
    if last.size_bytes == 0:
        return Tail(0, last.base_offset)
    return tail_of(last, clean_shutdown, max_batch_bytes)


def _files(entries: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """Return the entries of a directory that are files, by name."""
    # A log can be read without its indexes, but not without a .log file, so that must be a regular file.
    items = entries.items()
    try:
        return {name: entry for name, entry in items if entry.is_file() or name.endswith(_LOG_SUFFIX)}
    except OSError:
        return {name: entry for name, entry in items if is_file(entry) or name.endswith(_LOG_SUFFIX)}


def end_of_swap(segment: LogSegment, max_batch_bytes: int) -> int:
    """Return the offset up to which a .swap file replaces other segments.

    As a broker, read headers from the last index entry up to the first damage (Kafka:
    LogSegment.readNextOffset). Segments with the offsets after the damage are still there, and are kept.
    """
    index = segment.load_offset_index()
    with segment.open() as file:
        starts = [index.entry(len(index) - 1)[1]] if len(index) else []
        for start in [*(start for start in starts if 0 < start < file.size_bytes), 0]:
            end = None
            for scanned in scan_file(
                file, start, file.size_bytes, Window(), max_batch_bytes=max_batch_bytes, columns=BATCH_COLUMNS
            ):
                end = scanned.next_offset if scanned.batches.num_rows else end
            if end is not None:
                return end
    return segment.base_offset


def next_offset(segment: LogSegment, max_batch_bytes: int) -> int:
    """Return the offset after the last record in the segment's file."""
    return tail_of(segment, False, max_batch_bytes).next_offset


def tail_of(
    segment: LogSegment, clean_shutdown: bool, max_batch_bytes: int, index: KnownFile | None = None
) -> Tail:
    """Open the file of the last segment and find its end: see find_tail."""
    with segment.open() as file:
        return find_tail(
            segment,
            file,
            Window(),
            clean_shutdown=clean_shutdown,
            max_batch_bytes=max_batch_bytes,
            index_file=index,
        )
