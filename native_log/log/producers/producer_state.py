"""Which transactions are open (Kafka: ProducerStateManager).

From a snapshot of producer state and the headers after it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.errors import CorruptIndexError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1
ABORT, COMMIT = 0, 1

TransactionalRow = tuple[int, int, int, bool, int | None]
"""(producerId, producerEpoch, baseOffset, isControl, controlType) of a transactional batch."""


@dataclass(frozen=True, slots=True)
class ProducerStateEntry:
    """The last batch of a producer. -1 stands for none.

    `offset_delta` is last offset - first offset of that batch; `current_txn_first_offset` the first offset of
    the transaction that is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int


def parse_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """The content of a `.snapshot` file. Raises CorruptIndexError."""
    from crc32c import crc32c  # which takes long to import for what few logs need

    if len(data) < _HEADER.size:
        raise CorruptIndexError(f"expected at least {_HEADER.size} bytes, found {len(data)}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptIndexError(f"expected a snapshot of version {_VERSION}, found {version}")
    if crc != (computed := crc32c(data[6:])):
        raise CorruptIndexError(f"expected a snapshot with checksum {crc}, found {computed}")
    if count * _ENTRY.size != len(data) - _HEADER.size:
        raise CorruptIndexError(
            f"expected {count} entries, found {len(data) - _HEADER.size} bytes behind the header"
        )
    return [ProducerStateEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def snapshot_bytes(entries: Iterable[ProducerStateEntry]) -> bytes:
    """The content of a `.snapshot` file."""
    from crc32c import crc32c

    packed = [
        _ENTRY.pack(
            e.producer_id,
            e.producer_epoch,
            e.last_sequence,
            e.last_offset,
            e.offset_delta,
            e.timestamp_ms,
            e.coordinator_epoch,
            e.current_txn_first_offset,
        )
        for e in entries
    ]
    checked = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", _VERSION, crc32c(checked)) + checked


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, as far as the log has data of it.

    Attributes:
        producer_id: markers are matched by it alone: since KIP-890 a marker has a higher epoch than its data.
        producer_epoch: of the data.
        first_offset: base offset of its first batch, or of the first that is left of it.
        last_offset: offset of its marker; None while it is open.
        state: "committed", "aborted" or "open".
        last_stable_offset: what it was right after the marker: first offset of the oldest other transaction
            open then, or the marker's offset + 1. None while it is open.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int | None
    state: str
    last_stable_offset: int | None


@dataclass(slots=True)
class OpenTransactions:
    """The transactions open at a point of the log, moved along it header by header.

    `first_offsets` maps producer id to (first offset, producer epoch).
    """

    first_offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def apply(self, batches: pa.RecordBatch) -> list[Transaction]:
        """Take the batches (BATCH_SCHEMA) that follow; what ended with them, in order of the markers."""
        return self.apply_rows(transactional_rows(batches))

    def apply_rows(self, rows: Iterable[TransactionalRow]) -> list[Transaction]:
        """The same from their `transactional_rows`."""
        ended = []
        for producer_id, epoch, base_offset, is_control, control_type in rows:
            if not is_control:
                self.first_offsets.setdefault(producer_id, (base_offset, epoch))
            elif control_type in (ABORT, COMMIT):  # a control batch that compaction emptied says nothing
                first = self.first_offsets.pop(producer_id, None)
                if first is not None:
                    oldest = min(
                        (offset for offset, _ in self.first_offsets.values()), default=base_offset + 1
                    )
                    state = "aborted" if control_type == ABORT else "committed"
                    ended.append(Transaction(producer_id, first[1], first[0], base_offset, state, oldest))
        return ended


def has_transactions(batches: pa.RecordBatch) -> bool:
    """Whether any of these batches (BATCH_SCHEMA) is of a transaction, or a marker."""
    return bool(batches.column("isTransactional").true_count or batches.column("isControl").true_count)


def transactional_rows(batches: pa.RecordBatch) -> list[TransactionalRow]:
    """What a TransactionalRow tells of each transactional batch."""
    if not (transactional := batches.column("isTransactional")).true_count:
        return []
    chosen = batches.filter(transactional)
    names = ("producerId", "producerEpoch", "baseOffset", "isControl", "controlType")
    return list(zip(*(chosen.column(name).to_pylist() for name in names), strict=True))
