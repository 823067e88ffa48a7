"""The record-level part of compaction: find the newest record of each key, and rewrite batches without the
others.

This module holds the interface. Like the rest of the package it has two implementations with the same
results; the classes of both have the methods of the protocols below. Decisions about whole batches
(transactions, retention, which segments) belong to `native_log.compaction`.

A compaction round over one partition:

1. Dirty part, from the first dirty offset on: `OffsetMap.put_batches` maps each key to its greatest offset,
   until the end or until the map is full.
2. `OffsetMap.survivors` returns these offsets as a bitmap. `OffsetMap.mark` then reads the clean part and
   adds the offsets of records whose keys are not in the map.
3. All parts: `rewrite` writes the batches without the records that do not survive.

Distributed, steps 1 and 2 run over splits: `KeyBuckets` writes keys and offsets to packs, one for each bucket
of keys; `merge` computes the survivors of all packs of one bucket. The union of the survivors of all buckets
is the result of step 2.

Kafka: Cleaner.buildOffsetMap, Cleaner.shouldRetainRecord, MemoryRecords.filterTo; KIP-534.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Protocol, Self

from native_log.records.options import expect
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from typing_extensions import Buffer

    from native_log.records.options import InputOptions
    from native_log.records.results import Damage, OffsetOrder

KEY_OVERHEAD_BYTES = 40
"""Bytes of an OffsetMap for each key, in addition to the key itself: the maximum share of its table and its
entries, also while the table grows."""


class Verdict(IntFlag):
    """What `rewrite` does with one batch: flags that can be combined; one byte for each batch.

    | batch | verdict |
    |---|---|
    | data | FILTER |
    | data of an aborted transaction | DISCARD |
    | the last batch of its producer, or of the round | RETAIN_EMPTY and one of the above |
    | control batch that is still needed | FILTER (keeps all its records) |
    | control batch whose transaction has no data left, delete horizon not set or not reached | SET_HORIZON |
    | control batch whose transaction has no data left, delete horizon reached | DISCARD |
    """

    FILTER = 0
    """Keep the records that survive; of a control batch, keep all. If none is kept, write nothing."""
    DISCARD = 1
    """Keep no record. The batch is not decompressed, and its CRC is not checked."""
    RETAIN_EMPTY = 2
    """If no record is kept, write the batch's header alone, because its offsets and its producer's state are
    still needed. (Magic 0 and 1 have no empty batches: nothing is written.)"""
    SET_HORIZON = 4
    """Set the batch's delete horizon to `delete_horizon_ms` if it has none, as for a batch with a
    tombstone."""


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """Options of `rewrite` and `rewrite_file`.

    Raises:
        ValueError: a negative delete_horizon_ms.
    """

    survivors: Survivors
    """Offsets below survivors_end that are kept. Null keys are not checked here: their offsets must not be in
    this set."""
    survivors_end: int
    """Records from this offset on are all kept (Kafka: OffsetMap.latestOffset + 1)."""
    now_ms: int
    """Epoch ms: the time of the compaction round."""
    delete_horizon_ms: int | None
    """Epoch ms: the delete horizon of batches with new tombstones, now + delete.retention.ms. None: set no
    delete horizon."""
    legacy_tombstones_kept: bool = True
    """Whether tombstones of magic 0 and 1, which have no delete horizon, are still needed."""
    nulled: Survivors | None = None
    """Offsets of records that lose their value and headers if they are kept (erasure)."""
    check_crcs: bool = True
    """As in InputOptions; batches dropped by their headers are not checked. Without the check, a damaged
    batch may be rewritten with a correct CRC."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """As in InputOptions."""

    def __post_init__(self) -> None:
        horizon = self.delete_horizon_ms
        expect(horizon is None or horizon >= 0, "a delete_horizon_ms of 0 or more", horizon)


@dataclass(frozen=True, slots=True)
class MapProgress:
    """Result of one call of `put_batches` or `mark`."""

    status: str
    """"end": the buffer is used up; "partial": the batch at `position` continues beyond the buffer; "full":
    the batch at `position` has a key for which there is no room; "zeros": there are only zero bytes from
    `position` on; "damaged": see `damage`."""
    position: int
    """First byte not used, where the next call starts. Beyond the buffer's end if a batch was skipped by its
    header. With "full": the first byte of the batch in which the map became full. Its records before
    `next_offset` are in the map; another map can start there with start_offset=next_offset."""
    next_offset: int | None
    """The map is complete for [start_offset, next_offset). It is the last offset + 1 of the last batch used
    or skipped, but not beyond end_offset; with "full", it is the offset after the last record put, if that is
    greater. None if there was neither. Compaction uses it as survivors_end and as the next first dirty
    offset."""
    needed_bytes: int
    """With "partial": the number of bytes from `position` on that the next call needs. Else 0."""
    damage: Damage | None
    records: int
    """Number of records read: the records of data batches in the offset range, without aborted ones."""
    null_keys: int
    """How many of these records have no key. Compaction drops them."""


@dataclass(frozen=True, slots=True)
class RewriteStats:
    """What `rewrite` read and kept. All fields are sums: `+` adds the statistics of several calls."""

    batches_read: int = 0
    batches_kept: int = 0
    """Batches written with records, changed or not."""
    batches_copied: int = 0
    """Batches among those kept that were copied byte for byte."""
    batches_emptied: int = 0
    """Batches written as a header alone."""
    records_read: int = 0
    """For batches dropped by their headers, the record count of the header (a wrapper of magic 0 or 1 counts
    0)."""
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0
    tombstones_kept: int = 0
    tombstones_dropped: int = 0
    """Tombstones that are the newest record of their key and are no longer needed. (Older tombstones are
    records that do not survive.)"""
    horizons_set: int = 0
    """Batches that got a delete horizon."""

    def __add__(self, other: RewriteStats) -> RewriteStats:
        return RewriteStats(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Result of one call of `rewrite` or `rewrite_file`."""

    data: memoryview
    """The batches written."""
    batches: pa.RecordBatch
    """BATCH_SCHEMA, one row for each batch written: the result of `scan(data)` with `isValid` true. Positions
    are those in `data`."""
    status: str
    """"end", "partial", "zeros" or "damaged" as in Decoded; "limit": the verdicts are used up; for
    `rewrite_file`, see there."""
    position: int
    """First byte of the input not used, where the next call starts. Beyond the buffer's end if a batch was
    dropped by its header."""
    next_offset: int | None
    """Last offset + 1 of the last batch read; None if there was none."""
    needed_bytes: int
    """As in Decoded."""
    damage: Damage | None
    stats: RewriteStats


