"""Read the fixed-size entries of an index file."""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.errors import LogTruncatedError
from native_log.segment.health import MISSING, UNREADABLE, IndexHealth, index_health, warn_unreadable
from native_log.storage import LOCAL, DataFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from native_log.storage import KnownFile, Storage

OFFSET_ENTRY = struct.Struct(">ii")
"""relative offset, position"""
TIME_ENTRY = struct.Struct(">qi")
"""timestamp in ms, relative offset"""


@dataclass(frozen=True)
class IndexFile:
    """The entries of an index file, up to the zeros that brokers preallocate.

    An index has no checksum: OffsetIndex and TimeIndex check the entries.
    """

    layout: struct.Struct
    data: bytes
    """The entries, or the last of them, and the bytes of an incomplete entry at the end of the file."""
    count: int
    """Number of whole entries in `data` before the zeros."""
    size_bytes: int | None
    """Size of the file; None if there is no file."""
    is_readable: bool = True

    @classmethod
    def load(
        cls,
        path: str | None,
        layout: struct.Struct,
        storage: Storage = LOCAL,
        at_most: int | None = None,
        known: KnownFile | None = None,
    ) -> IndexFile:
        """Read the index at `path`. It is empty if `path` is None or the file does not exist.

        If the file cannot be read, log a warning and return an empty index that is not readable.

        Args:
            path, storage: the file.
            layout: the layout of an entry.
            at_most: read only so many of the last entries; None: all.
            known: the file as it was listed; None: nothing is known of it.
        """
        try:
            return cls._load(path, layout, storage, at_most, known)
        except LogTruncatedError:  # a broker truncates the file to its entries when it rolls the segment
            return cls._load(path, layout, storage, at_most, None)

    @classmethod
    def _load(
        cls,
        path: str | None,
        layout: struct.Struct,
        storage: Storage,
        at_most: int | None,
        known: KnownFile | None,
    ) -> IndexFile:
        if path is None:
            return cls(layout, b"", 0, None)
        try:
            with storage.open(path, known=known) as file:
                filled = filled_entries(file, layout.size)
                count = filled if at_most is None else min(filled, at_most)
                size = count * layout.size
                if filled == file.size_bytes // layout.size:
                    size += file.size_bytes % layout.size
                # The zeros are not read again: a broker may have written more entries over them.
                data = file.read((filled - count) * layout.size, size)
                return cls(layout, data, count, file.size_bytes)
        except FileNotFoundError:
            return cls(layout, b"", 0, None)
        except OSError as error:
            warn_unreadable(path, error)
            return cls(layout, b"", 0, None, is_readable=False)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, int]:
        first, second = self.layout.unpack_from(self.data, index * self.layout.size)
        return first, second

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        # No list of all entries: the garbage collector would visit its tuples again and again.
        return self.layout.iter_unpack(memoryview(self.data)[: self.count * self.layout.size])

    def valid_entries(self, first: Callable[[Any], bool], follows: Callable[[Any, Any], bool]) -> int:
        """Return how many entries there are before the first invalid one.

        Args:
            first: whether an entry is valid as the first one.
            follows: whether the second of two entries may follow the first.
        """
        entries = iter(self)
        previous = next(entries, None)
        if previous is None or not first(previous):
            return 0
        for number, entry in enumerate(entries, 1):
            if not follows(previous, entry):
                return number
            previous = entry
        return self.count

    def health(self, valid_entries: int) -> IndexHealth:
        """Return the health of the file, whose first `valid_entries` entries are valid."""
        if self.size_bytes is None:
            return MISSING if self.is_readable else UNREADABLE
        rest = self.data[valid_entries * self.layout.size :]
        if len(rest) < self.size_bytes - valid_entries * self.layout.size:
            rest = rest.ljust(self.layout.size, b"\0")  # zeros that were not read
        return index_health(self.size_bytes, self.layout.size, valid_entries, rest)


_BLOCK = 4096
"""How many entries a search for the last one reads at once. Those of an offset index take one request."""


def filled_entries(file: DataFile, entry_bytes: int) -> int:
    """Return how many entries there are before the zeros of a preallocated file.

    A broker preallocates 10 MiB (segment.index.bytes). Most segments use little of it. So the search
    looks at blocks near the beginning first, at distances that double, before it halves what is left.
    """
    entries = file.size_bytes // entry_bytes
    if entries == 0 or any(file.read((entries - 1) * entry_bytes, entry_bytes)):
        return entries
    low, high = 0, (entries - 1) // _BLOCK  # one of these blocks has the first zeros
    number, step = 0, 1
    while True:
        block = file.read(number * _BLOCK * entry_bytes, _BLOCK * entry_bytes)
        filled = _filled(block, entry_bytes)
        if filled == _BLOCK and number < high:
            low = number + 1
        elif filled == 0 and number > low:
            high = number - 1
        else:
            return number * _BLOCK + filled
        number, step = min(low + step - 1, (low + high) // 2), 2 * step


def _filled(block: bytes, entry_bytes: int) -> int:
    """Return how many entries of a block there are before the zeros."""
    whole = range(len(block) // entry_bytes)
    return bisect_left(whole, True, key=lambda i: not any(block[i * entry_bytes : (i + 1) * entry_bytes]))
