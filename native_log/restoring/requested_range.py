"""The offsets of a log that are restored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from native_log.arguments import integer
from native_log.log.offset_span import OffsetSpan

if TYPE_CHECKING:
    from native_log.log import PartitionLog

Limit = int | datetime | Mapping[tuple[str, int], int] | None
"""An offset for all partitions, a time, or offsets by (topic, partition)."""


def check_limit(name: str, limit: Limit) -> Limit:
    """Return the limit. Raises TypeError if it is none, ValueError for a time without a time zone."""
    if isinstance(limit, datetime):
        if limit.tzinfo is None:
            raise ValueError(f"{name}: expected a time with a time zone, found {limit.isoformat()}")
        return limit
    if isinstance(limit, Mapping):
        return {key: integer(name, offset) for key, offset in limit.items()}
    return None if limit is None else integer(name, limit)


def requested_span(log: PartitionLog, start: Limit, end: Limit) -> OffsetSpan:
    """Return the offsets of a log between two limits, as far as the log has them. It may be empty."""
    held = OffsetSpan(log.local_log_start_offset, log.high_watermark)
    first = min(max(_offset(log, start, held.start_offset), held.start_offset), held.end_offset)
    stop = min(_offset(log, end, held.end_offset), held.end_offset)
    return OffsetSpan(first, max(first, stop))


def _offset(log: PartitionLog, limit: Limit, otherwise: int) -> int:
    if isinstance(limit, datetime):
        found = log.offset_for_timestamp(int(limit.astimezone(UTC).timestamp() * 1000))
        return log.high_watermark if found is None else found
    if isinstance(limit, Mapping):
        return limit.get((log.topic, log.partition), otherwise)
    return otherwise if limit is None else limit
