"""Keys and offsets in packs, one for each bucket of keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.records.reference.compaction.keys import feed
from native_log.records.reference.compaction.packs import (
    CLEAN,
    DIRTY,
    HEADER,
    MAX_BUCKETS,
    bucket_of,
    entry,
    pack,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from native_log.records.compaction import MapProgress
    from native_log.records.options import InputOptions
    from native_log.records.results import OffsetOrder


@dataclass(slots=True)
class Bucket:
    base: int = 0
    entries: list[tuple[bytes, int]] = field(default_factory=list)
    size_bytes: int = 0

    def grows_by(self, key: bytes, offset: int) -> int:
        if not self.entries:
            return HEADER.size + len(entry(offset, key, offset))
        return len(entry(self.base, key, offset))

    def put(self, key: bytes, offset: int) -> None:
        self.size_bytes += self.grows_by(key, offset)
        if not self.entries:
            self.base = offset
        self.entries.append((key, offset))

    def deduplicate(self) -> None:
        """Remove all but the greatest offset of each key. Keep the order of the keys."""
        newest: dict[bytes, int] = {}
        for key, offset in self.entries:
            newest[key] = max(offset, newest.get(key, offset))
        self.entries = list(newest.items())
        self.size_bytes = sum((len(entry(self.base, *fields)) for fields in self.entries), start=HEADER.size)


class KeyBuckets:
    def __init__(self, count: int, max_bytes: int, *, dirty: bool) -> None:
        if not 1 <= count <= MAX_BUCKETS:
            raise ValueError(f"expected 1 to {MAX_BUCKETS} buckets, found {count}")
        self._kind = DIRTY if dirty else CLEAN
        self._max_bytes = max_bytes
        self._buckets = [Bucket() for _ in range(count)]
        self._size_bytes = 0

    def __len__(self) -> int:
        return sum(len(bucket.entries) for bucket in self._buckets)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def put(self, key: bytes, offset: int) -> bool:
        """Put an entry. Return False if there is no room."""
        bucket = self._buckets[bucket_of(key, len(self._buckets))]
        grows_by = bucket.grows_by(key, offset)
        if self._size_bytes + grows_by > self._max_bytes:
            return self._deduplicate() and self.put(key, offset)
        bucket.put(key, offset)
        self._size_bytes += grows_by
        return True

    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        return feed(self.put, buffer, options, base_position, order)

    def take(self) -> list[Buffer]:
        self._deduplicate()
        taken: list[Buffer] = [
            pack(self._kind, bucket.base, bucket.entries) if bucket.entries else b""
            for bucket in self._buckets
        ]
        self._buckets = [Bucket() for _ in taken]
        self._size_bytes = 0
        return taken

    def _deduplicate(self) -> bool:
        """Remove all but the greatest offset of each key if that halves the entries. Return whether it does.

        Only the fullest bucket is tried: a hash distributes the keys, so that the other buckets behave alike.
        """
        fullest = max(self._buckets, key=lambda bucket: bucket.size_bytes)
        if self._kind == CLEAN or not fullest.entries:
            return False
        before = len(fullest.entries)
        fullest.deduplicate()
        halved = len(fullest.entries) <= before // 2
        if halved:
            for bucket in self._buckets:
                if bucket.entries:
                    bucket.deduplicate()
        self._size_bytes = sum(bucket.size_bytes for bucket in self._buckets)
        return halved
