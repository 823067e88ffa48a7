"""The sparse offset index of a segment, `.index` (Kafka: OffsetIndex)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.entries import OFFSET_ENTRY, IndexFile
from native_log.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.segment.health import IndexHealth
    from native_log.storage import KnownFile, Storage

MAX_RELATIVE_OFFSET = 2**31 - 1
"""The maximum distance between an offset and the base offset of its segment: an index entry has 32 bits."""


@dataclass(frozen=True)
class OffsetIndex:
    """Entries (relative offset, position): all batches before `position` have lower offsets than the entry.

    This is true for the offsets of all broker versions: the first offset of an append call (up to 1.1), the
    last offset of an append call (up to 4.0), and the last offset of the batch at `position` (later versions,
    and every rebuilt index). Do not rely on an entry before you have read the batch at its position (see
    lookup.py).
    """

    base_offset: int
    file: IndexFile

    @classmethod
    def load(
        cls,
        path: str | None,
        base_offset: int,
        storage: Storage = LOCAL,
        at_most: int | None = None,
        known: KnownFile | None = None,
    ) -> OffsetIndex:
        """Read the index at `path`. It is empty if `path` is None or the file does not exist.

        Args:
            path, storage: the file.
            base_offset: of the segment.
            at_most: read only so many of the last entries; None: all.
            known: the file as it was listed; None: nothing is known of it.
        """
        return cls(base_offset, IndexFile.load(path, OFFSET_ENTRY, storage, at_most, known))

    def __len__(self) -> int:
        return len(self.file)

    def entry(self, index: int) -> tuple[int, int]:
        """Return an entry as (offset, position)."""
        relative_offset, position = self.file[index]
        return self.base_offset + relative_offset, position

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the entries as (offset, position)."""
        return ((self.base_offset + relative_offset, position) for relative_offset, position in self.file)

    def floor(self, offset: int) -> int:
        """Return the index of the last entry with an offset of at most `offset`; -1 if there is none."""
        return bisect_right(range(len(self)), offset, key=lambda i: self.entry(i)[0]) - 1

    def floor_of_position(self, position: int) -> int:
        """Return the index of the last entry with a position of at most `position`; -1 if there is none."""
        return bisect_right(range(len(self)), position, key=lambda i: self.entry(i)[1]) - 1

    def health(self, log_size_bytes: int) -> IndexHealth:
        """Check every entry.

        Offsets and positions strictly increase. No position is 0 or at or after the end of the .log file.
        """
        valid = self.file.valid_entries(
            lambda entry: entry[0] >= 0 and 0 < entry[1] < log_size_bytes,
            lambda previous, entry: previous[0] < entry[0] and previous[1] < entry[1] < log_size_bytes,
        )
        return self.file.health(valid)


@dataclass(frozen=True, slots=True)
class RebuiltOffsetIndex:
    """An offset index rebuilt from the batches, as by a broker's recovery, because the file is not valid.

    Attributes:
        offsets, positions: the entries, both in ascending order.
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
