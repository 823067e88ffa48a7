"""The largest timestamp in a segment (Kafka: LogSegment.largestTimestamp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records import OffsetOrder, scan
from native_log.segment.entries import TIME_ENTRY
from native_log.segment.scan import greatest_timestamp_ms
from native_log.storage import DataFile

if TYPE_CHECKING:
    from native_log.log import PartitionLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_READ_WHOLE_BYTES = 256 << 10
"""Segments up to this size are quicker looked through than looked up in."""


def largest_timestamp_ms(log: PartitionLog, index: int, expired_before_ms: int) -> int:
    """Of the segment with that index; the file's mtime where no record has a timestamp (format v0).

    As in a broker it is that of the last entry of the time index, which is believed where it keeps the
    segment. Where the segment would go for it (the timestamp is less than `expired_before_ms`), or where the
    entry cannot be right, the headers of the batches have the word: first those from the entry's on.
    """
    segment = log.segments[index]
    is_last = index == len(log.segments) - 1
    end_offset = log.log_end_offset if is_last else log.segments[index + 1].base_offset
    entry = _last_entry(segment, end_offset)
    if entry is not None and entry[0] >= expired_before_ms:
        return entry[0]
    if segment.size_bytes == 0:
        return segment.mtime_ms
    if segment.size_bytes <= _READ_WHOLE_BYTES and (found := _in_whole(segment)) >= 0:
        return found
    damaged: list[DamagedRange] = []
    if entry is not None:
        found = _in_headers(log, segment, entry[1], damaged)
        if found == entry[0] and not damaged:
            return found
    found = _in_headers(log, segment, segment.base_offset, damaged)
    # What cannot be read may be as new as the file.
    return max(found, segment.mtime_ms) if damaged or found < 0 else found


def _last_entry(segment: LogSegment, end_offset: int) -> tuple[int, int] | None:
    """(timestamp in ms, offset) of the time index's last entry; None if there is none that can be right."""
    index = segment.load_time_index()
    if not len(index) or (index.file.size_bytes or 0) % TIME_ENTRY.size:
        return None
    timestamp_ms, offset = index.entry(len(index) - 1)
    if timestamp_ms < 0 or not segment.base_offset <= offset < end_offset:
        return None
    if len(index) > 1:
        earlier_ms, earlier_offset = index.entry(len(index) - 2)
        if not (earlier_ms < timestamp_ms and earlier_offset <= offset):
            return None
    return timestamp_ms, offset


def _in_whole(segment: LogSegment) -> int:
    """Of a small segment; -1 where none has a timestamp, or where it is not whole."""
    with DataFile(str(segment.path)) as file:
        order = OffsetOrder(segment.base_offset, segment.end_offset, file.fileno())
        scanned = scan(file.read(0, segment.size_bytes), order=order)
    return greatest_timestamp_ms(scanned.batches) if scanned.status == "end" else -1


def _in_headers(
    log: PartitionLog, segment: LogSegment, start_offset: int, damaged: list[DamagedRange]
) -> int:
    largest = -1
    for found, scanned in log.headers(start_offset, damaged.append):
        if found is not segment:
            break
        largest = max(largest, greatest_timestamp_ms(scanned.batches))
    return largest
