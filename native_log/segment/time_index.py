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
    """Entries (timestamp in ms, relative offset): no record up to that offset has a greater timestamp.

    The timestamp is the maximum of the segment so far. The offset is that of the record with this timestamp,
    or of the last record in its batch.
    """

    base_offset: int
    file: IndexFile

    @classmethod
    def load(cls, path: str | None, base_offset: int) -> TimeIndex:
        """Read the index at `path`. It is empty if `path` is None or the file does not exist."""
        return cls(base_offset, IndexFile.load(path, TIME_ENTRY))

    def __len__(self) -> int:
        return len(self.file)

    def entry(self, index: int) -> tuple[int, int]:
        """Return an entry as (timestamp in ms, offset)."""
        timestamp_ms, relative_offset = self.file[index]
        return timestamp_ms, self.base_offset + relative_offset

    def below(self, timestamp_ms: int) -> int:
        """Return the index of the last entry with a lower timestamp; -1 if there is none."""
        return bisect_left(range(len(self)), timestamp_ms, key=lambda i: self.entry(i)[0]) - 1

    def health(self) -> IndexHealth:
        """Check every entry: timestamps strictly increase, offsets never decrease."""
        valid = self.file.valid_entries(
            # Twelve zero bytes are preallocated; timestamp 0 with another offset is an entry.
            lambda entry: entry[0] >= 0 and entry[1] >= 0 and entry != (0, 0),
            lambda previous, entry: previous[0] < entry[0] and previous[1] <= entry[1],
        )
        return self.file.health(valid)
