"""The sparse offset index of a segment, `.index` (Kafka: OffsetIndex)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.entries import OFFSET_ENTRY, IndexFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.segment.health import IndexHealth

MAX_RELATIVE_OFFSET = 2**31 - 1
"""How far above its segment's base offset a record's offset can be: an entry has 32 bits for it."""


@dataclass(frozen=True)
class OffsetIndex:
    """Entries (relative offset, position): every batch before `position` has a last offset below the entry's.

    This holds in all three generations of entry that brokers wrote: the first offset of an append call (up to
    1.1), the last of one (to 4.0), the last of the batch at `position` (since, and wherever an index was
    rebuilt). An entry is a hint until the batch at its position was looked at (see lookup.py).
    """

    base_offset: int
    file: IndexFile

    @classmethod
    def load(cls, path: str | None, base_offset: int) -> OffsetIndex:
        """Read the index at `path`; one without entries if `path` is None or there is no such file."""
        return cls(base_offset, IndexFile.load(path, OFFSET_ENTRY))

    def __len__(self) -> int:
        return len(self.file)

    def entry(self, index: int) -> tuple[int, int]:
        """(offset, position)"""
        relative_offset, position = self.file[index]
        return self.base_offset + relative_offset, position

    def floor(self, offset: int) -> int:
        """Index of the last entry whose offset is at most `offset`; -1 if none is."""
        return bisect_right(range(len(self)), offset, key=lambda i: self.entry(i)[0]) - 1

    def floor_of_position(self, position: int) -> int:
        """Index of the last entry whose position is at most `position`; -1 if none is."""
        return bisect_right(range(len(self)), position, key=lambda i: self.entry(i)[1]) - 1

    def health(self, log_size_bytes: int) -> IndexHealth:
        """What can be believed of the file. Reads every entry.

        Offsets and positions strictly increase, no position is 0 or behind the .log's end.
        """
        valid = self.file.valid_entries(
            lambda entry: entry[0] >= 0 and 0 < entry[1] < log_size_bytes,
            lambda one, other: one[0] < other[0] and one[1] < other[1] < log_size_bytes,
        )
        return self.file.health(valid)


@dataclass(frozen=True, slots=True)
class RebuiltOffsetIndex:
    """An offset index made from the log itself, as a broker's recovery makes it, where the file cannot be
    believed.
    """

    offsets: Sequence[int]
    positions: Sequence[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def entry(self, index: int) -> tuple[int, int]:
        return self.offsets[index], self.positions[index]

    def floor(self, offset: int) -> int:
        return bisect_right(self.offsets, offset) - 1

    def floor_of_position(self, position: int) -> int:
        return bisect_right(self.positions, position) - 1
