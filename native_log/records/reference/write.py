"""Encode batches, records and messages (Kafka: DefaultRecordBatch, DefaultRecord, LegacyRecord)."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import crc32c

from native_log.records.reference.codec.compress import compress
from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.entry import PREFIX_BYTES, TIMESTAMP_TYPE_FLAG, V2_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.records.reference.record import Record

_NO_TIMESTAMP = -1
_MAX_BYTES = 2**31 - 1


def v2_batch(
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    records: bytes,
) -> bytes:
    """Return a batch of magic 2. `records`: as stored, compressed if the attributes have a codec."""
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    size = size_field(V2_HEADER.size + len(records))
    crc = crc32c.crc32c(records, crc32c.crc32c(checked))
    return struct.pack(">qiibI", base_offset, size, leader_epoch, 2, crc) + checked + records


def v2_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]],
) -> bytes:
    body = b"\0" + varlong(timestamp_delta) + varlong(offset_delta) + v2_content(key, value, headers)
    return varlong(len(body)) + body


def v2_content(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]]
) -> bytes:
    encoded_headers = b"".join(sized(name) + sized(content) for name, content in headers)
    return sized(key) + sized(value) + varlong(len(headers)) + encoded_headers


def sized(data: bytes | None) -> bytes:
    return varlong(-1) if data is None else varlong(len(data)) + data


def varlong(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    written = bytearray()
    while rest >= 0x80:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def wrapper(
    magic: int,
    codec: int,
    records: Iterable[Record],
    append_time: int | None,
    level: int | None = None,
) -> bytes:
    """Return messages of magic 0 or 1 (at least one) in a compressed wrapper.

    With magic 1, the offsets in the wrapper are relative to the first one; readers only use their distance to
    the last one (KIP-31).

    Args:
        append_time: epoch ms: the wrapper is marked LogAppendTime and has this timestamp. None: CreateTime;
        always
            None with magic 0.
    """
    records = list(records)
    flags = 0 if append_time is None else TIMESTAMP_TYPE_FLAG
    zero = records[0].offset if magic else 0
    inner = b"".join(
        message(magic, record.offset - zero, flags, record.timestamp, record.key, record.value)
        for record in records
    )
    timestamp = append_time
    if timestamp is None:
        timestamp = max(_NO_TIMESTAMP, *(record.timestamp for record in records))
    value = compress(codec, magic, inner, level)
    return message(magic, records[-1].offset, codec | flags, timestamp, None, value)


def message(
    magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for data in (key, value):
        checked += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, size_field(16 + len(checked)), zlib.crc32(checked)) + checked


def size_field(total: int) -> int:
    """Return the size field of a batch or message of `total` bytes. Raise DamagedBatchError above 2^31 -
    1."""
    if total > _MAX_BYTES:
        raise DamagedBatchError(
            "too-large",
            f"expected to write a batch of at most {_MAX_BYTES} bytes, found {total}; use smaller batches",
        )
    return total - PREFIX_BYTES
