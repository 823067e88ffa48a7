"""Names of the files in a partition directory (Kafka: LogFileUtils)."""

from __future__ import annotations

from typing import NamedTuple

LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT = "log", "index", "timeindex", "txnindex", "snapshot"

CLEANED = "cleaned"
"""Output of an unfinished compaction or split of a segment: worth nothing after a crash."""
SWAP = "swap"
"""Finished output being put in place of the segments it was made from: the truth after a crash."""
DELETED = "deleted"
"""Removed from the log, its file unlinked a minute later (file.delete.delay.ms)."""

_SUFFIXES = {
    f"{kind}.{state}" if state else kind: (kind, state)
    for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
    for state in ("", CLEANED, SWAP, DELETED)
}
MAX_OFFSET = 2**63 - 1


class FileName(NamedTuple):
    """What the name of a file says. A tuple, since log directories have files by the hundred thousand.

    `offset` is the base offset of the segment, a lower bound of the offsets in it; of a snapshot the
    exclusive end of what it tells. `state` is "" or one of CLEANED, SWAP, DELETED.
    """

    name: str
    offset: int
    kind: str
    state: str


def parse_file_name(name: str) -> FileName | None:
    """What `name` says.

    None if it is not a file of a segment. Brokers write 20 digits, any number is read.
    """
    digits, _, suffix = name.partition(".")
    found = _SUFFIXES.get(suffix)
    if found is None or not (digits.isdigit() and digits.isascii()):
        return None
    offset = int(digits)
    return FileName(name, offset, *found) if offset <= MAX_OFFSET else None


def file_name(offset: int, kind: str, state: str = "") -> str:
    """The name a broker gives: at least 20 digits, no grouping."""
    return f"{offset:020d}.{kind}{'.' + state if state else ''}"
