"""Times on the command line: ISO 8601 or epoch milliseconds in, ISO 8601 out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


class TimeType(click.ParamType[int]):
    """Epoch milliseconds; a time without a zone is UTC."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_time_ms(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither an ISO 8601 time nor epoch milliseconds", param, ctx)


def parse_time_ms(text: str) -> int:
    """Epoch ms, rounded up: records from a time on are those of this millisecond on. Raises ValueError."""
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return -((_EPOCH - time) // _MILLISECOND)


def format_time_ms(time_ms: int | None) -> str:
    """`2024-02-29T12:30:00.123Z`; `-` for no time (null, or Kafka's -1), the number for what has no date."""
    if time_ms is None or time_ms == -1:
        return "-"
    if not _EARLIEST_MS <= time_ms <= _LATEST_MS:
        return str(time_ms)
    time = _EPOCH + timedelta(milliseconds=time_ms)
    return time.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
