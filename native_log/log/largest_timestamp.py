"""The largest timestamp in a segment (Kafka: LogSegment.largestTimestamp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records import scan
from native_log.segment.entries import TIME_ENTRY
from native_log.segment.scan import max_batch_timestamp_ms

if TYPE_CHECKING:
    from native_log.log.partition_log import PartitionLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_READ_WHOLE_BYTES = 256 << 10
"""Segments up to this size are scanned whole, which is faster than a lookup."""


def largest_timestamp_ms(log: PartitionLog, index: int, expired_before_ms: int) -> int:
    """Return the largest timestamp in the segment `log.segments[index]`, in ms.

    If no record has a timestamp (format v0), it is the file's modification time. If a part of the segment is
    damaged, it is at least that time.

    A broker uses the last entry of the time index. So does this function, but only if the entry is plausible
    and keeps the segment. Before a segment is deleted because of its timestamp (it is less than
    `expired_before_ms`), the batch headers are read to confirm the entry.
    """
    segment = log.segments[index]
    is_last = index == len(log.segments) - 1
    end_offset = log.log_end_offset if is_last else log.segments[index + 1].base_offset
    entry = _last_entry(segment, end_offset)
    if entry is not None and entry[0] >= expired_before_ms:
        return entry[0]
    if segment.size_bytes == 0:
        return segment.mtime_ms
    if segment.size_bytes <= _READ_WHOLE_BYTES and (largest := _scan_whole(segment)) >= 0:
        return largest
    damaged: list[DamagedRange] = []
    if entry is not None:
        largest = _scan_headers(log, segment, entry[1], damaged)
        if largest == entry[0] and not damaged:
            return largest
    largest = _scan_headers(log, segment, segment.base_offset, damaged)
    # A record that cannot be read may be as new as the file.
    return max(largest, segment.mtime_ms) if damaged or largest < 0 else largest


def _last_entry(segment: LogSegment, end_offset: int) -> tuple[int, int] | None:
    """Return (timestamp in ms, offset) of the time index's last entry; None if there is no plausible one."""
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


def _scan_whole(segment: LogSegment) -> int:
    """Return the largest timestamp of a small segment; -1 if it has none, or if a part is damaged."""
    with segment.open() as file:
        scanned = scan(file.read(0, segment.size_bytes), order=segment.offset_order(file))
    return max_batch_timestamp_ms(scanned.batches) if scanned.status == "end" else -1


def _scan_headers(
    log: PartitionLog, segment: LogSegment, start_offset: int, damaged: list[DamagedRange]
) -> int:
    """Return the largest timestamp of the batches from `start_offset` to the segment's end; -1 if none."""
    largest = -1
    for current, scanned in log.state.headers(start_offset, damaged.append):
        if current is not segment:
            break
        largest = max(largest, max_batch_timestamp_ms(scanned.batches))
    return largest
