"""What compaction does to bytes: which record of each key is the newest, and logs without the others.

The work on records is here, in two implementations of one behaviour like the rest of this package. What is
decided once a batch (transactions, retention, which segments) is the caller's: `native_log.compaction`.
A round over one partition:

1. the dirty part, from the first dirty offset on: `OffsetMap.put_batches` -> key -> greatest offset, until
   the end or until the map is full;
2. `OffsetMap.survivors`: those offsets, as a bitmap; then `OffsetMap.mark` over the clean part, which adds
   the offsets of records whose keys are not in the map;
3. `rewrite` over everything: batches without the records that do not survive.

Distributed, steps 1 and 2 run over splits: `KeyBuckets` packs keys and offsets in buckets by key; `merge`
makes survivors of all packs of one bucket, and the union of the buckets' survivors is that of step 2.

Kafka: Cleaner.buildOffsetMap, Cleaner.shouldRetainRecord, MemoryRecords.filterTo; KIP-534.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Protocol, Self

from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from typing_extensions import Buffer

    from native_log.records.schema import Damage, OffsetOrder

KEY_OVERHEAD_BYTES = 40
"""Bytes an OffsetMap takes for a key, beside the key itself: the most its table and its entries come to, also
while the table grows."""


class Verdict(IntFlag):
    """What `rewrite` does with one batch: flags, to be put together; one byte a batch.

    | batch | verdict |
    |---|---|
    | data | FILTER |
    | data of an aborted transaction | DISCARD |
    | the last of its producer, or of the round | RETAIN_EMPTY, with one of the above |
    | control batch that is still needed | FILTER (all its records are kept) |
    | ... whose transaction has no data any more, horizon not yet set or not yet reached | SET_HORIZON |
    | ... and reached | DISCARD |
    """

    FILTER = 0
    """Keep the records that survive; of a control batch all. If none is kept, write nothing."""
    DISCARD = 1
    """Keep no record. The batch is not decompressed, nor its CRC looked at."""
    RETAIN_EMPTY = 2
    """If no record is kept, write the batch's header alone: its offsets and its producer's state are needed.
    (Magic 0 and 1 know no empty batches: nothing is written.)"""
    SET_HORIZON = 4
    """Give the batch `delete_horizon_ms` if it has none, as if it held a tombstone."""


@dataclass(frozen=True, slots=True)
class MapProgress:
    """What one call of `put_batches` or `mark` came to."""

    status: str
    """"end": the buffer is used up; "partial": at `position` begins a batch that goes on beyond the buffer;
    "full": the batch at `position` holds a key that the map has no room for; "zeros": from `position` on
    there are only zero bytes; "damaged": see `damage`."""
    position: int
    """First byte not used, where the next call begins. Beyond the buffer's end if a batch was skipped by its
    header. With "full" the first byte of the batch the map became full in; its records before `next_offset`
    are in the map, and another map can begin there with start_offset=next_offset."""
    next_offset: int | None
    """The map is complete for [start_offset, next_offset): last offset + 1 of the last batch used or skipped,
    not beyond end_offset; with "full", the offset behind the last record put, if that is greater. None if
    there was neither. A cleaner's survivors_end, and its next first dirty offset."""
    needed_bytes: int
    """With "partial": how many bytes from `position` on are needed to go on. Else 0."""
    damage: Damage | None
    records: int
    """Records looked at: those of data batches in the offset range, aborted ones left out."""
    null_keys: int
    """How many of them have no key. Compaction drops them."""


