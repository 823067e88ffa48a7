"""The greatest offset of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.compaction import KEY_OVERHEAD_BYTES, MapProgress
from native_log.records.reference.compaction.keys import feed
from native_log.records.reference.compaction.survivors import Survivors, own

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from native_log.records import compaction
    from native_log.records.options import InputOptions
    from native_log.records.results import OffsetOrder


class OffsetMap:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._offsets: dict[bytes, int] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def get(self, key: bytes) -> int | None:
        return self._offsets.get(key)

    def put(self, key: bytes, offset: int) -> bool:
        """Put a key. Return False if it is new and there is no room."""
        if (known := self._offsets.get(key)) is not None:
            self._offsets[key] = max(known, offset)
            return True
        if self._size_bytes + KEY_OVERHEAD_BYTES + len(key) > self._max_bytes:
            return False
        self._offsets[key] = offset
        self._size_bytes += KEY_OVERHEAD_BYTES + len(key)
        return True

    def shadows(self, key: bytes, offset: int) -> bool:
        """Return whether the map has a greater offset of the key (Kafka: Cleaner.shouldRetainRecord)."""
        known = self._offsets.get(key)
        return known is not None and offset < known

    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        return feed(self.put, buffer, options, base_position, order)

    def mark(
        self,
        buffer: Buffer,
        survivors: compaction.Survivors,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        offsets: list[int] = []

        def put(key: bytes, offset: int) -> bool:
            if offset >= 0 and not self.shadows(key, offset):
                offsets.append(offset)
            return True

        progress = feed(put, buffer, options, base_position, order)
        own(survivors).update(offsets)
        return progress

    def survivors(self) -> Survivors:
        return Survivors(offset for offset in self._offsets.values() if offset >= 0)
