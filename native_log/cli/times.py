"""Parse times in ISO 8601, in epoch milliseconds or relative to now."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from native_log.system import current_ms
from native_log.times import EPOCH, MILLISECOND, to_time_ms

_MIN_LONG, _MAX_LONG = -(2**63), 2**63 - 1
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class TimeType(click.ParamType):
    """A time as epoch milliseconds. Without a time zone it is UTC. `-1h30m` is 1.5 hours before now."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            time_ms = parse_time_ms(str(value), current_ms())
        except (ValueError, OverflowError):
            expected = "an ISO 8601 time, epoch milliseconds, or a time before now such as -1h"
            self.fail(f"expected {expected}, found {value!r}", param, ctx)
        if not _MIN_LONG <= time_ms <= _MAX_LONG:
            self.fail(f"expected epoch milliseconds of 64 bits, found {value}", param, ctx)
        if str(value).isdecimal():
            try:
                return to_time_ms("time", time_ms)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return time_ms


def parse_time_ms(text: str, now_ms: int) -> int:
    """Return epoch milliseconds, rounded up, because records have no finer timestamps.

    Raises:
        ValueError: the text is not a time.
        OverflowError: the time is too long before now.
    """
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"-([0-9]+[smhdw])+", text):
        parts = re.findall(r"([0-9]+)([smhdw])", text)
        return now_ms - sum(int(count) * _UNITS_MS[unit] for count, unit in parts)
    return -((EPOCH - parse_iso_time(text)) // MILLISECOND)


def parse_iso_time(text: str) -> datetime:
    """Return an ISO 8601 time. Without a time zone it is UTC. Raises ValueError."""
    when = datetime.fromisoformat(text)
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when
