"""What a log knows of a producer, and the `.snapshot` files that hold it (Kafka: ProducerStateEntry,
ProducerStateManager.readSnapshot, writeSnapshot)."""

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