@dataclass(frozen=True, slots=True)
class RewriteStats:
    """What `rewrite` read and kept. Sums: stats of several calls can be added with `+`."""

    batches_read: int = 0
    batches_kept: int = 0
    """Written with records, or as they were."""
    batches_copied: int = 0
    """Of those kept: byte for byte."""
    batches_emptied: int = 0
    """Written as a header alone."""
    records_read: int = 0
    """Those of batches that were dropped by their headers are counted as the header counts them (a wrapper of
    magic 0 or 1: not at all)."""
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0
    tombstones_kept: int = 0
    tombstones_dropped: int = 0
    """Tombstones that are the newest of their key, no longer needed. (Those of older offsets just do not
    survive.)"""
    horizons_set: int = 0
    """Batches that were given a delete horizon."""

    def __add__(self, other: RewriteStats) -> RewriteStats:
        return RewriteStats(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What one call of `rewrite` or `rewrite_file` came to."""

    data: memoryview
    """The batches written."""
    batches: pa.RecordBatch
    """One row for each of them, BATCH_SCHEMA, as `scan(data, base_position=output_position)` would have it
    (`isValid` true): enough for the index entries."""
    status: str
    """"end", "partial", "zeros" or "damaged" as in Decoded; "limit": the verdicts are used up, or as
    `rewrite_file` says."""
    position: int
    """First byte of the buffer not used: where the next call begins. Beyond the buffer's end if a batch was
    dropped by its header."""
    next_offset: int | None
    """Last offset + 1 of the last batch read; None if there was none."""
    needed_bytes: int
    damage: Damage | None
    stats: RewriteStats


class Survivors(ABC):
    """A set of offsets (0 to 2^63 - 1), as a compressed bitmap: about two bits a survivor where they are
    dense, two bytes where they are not."""

    @abstractmethod
    def __init__(self, offsets: Iterable[int] = ()) -> None: ...

    @abstractmethod
    def __contains__(self, offset: object) -> bool: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """Ascending."""

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...

    __hash__ = None  # type: ignore[assignment]  # a set that changes

    @abstractmethod
    def add_many(self, offsets: Buffer) -> None:
        """Adds native int64 values, such as a NumPy array. ValueError: no multiple of 8 bytes, or a negative
        offset; nothing is added then."""

    @abstractmethod
    def add_range(self, start_offset: int, end_offset: int) -> None:
        """Adds [start_offset, end_offset)."""

    @abstractmethod
    def between(self, start_offset: int, end_offset: int) -> Self:
        """Those in [start_offset, end_offset)."""

    @abstractmethod
    def union(self, *others: Self) -> Self: ...

    @abstractmethod
    def difference(self, other: Self) -> Self: ...

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The portable 64-bit format of RoaringFormatSpec: what CRoaring's Roaring64Map, Java's
        Roaring64NavigableMap (portable) and pyroaring's BitMap64 read."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Raises ValueError: not the bytes of such a bitmap."""


class Headers(ABC):
    """The headers of batches, gathered over several buffers, to be looked at all at once: columns of a few
    rows cost more than what they are made of.
    """

    @abstractmethod
    def __init__(self) -> None: ...

    @abstractmethod
    def __len__(self) -> int:
        """Batches gathered and not yet taken."""

    @abstractmethod
    def add(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        end: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        """Gathers what `scan(buffer, base_position=base_position)` finds, and does not tell what it stops at.

        Args:
            end: only of batches that begin before this position.
        """

    @property
    @abstractmethod
    def has_transactions(self) -> bool:
        """Whether one of the batches not yet taken is of a transaction, or is a control batch."""

    @property
    @abstractmethod
    def last_offsets(self) -> tuple[int, int] | None:
        """The least and the greatest last offset of the batches not yet taken; None: there are none."""

    @abstractmethod
    def take(self) -> pa.RecordBatch:
        """BATCH_SCHEMA, one row for each batch gathered since the last time, in their order."""


class OffsetMap(ABC):
    """Keys and the greatest offset of each, within a bound of memory.

    Exact: keys themselves are kept, where a broker keeps their MD5 (Kafka: SkimpyOffsetMap). The map is full
    when a new key would take `size_bytes` beyond `max_bytes`; known keys can always move on.
    """

    @abstractmethod
    def __init__(self, max_bytes: int) -> None: ...

    @abstractmethod
    def __len__(self) -> int:
        """Distinct keys."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The keys and KEY_OVERHEAD_BYTES for each."""

    @abstractmethod
    def get(self, key: bytes) -> int | None:
        """The greatest offset of a key."""

    @abstractmethod
    def put_batches(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
        aborted: Buffer = b"",
        check_crcs: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        """Puts the records of the batches in `buffer` that have keys; not those of control batches and of
        aborted transactions.

        Stops before the first record whose key is new and has no room, be it in the middle of a batch. (A map
        that is full with no key in it: one key alone takes more than max_bytes.) Of a damaged batch nothing
        is put.

        Args:
            buffer: bytes of a .log file from the beginning of a batch on.
            base_position: position in the file of the buffer's first byte.
            start_offset, end_offset: only records in [start_offset, end_offset) are put: the dirty part.
            aborted: as for `decode`.
            check_crcs: as for `decode`.
            max_batch_bytes, order: as for `decode`.
        """

    @abstractmethod
    def mark(
        self,
        buffer: Buffer,
        survivors: Survivors,
        *,
        base_position: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
        aborted: Buffer = b"",
        check_crcs: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        """Adds to `survivors` the records of the clean part that this map does not shadow: those with a key
        that is not in it, or is in it with no greater offset.

        Args:
            survivors: changed in place; of this map's implementation.
            end_offset: the first dirty offset, exclusive.
            buffer and the others: as for `put_batches`. Never "full".
        """

    @abstractmethod
    def survivors(self) -> Survivors:
        """The offsets in the map. Takes 8 bytes a key meanwhile."""


class PutBatches(Protocol):
    """`put_batches` of OffsetMap and KeyBuckets, or `mark` with its survivors bound."""

    def __call__(
        self,
        buffer: memoryview,
        *,
        base_position: int,
        start_offset: int | None,
        end_offset: int | None,
        aborted: bytes,
        check_crcs: bool = True,
        max_batch_bytes: int,
        order: OffsetOrder | None = None,
    ) -> MapProgress: ...


class KeyBuckets(ABC):
    """Keys and offsets of part of a log, packed in buckets by key, on their way to those who merge them.

    Of the dirty part a key's greatest offset counts: when the buckets are full or taken, one entry of each
    key is left if that halves them. (Where keys seldom come again all entries are: to look for them would
    cost more than it saves.) Of the clean part each offset counts. `merge` finds the same survivors either
    way.

    A process keeps the memory of its last buckets for the next ones, up to 128 MiB.
    """

    @abstractmethod
    def __init__(self, count: int, max_bytes: int, *, dirty: bool) -> None:
        """
        Args:
            count: of buckets, 1 to 65536.
            max_bytes: what the packs may take together. Up to a quarter more is allocated, and the rest of a
                page for each.
            dirty: whether the offsets are of the dirty part.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Entries held: at least one for each key."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Of the packs."""

    @abstractmethod
    def put_batches(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
        aborted: Buffer = b"",
        check_crcs: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        """As OffsetMap.put_batches. "full": an entry would take `size_bytes` beyond `max_bytes`. Take the
        packs out, and go on at start_offset=next_offset."""

    @abstractmethod
    def take(self) -> list[Buffer]:
        """The packs, one for each bucket, and holds nothing any more.

        Without copies: their memory is used again once none of them is referenced. A bucket without keys has
        zero bytes. A key is in the same bucket in every process. A pack, integers little-endian:

        | type | field |
        |---|---|
        | u8 | version, 2 |
        | u8 | kind: 0 offsets of the dirty part, of which a key's greatest counts, 1 of the clean part |
        | i64 | number of entries |
        | i64 | base: offset of the first record put |
        | | entries |

        An entry is short, or long if it must be: of a key of 255 bytes or more, or of an offset that is not
        within 2^32 from the base on.

        | type | field of a short entry | type | field of a long one |
        |---|---|---|---|
        | u8 | length of the key, to 254 | u8 | 255 |
        | u32 | offset - base | u32 | length of the key |
        | | key | i64 | offset |
        | | | | key |

        The bucket is hash * count >> 64. The hash of a key: from its length on, hash = mix(hash ^ word) for
        each 8 bytes of it, as a u64; if bytes are left, then for the key's last 8 bytes as well (a shorter
        key is padded with zeros behind). mix(x): the lower half xor the upper half of the 128 bits of
        x * 0x9e3779b97f4a7c15.
        """
