"""Times and time zones as text, as Spark SQL reads them."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from native_log.filters.errors import FilterError


def parse_time(text: str, zone: tzinfo) -> datetime:
    """Return the time that a string means, as CAST(... AS TIMESTAMP) does in Spark. Raises FilterError.

    A local time that occurs twice means the first occurrence; one that does not exist is moved forward.
    """
    complete = text.strip()
    if re.fullmatch(r"\d{4}(-\d{1,2}){0,2}", complete):
        year, month, day = (*map(int, complete.split("-")), 1, 1)[:3]
        complete = f"{year:04}-{month:02}-{day:02}"
    named = re.fullmatch(r"(.*\d)\s*([A-Za-z]+(?:/[A-Za-z_+-]+)*)", complete)
    if named is not None and named[2] != "Z":
        complete, zone = named[1], parse_zone(named[2])
    try:
        time = datetime.fromisoformat(complete)
    except ValueError:
        raise FilterError(f"expected a time such as '2026-11-01 12:00:00', found {text!r}") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=zone)


def parse_zone(name: str) -> tzinfo:
    """Return a time zone: Europe/Rome, UTC, +02:00. Raises FilterError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        offset = re.fullmatch(r"(?:UTC|GMT)?([+-]\d{2}:\d{2})", name)
        if offset is not None:
            zone = datetime.fromisoformat(f"2000-01-01T00:00:00{offset[1]}").tzinfo
            assert zone is not None
            return zone
        raise FilterError(f"expected a time zone such as Europe/Rome, found {name!r}") from None