class Survivors(Protocol):
    """A set of offsets (0 to 2^63 - 1), as a compressed bitmap: about two bits per offset where they are
    dense, two bytes where they are not."""

    def __contains__(self, offset: object, /) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]:
        """Iterate in ascending order."""

    def add_many(self, offsets: Buffer) -> None:
        """Add native int64 values, such as a NumPy array.

        Raises:
            ValueError: the size is not a multiple of 8 bytes, or an offset is negative. Nothing is added.
        """

    def add_range(self, start_offset: int, end_offset: int) -> None:
        """Add [start_offset, end_offset). Raise ValueError for offsets below 0 or above 2^63 - 1."""

    def between(self, start_offset: int, end_offset: int) -> Self:
        """Return the offsets in [start_offset, end_offset)."""

    def union(self, *others: Self) -> Self: ...

    def difference(self, other: Self) -> Self: ...

    def to_bytes(self) -> bytes:
        """Return the portable 64-bit format of RoaringFormatSpec, which CRoaring's Roaring64Map, Java's
        Roaring64NavigableMap (portable) and pyroaring's BitMap64 read."""

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Raise ValueError if `data` is not such a bitmap."""


class BatchHeaders(Protocol):
    """Headers of batches, collected over several buffers and returned as one RecordBatch.

    One large RecordBatch is cheaper than many of a few rows.
    """

    def __len__(self) -> int:
        """Return the number of batches collected and not yet taken."""

    def add(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        end: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        """Collect the rows of `scan(buffer, base_position=base_position)`. Its status is not returned.

        Args:
            end: a position in the file. Collect only batches that start before it. None: collect all.
        """

    @property
    def has_transactions(self) -> bool:
        """Whether a batch not yet taken is transactional or a control batch."""

    @property
    def last_offsets(self) -> tuple[int, int] | None:
        """The least and the greatest last offset of the batches not yet taken; None if there are none."""

    def take(self) -> pa.RecordBatch:
        """Return one row (BATCH_SCHEMA) for each batch collected since the last call, in their order."""


class PutBatches(Protocol):
    """The signature of `put_batches`, and of `mark` with its survivors bound."""

    def __call__(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int,
        order: OffsetOrder | None,
    ) -> MapProgress: ...


class OffsetMap(Protocol):
    """The greatest offset of each key, in bounded memory. `OffsetMap(max_bytes)` creates one.

    Exact: it stores the keys themselves, where a broker stores their MD5 (Kafka: SkimpyOffsetMap). The map is
    full when a new key would take `size_bytes` beyond `max_bytes`; the offset of a known key can always
    increase.
    """

    def __len__(self) -> int:
        """Return the number of distinct keys."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the keys, and KEY_OVERHEAD_BYTES for each."""

    def get(self, key: bytes) -> int | None:
        """Return the greatest offset of a key, or None."""

    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        """Put the records of the batches in `buffer` that have keys. Control batches and aborted transactions
        are skipped.

        Stop before the first record whose key is new and has no room, even in the middle of a batch. (If the
        map is full and empty, one key alone takes more than max_bytes.) Put nothing of a damaged batch.

        Args:
            buffer: bytes of a .log file, from the beginning of a batch.
            options: its offset range is the dirty part.
            base_position, order: as for `decode`.

        Raises:
            ValueError: `options.aborted` is not a sequence of triples.
        """

    def mark(
        self,
        buffer: Buffer,
        survivors: Survivors,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        """Add to `survivors` the records of the clean part that have a key and for whose key the map has no
        greater offset.

        Args:
            survivors: changed in place. It must belong to the same implementation as this map.
            options: its end_offset is the first dirty offset.
            buffer, base_position, order: as for `put_batches`. The status is never "full".

        Raises:
            TypeError: survivors of the other implementation.
            ValueError: as for `put_batches`.
        """

    def survivors(self) -> Survivors:
        """Return the offsets in the map. Needs 8 bytes of memory for each key meanwhile."""


class KeyBuckets(Protocol):
    """Keys and offsets of a part of a log, packed in buckets by key, to be merged elsewhere (see `merge`).

    `KeyBuckets(count, max_bytes, dirty=...)` creates one:

    - count: number of buckets, 1 to 65536; ValueError otherwise.
    - max_bytes: the most bytes that the packs take together. Up to a quarter more is allocated, and the rest
      of a memory page for each pack.
    - dirty: whether the offsets belong to the dirty part.

    In the dirty part only the greatest offset of a key counts. When the buckets are full or taken, the other
    entries are removed if that halves the number of entries. (Where keys rarely repeat, all entries stay:
    finding duplicates would cost more than it saves.) In the clean part every offset counts. `merge` finds
    the same survivors either way.

    A process keeps the memory of its last buckets, up to 128 MiB, for the next ones.
    """

    def __len__(self) -> int:
        """Return the number of entries: at least one for each key."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the packs."""

    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        """Put records like OffsetMap.put_batches. The status "full" means that an entry would take
        `size_bytes` beyond `max_bytes`: take the packs, and continue at start_offset=next_offset."""

    def take(self) -> list[Buffer]:
        """Return the packs, one for each bucket, and remove them from this object.

        The packs are not copied: their memory is reused when none of them is referenced any more. A bucket
        without keys is a pack of zero bytes. A key belongs to the same bucket in every process. A pack, with
        little-endian integers:

        | type | field |
        |---|---|
        | u8 | version, 2 |
        | u8 | kind: 0 dirty (only the greatest offset of a key counts), 1 clean (every offset counts) |
        | i64 | number of entries |
        | i64 | base: offset of the first record put |
        | | entries |

        An entry is short. It is long if its key has 255 bytes or more, or if its offset is not in
        [base, base + 2^32).

        | type | field of a short entry | type | field of a long entry |
        |---|---|---|---|
        | u8 | length of the key, up to 254 | u8 | 255 |
        | u32 | offset - base | u32 | length of the key |
        | | key | i64 | offset |
        | | | | key |

        The bucket of a key is hash * count >> 64. The hash starts as the length of the key. Each 8 bytes of
        the key, as a u64, change it to mix(hash ^ word). If bytes are left, the last 8 bytes of the key are
        mixed in too (a shorter key is padded with zeros at its end). mix(x) is the lower half xor the upper
        half of the 128 bits of x * 0x9e3779b97f4a7c15.
        """
