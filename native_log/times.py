"""Format times in ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LATEST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
"""The last time that Python has a date for, in epoch ms."""
_EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MILLISECOND


def format_time_ms(time_ms: int | None) -> str:
    """Format a time as `2024-02-29T12:30:00.123Z`.

    Return `-` for no time (None, or Kafka's -1), and the number for a time that Python has no date for.
    """
    if time_ms is None or time_ms == -1:
        return "-"
    if not _EARLIEST_MS <= time_ms <= LATEST_MS:
        return str(time_ms)
    when = EPOCH + timedelta(milliseconds=time_ms)
    return when.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
