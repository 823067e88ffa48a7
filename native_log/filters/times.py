"""Times and time zones as text, as Spark SQL reads them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from native_log.filters.errors import FilterError

_TIME = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})"
    r"(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?\s*(?P<zone>[A-Za-z+-]\S*)?)?)?)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d\d?)(?:(?::|(?<=\d\d))(?P<minutes>\d\d)(?::?(?P<seconds>\d\d))?)?",
    re.ASCII,
)
_LARGEST_OFFSET = timedelta(hours=18)


def parse_time(text: str, zone: tzinfo) -> datetime:
    """Return the time that a string means, as CAST(... AS TIMESTAMP) does in Spark. Raises FilterError.

    A local time that occurs twice means the first occurrence; one that does not exist is moved forward.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise _malformed(text)
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    microsecond = int((found["fraction"] or "").ljust(6, "0")[:6])
    if found["zone"] is not None:
        zone = parse_zone(found["zone"])
    try:
        return datetime(year, month, day, hour, minute, second, microsecond, tzinfo=zone)
    except ValueError:
        raise _malformed(text) from None


def _malformed(text: str) -> FilterError:
    return FilterError(
        f"expected a time such as '2026-11-01 12:00:00' or '2026-11-01T12:00:00Z', found {text!r}"
    )


def parse_zone(name: str) -> tzinfo:
    """Return a time zone: Europe/Rome, UTC, +02:00. Raises FilterError."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes, seconds = (int(offset[part] or 0) for part in ("hours", "minutes", "seconds"))
        distance = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if max(minutes, seconds) < 60 and distance <= _LARGEST_OFFSET:
            return timezone(distance if offset["sign"] == "+" else -distance)
    try:
        return ZoneInfo("UTC" if name == "Z" else name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError for a folder of zones, as in Europe
        raise FilterError(f"expected a time zone such as Europe/Rome, found {name!r}") from None
