"""Format times in ISO 8601."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from numbers import Real

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LATEST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
"""The last time that Python has a date for, in epoch ms."""
_EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MILLISECOND

LIKELY_SECONDS = range(10**8, 10**11)
"""In milliseconds these numbers are times from 1970 to 1973, in seconds times after 1973."""

TimeLike = datetime | int | float
"""A time (UTC if it has no time zone), or epoch ms."""


def to_time_ms(name: str, time: TimeLike) -> int:
    """Return a time as epoch ms, rounded up, because records have no finer timestamps.

    Args:
        name: of the argument, for errors.
        time: a datetime, in UTC if it has no time zone; or epoch ms.

    Raises:
        TypeError: it is neither.
        ValueError: it is a number of seconds.
    """
    if isinstance(time, datetime):
        when = time.replace(tzinfo=UTC) if time.tzinfo is None else time
        return -((EPOCH - when) // MILLISECOND)
    if isinstance(time, bool) or not isinstance(time, Real):
        raise TypeError(f"{name}: expected a datetime or milliseconds since 1970, found {time!r}")
    if int(time) in LIKELY_SECONDS:
        found = f"{time}, which is {format_time_ms(int(time))} in milliseconds"
        raise ValueError(
            f"{name}: expected milliseconds since 1970, found {found}; for seconds, write {int(time)}000"
        )
    return -(int(-time) if isinstance(time, int) else math.floor(-time))


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
