"""One record, whatever the format it was written in."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """`key`, `value` and header values are None or bytes (null and empty differ); `timestamp` in ms, -1 for
    none."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = -1
