"""A record, of any format."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """A record.

    `key`, `value` and header values are bytes or None: null and empty differ. `timestamp` is in epoch ms; -1:
    none. `timestamp_type` is that of RECORD_SCHEMA.
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = -1
