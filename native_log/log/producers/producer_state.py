"""The state of one producer, and the format of `.snapshot` files.

Kafka: ProducerStateEntry, ProducerStateManager.readSnapshot and writeSnapshot.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import CorruptIndexError

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ProducerStateEntry:
    """The last batch of a producer. -1 means none.

    Attributes:
        producer_id, producer_epoch: the producer.
        last_sequence, last_offset: of its last batch.
        offset_delta: last offset minus first offset of that batch.
        timestamp_ms: the maximum timestamp of that batch, or the timestamp of a later marker.
        coordinator_epoch: the coordinator epoch of the last marker.
        current_txn_first_offset: the first offset of its open transaction.
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
    """Parse the content of a `.snapshot` file. Raises CorruptIndexError."""
    from crc32c import crc32c  # imported here because it is slow to import and few logs need it

    if len(data) < _HEADER.size:
        raise CorruptIndexError(f"expected at least {_HEADER.size} bytes, found {len(data)}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptIndexError(f"expected a snapshot of version {_VERSION}, found {version}")
    if crc != (computed := crc32c(data[6:])):
        raise CorruptIndexError(f"expected a snapshot with checksum {crc}, found {computed}")
    if count * _ENTRY.size != len(data) - _HEADER.size:
        raise CorruptIndexError(
            f"expected {count} entries, found {len(data) - _HEADER.size} bytes after the header"
        )
    return [ProducerStateEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def snapshot_bytes(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the content of a `.snapshot` file."""
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
