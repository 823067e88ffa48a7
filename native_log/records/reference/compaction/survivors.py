"""A set of offsets as bitmaps of 2^16 offsets each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.reference.compaction import roaring

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from native_log.records import compaction

BITS = 16
MASK = (1 << BITS) - 1
MOST = 1 << 63


class Survivors:
    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._bitmaps: dict[int, int] = {}
        """Offset >> 16 to an integer: bit n is set if n is the lower 16 bits of an offset. No integer is
        0."""
        self.update(offsets)

    @classmethod
    def _of(cls, bitmaps: dict[int, int]) -> Survivors:
        survivors = cls()
        survivors._bitmaps = {high: bits for high, bits in bitmaps.items() if bits}
        return survivors

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int) or not 0 <= offset < MOST:
            return False
        return bool(self._bitmaps.get(offset >> BITS, 0) >> (offset & MASK) & 1)

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self._bitmaps.values())

    def __iter__(self) -> Iterator[int]:
        for high in sorted(self._bitmaps):
            for low in roaring.ones(self._bitmaps[high]):
                yield high << BITS | low

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Survivors) and self._bitmaps == other._bitmaps

    __hash__ = None  # type: ignore[assignment]  # mutable

    def update(self, offsets: Iterable[int]) -> None:
        added: dict[int, bytearray] = {}
        for offset in offsets:
            if not 0 <= offset < MOST:
                raise ValueError(f"expected an offset from 0 to 2^63 - 1, found {offset}")
            bits = added.setdefault(offset >> BITS, bytearray(roaring.BITMAP_BYTES))
            bits[(offset & MASK) >> 3] |= 1 << (offset & 7)
        for high, bits in added.items():
            self._bitmaps[high] = self._bitmaps.get(high, 0) | int.from_bytes(bits, "little")

    def add_many(self, offsets: Buffer) -> None:
        data = memoryview(offsets).cast("B")
        if len(data) % 8:
            raise ValueError(f"expected offsets of 8 bytes, found {len(data)} bytes")
        self.update(data.cast("q"))

    def add_range(self, start_offset: int, end_offset: int) -> None:
        self._bitmaps = self.union(self._range(start_offset, end_offset))._bitmaps

    def between(self, start_offset: int, end_offset: int) -> Survivors:
        return self._of(
            {
                high: bits & within(high, start_offset, end_offset)
                for high, bits in self._bitmaps.items()
                if start_offset >> BITS <= high <= end_offset >> BITS
            }
        )

    def has_any(self, first_offset: int, last_offset: int) -> bool:
        """Return whether there is an offset in [first_offset, last_offset]."""
        first, last = first_offset >> BITS, last_offset >> BITS
        span = range(first, last + 1) if last - first < len(self._bitmaps) else self._bitmaps
        return any(self._bitmaps.get(high, 0) & within(high, first_offset, last_offset + 1) for high in span)

    def union(self, *others: compaction.Survivors) -> Survivors:
        bitmaps = dict(self._bitmaps)
        for other in others:
            for high, bits in own(other)._bitmaps.items():
                bitmaps[high] = bitmaps.get(high, 0) | bits
        return self._of(bitmaps)

    def difference(self, other: compaction.Survivors) -> Survivors:
        without = own(other)._bitmaps
        return self._of({high: bits & ~without.get(high, 0) for high, bits in self._bitmaps.items()})

    def to_bytes(self) -> bytes:
        return roaring.to_bytes(self._bitmaps)

    @classmethod
    def from_bytes(cls, data: Buffer) -> Survivors:
        return cls._of(roaring.from_bytes(memoryview(data).cast("B")))

    @classmethod
    def _range(cls, start_offset: int, end_offset: int) -> Survivors:
        if start_offset < 0 or end_offset > MOST:
            raise ValueError(f"expected offsets from 0 to 2^63 - 1, found [{start_offset}, {end_offset})")
        if end_offset <= start_offset:
            return cls()
        highs = range(start_offset >> BITS, (end_offset - 1 >> BITS) + 1)
        return cls._of({high: within(high, start_offset, end_offset) for high in highs})


def within(high: int, start_offset: int, end_offset: int) -> int:
    """Return the bits of [start_offset, end_offset) in the bitmap `high`."""
    low = max(start_offset - (high << BITS), 0)
    until = min(end_offset - (high << BITS), 1 << BITS)
    return (1 << until) - (1 << low) if low < until else 0


def own(survivors: compaction.Survivors) -> Survivors:
    if not isinstance(survivors, Survivors):
        raise TypeError(f"expected Survivors of the reference implementation, found {type(survivors)}")
    return survivors
