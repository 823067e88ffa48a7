"""Names of the files in a partition directory (Kafka: LogFileUtils)."""

from __future__ import annotations

import re
from dataclasses import dataclass

LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT = "log", "index", "timeindex", "txnindex", "snapshot"

CLEANED = "cleaned"
"""Output of an unfinished compaction or split of a segment: worth nothing after a crash."""
SWAP = "swap"
"""Finished output being put in place of the segments it was made from: the truth after a crash."""
DELETED = "deleted"
"""Removed from the log, its file unlinked a minute later (file.delete.delay.ms)."""

_NAME = re.compile(r"([0-9]+)\.(log|index|timeindex|txnindex|snapshot)(?:\.(cleaned|swap|deleted))?")
MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FileName:
    """What the name of a file says.

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
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    offset = int(match[1])
    return FileName(name, offset, match[2], match[3] or "") if offset <= MAX_OFFSET else None


def file_name(offset: int, kind: str, state: str = "") -> str:
    """The name a broker gives: at least 20 digits, no grouping."""
    return f"{offset:020d}.{kind}{'.' + state if state else ''}"
