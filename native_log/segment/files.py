"""Names of the files of segments (Kafka: LogFileUtils)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT = "log", "index", "timeindex", "txnindex", "snapshot"

CLEANED = "cleaned"
"""Output of an unfinished compaction or split of a segment: discarded after a crash."""
SWAP = "swap"
"""Finished output that replaces the segments it was made from: completed after a crash."""
DELETED = "deleted"
"""Removed from the log. A broker unlinks the file a minute later (file.delete.delay.ms)."""

_SUFFIXES = {
    f"{kind}.{state}" if state else kind: (kind, state)
    for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
    for state in ("", CLEANED, SWAP, DELETED)
}
MAX_OFFSET = 2**63 - 1
MAX_SEGMENT_BYTES = 2**31 - 1
"""Positions in index files have 32 bits."""


class FileName(NamedTuple):
    """The parts of a file name. A tuple, since a log directory can have a hundred thousand files.

    `offset` is the base offset of the segment, a lower bound of the offsets in it. For a snapshot it is the
    offset after the last record that the snapshot covers. `state` is "" or one of CLEANED, SWAP, DELETED.
    """

    name: str
    offset: int
    kind: str
    state: str


@lru_cache(maxsize=4096)  # many partitions have files of the same names
def parse_file_name(name: str) -> FileName | None:
    """Return the parts of a file name; None if it is not the name of a segment's file.

    Brokers write 20 digits; any number of digits is accepted.
    """
    digits, _, suffix = name.partition(".")
    kind_and_state = _SUFFIXES.get(suffix)
    if kind_and_state is None or not (digits.isdigit() and digits.isascii()):
        return None
    offset = int(digits)
    return FileName(name, offset, *kind_and_state) if offset <= MAX_OFFSET else None


def file_name(offset: int, kind: str, state: str = "") -> str:
    """Return the name that a broker gives to the file: at least 20 digits, without grouping."""
    return f"{offset:020d}.{kind}{'.' + state if state else ''}"
