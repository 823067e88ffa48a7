"""The sparse time index of a segment, `.timeindex` (Kafka: TimeIndex)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.entries import TIME_ENTRY, IndexFile

if TYPE_CHECKING:
    from native_log.segment.health import IndexHealth


@dataclass(frozen=True)
class TimeIndex:
    """Entries (timestamp in ms, relative offset): no record of the segment up to that offset has a greater
    timestamp.

    The timestamp is the greatest so far, and the offset that of a record or of the last record of the batch
    that has it.
    """

    base_offset: int
    file: IndexFile

    @classmethod
    def load(cls, path: str | None, base_offset: int) -> TimeIndex:
        """Read the index at `path`; one without entries if `path` is None or there is no such file."""
        return cls(base_offset, IndexFile.load(path, TIME_ENTRY))

    def __len__(self) -> int:
        return len(self.file)

    def entry(self, index: int) -> tuple[int, int]:
        """(timestamp in ms, offset)"""
        timestamp_ms, relative_offset = self.file[index]
        return timestamp_ms, self.base_offset + relative_offset

    def below(self, timestamp_ms: int) -> int:
        """Index of the last entry with a lesser timestamp; -1 if there is none."""
        return bisect_left(range(len(self)), timestamp_ms, key=lambda i: self.entry(i)[0]) - 1

    def health(self) -> IndexHealth:
        """Reads every entry: timestamps strictly increase, offsets never decrease."""
        valid = self.file.valid_entries(
            # Twelve zero bytes are an empty file; timestamp 0 with a real offset is an entry.
            lambda entry: entry[0] >= 0 and entry[1] >= 0 and entry != (0, 0),
            lambda one, other: one[0] < other[0] and one[1] <= other[1],
        )
        return self.file.health(valid)
