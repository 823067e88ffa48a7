"""Remember where offsets are in the files of a log that grows, so that indexes need not be read again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.segment.lookup import OffsetLocation, SegmentLookup
    from native_log.segment.segment import LogSegment

MAX_LOCATIONS = 8
"""How many locations are kept for each log."""

NEAR_BYTES = 1 << 20
"""Up to this distance, batches are scanned from a known location on, because that costs less than to read an
index."""

_Key = tuple[int, int | str, int]
"""Base offset and inode (or version) of a segment, and the offset."""


class LocationCache:
    """The locations of the offsets that were used last. It holds at most MAX_LOCATIONS."""

    __slots__ = ("_locations",)

    def __init__(self) -> None:
        self._locations: OrderedDict[_Key, OffsetLocation] = OrderedDict()

    def get(self, segment: LogSegment, offset: int) -> OffsetLocation | None:
        """Return the location of an offset in the segment; None if it is not known."""
        return self._locations.get((segment.base_offset, segment.inode, offset))

    def find(
        self, lookup: SegmentLookup, segment: LogSegment, offset: int, end_position: int
    ) -> OffsetLocation:
        """Return the location of an offset and remember it.

        Args:
            lookup: looks up offsets in `segment`.
            segment: the segment that contains `offset`.
            offset: the offset.
            end_position: where the segment's batches end.
        """
        location = self.get(segment, offset)
        if location is None:
            location = lookup.find_offset(offset, self._nearest(segment, offset, end_position))
            # Damaged bytes may turn out to be a batch that was being written.
            if location.straddles or location.position == location.end_position:
                self.add(segment, offset, location)
        return location

    def _nearest(self, segment: LogSegment, offset: int, end_position: int) -> OffsetLocation | None:
        """Return the location of the highest known offset below `offset`, if the way to `offset` is short."""
        base, inode = segment.base_offset, segment.inode
        known = {o: place for (b, i, o), place in self._locations.items() if (b, i) == (base, inode)}
        lower = max((o for o in known if o < offset), default=None)
        if lower is None:
            return None
        stop = min((place.end_position for o, place in known.items() if o > offset), default=end_position)
        return known[lower] if stop - known[lower].position <= NEAR_BYTES else None

    def add(self, segment: LogSegment, offset: int, location: OffsetLocation) -> None:
        """Remember a location, and forget the one that was used longest ago if there are too many."""
        key = (segment.base_offset, segment.inode, offset)
        self._locations[key] = location
        self._locations.move_to_end(key)
        if len(self._locations) > MAX_LOCATIONS:
            self._locations.popitem(last=False)

    def keep(self, segments: Iterable[LogSegment]) -> None:
        """Forget the locations in other segments than these."""
        kept = {(segment.base_offset, segment.inode) for segment in segments}
        for key in [key for key in self._locations if key[:2] not in kept]:
            del self._locations[key]

    def clear(self) -> None:
        """Forget all locations."""
        self._locations.clear()
