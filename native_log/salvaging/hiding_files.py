"""Find files without records that hide the records of other files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.log.listing import list_log, next_offset
from native_log.salvaging.reading import read_valid_batches
from native_log.segment.files import MAX_OFFSET
from native_log.storage import FaultyFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.listing import LogListing
    from native_log.segment.segment import LogSegment


def hiding_files(
    listing: LogListing, directory: str, max_batch_bytes: int, ignored: frozenset[str] = frozenset()
) -> list[LogSegment]:
    """Return the segments that have no valid batch, and at whose base offset another file has records.

    A `.swap` file replaces another segment, and each segment ends where the next one begins. So a file of
    garbage, or an empty one, can hide valid batches.

    Args:
        listing: all segments of the partition.
        directory: the partition directory.
        max_batch_bytes: see `salvage`.
        ignored: the names of files that are not in `listing` and do not count.

    Raises KafkaLogError, OSError.
    """
    empty = [segment for segment in listing.segments if not _has_batches(segment, max_batch_bytes)]
    if not empty:
        return []
    others = list_log(directory, max_batch_bytes, ignored.union(segment.log for segment in empty)).segments
    return [segment for segment in empty if _covers(others, segment.base_offset, max_batch_bytes)]


def _has_batches(segment: LogSegment, max_batch_bytes: int) -> bool:
    """Return whether a segment has a valid batch, also beyond its end. One that cannot be opened may have."""
    whole = replace(segment, end_offset=MAX_OFFSET)
    try:
        file = FaultyFile(str(segment.path))
        with file:
            parts = read_valid_batches(file, whole, max_batch_bytes, lambda *_: None)
            return any(part.batches.num_rows for part in parts)
    except OSError:
        return True


def _covers(segments: Sequence[LogSegment], offset: int, max_batch_bytes: int) -> bool:
    """Return whether the segment that begins at or before an offset ends after it."""
    before = [segment for segment in segments if segment.base_offset <= offset]
    if not before:
        return False
    try:
        return next_offset(replace(before[-1], end_offset=MAX_OFFSET), max_batch_bytes) > offset
    except OSError:
        return False
