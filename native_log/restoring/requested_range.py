"""The offsets of a log that are restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.offset_span import OffsetSpan
from native_log.logdir.position import offset_at, position_in

if TYPE_CHECKING:
    from native_log.log import PartitionLog
    from native_log.logdir.position import Position


def requested_span(log: PartitionLog, start: Position, end: Position) -> OffsetSpan:
    """Return the offsets of a log between two positions, as far as the log has them. It may be empty."""
    held = OffsetSpan(log.local_log_start_offset, log.high_watermark)
    low = offset_at(log, position_in(log, start), held.start_offset)
    high = offset_at(log, position_in(log, end), held.end_offset)
    first = min(max(low, held.start_offset), held.end_offset)
    return OffsetSpan(first, max(first, min(high, held.end_offset)))
