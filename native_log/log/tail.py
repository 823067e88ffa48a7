"""Where the last segment ends:

the log end offset, and what lies behind it (reference: a broker's recovery).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.damage import find_next_batch
from native_log.segment.scan import int64s, scan_file, valid_batch_at

if TYPE_CHECKING:
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile, Window

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a segment that is still written to, or was when its broker died.

    Attributes:
        end_position: where reading stops. Short of the file's end only where what follows was simply not
            written yet: less than a batch, zeros, a last batch with a wrong CRC. Other damage is inside, to
            be met when read.
        next_offset: the offset after the last whole batch.
    """

    end_position: int
    next_offset: int


def find_tail(
    segment: LogSegment, file: DataFile, window: Window, *, clean_shutdown: bool, max_batch_bytes: int
) -> Tail:
    """The end of the last segment of a log.

    Args:
        clean_shutdown: its broker stopped in good order, so a wrong CRC in the last batch is damage, not an
        unfinished write.
    """
    size = file.size_bytes
    if size == 0:
        return Tail(0, segment.base_offset)
    start = _last_indexed_position(segment, file, window, max_batch_bytes)
    tail = _tail_from(segment, file, window, start, clean_shutdown, max_batch_bytes)
    if tail is None:
        tail = _tail_from(segment, file, window, 0, clean_shutdown, max_batch_bytes)
    return tail or Tail(size, segment.base_offset)


def _last_indexed_position(segment: LogSegment, file: DataFile, window: Window, max_batch_bytes: int) -> int:
    index = segment.load_offset_index()
    entry = index.floor_of_position(file.size_bytes)
    if entry < 0:
        return 0
    offset, position = index.entry(entry)
    batch = valid_batch_at(file, position, file.size_bytes, window, max_batch_bytes=max_batch_bytes)
    return position if batch is not None and position > 0 and batch["baseOffset"] <= offset else 0


def _tail_from(
    segment: LogSegment,
    file: DataFile,
    window: Window,
    position: int,
    clean_shutdown: bool,
    max_batch_bytes: int,
) -> Tail | None:
    """The end as seen from the batch at `position`; None if that would take a batch before it."""
    size = file.size_bytes
    next_offset = previous_end = segment.base_offset if position == 0 else None
    while True:
        last_position: int | None = None
        for found in scan_file(file, position, size, window, max_batch_bytes=max_batch_bytes):
            count = found.batches.num_rows
            if count:
                last_offsets = int64s(found.batches, "lastOffset")
                previous_end = next_offset if count == 1 else last_offsets[count - 2] + 1
                last_position, next_offset = int64s(found.batches, "position")[count - 1], found.next_offset
        end_position = found.position
        # Only the last batch is checked. If it is damaged, its size may be wrong, and what follows within it.
        if last_position is not None and not _is_whole(file, last_position, size, window, max_batch_bytes):
            if not clean_shutdown and found.status != "damaged":
                end_position, next_offset = last_position, previous_end
            suspect = last_position + 1
        else:
            suspect = found.position + 1
        behind = None
        if found.status not in ("end", "zeros") or suspect <= found.position:
            behind = find_next_batch(file, suspect, size, segment.base_offset)
        if behind is None:
            break
        position = behind
    if next_offset is None:
        return None
    if found.status == "damaged":
        end_position = size  # to be met when read
    if end_position < size:
        logger.info(
            "%s ends at position %d, offset %s: the %d bytes behind it are no whole batch, "
            "and are taken as not yet written",
            file.path,
            end_position,
            next_offset,
            size - end_position,
        )
    return Tail(end_position, max(next_offset, segment.base_offset))


def _is_whole(file: DataFile, position: int, end: int, window: Window, max_batch_bytes: int) -> bool:
    return valid_batch_at(file, position, end, window, max_batch_bytes=max_batch_bytes) is not None
