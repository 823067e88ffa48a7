"""Batches and wrappers written anew, with the records that are left (Kafka: MemoryRecords.filterTo,
MemoryRecordsBuilder)."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import crc32c

from native_log.records.reference.codec.compress import compress
from native_log.records.reference.entry import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    V2_HEADER,
    wrap64,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.records.reference.entry import BatchHeader
    from native_log.records.reference.record import Record
    from native_log.records.reference.record_batch import Fields

KEPT_FLAGS = TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
NO_TIMESTAMP = -1


def v2_batch(
    header: BatchHeader, kept: Sequence[tuple[Record, Fields]], delete_horizon_ms: int | None
) -> bytes:
    """The batch with the records kept, at least one. Offsets, last offset included, and producer stay."""
    base_timestamp = kept[0][0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    records = b"".join(v2_record(record, fields, base_timestamp) for record, fields in kept)
    codec = header.attributes & CODEC_MASK
    max_timestamp = header.max_timestamp
    if header.timestamp_type != LOG_APPEND_TIME:
        max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record, _ in kept))
    return v2_entry(
        header,
        attributes=codec
        | header.attributes & KEPT_FLAGS
        | (0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(kept),
        records=compress(codec, 2, records),
    )


def empty_v2_batch(header: BatchHeader) -> bytes:
    """The header alone (DefaultRecordBatch.writeEmptyHeader)."""
    return v2_entry(
        header,
        attributes=header.attributes & KEPT_FLAGS,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        record_count=0,
        records=b"",
    )


def v2_entry(
    header: BatchHeader,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    records: bytes,
) -> bytes:
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        record_count,
    )
    size = V2_HEADER.size - 12 + len(records)
    crc = crc32c.crc32c(records, crc32c.crc32c(checked))
    return struct.pack(">qiibI", header.offset, size, header.leader_epoch, 2, crc) + checked + records


def v2_record(record: Record, fields: Fields, base_timestamp: int) -> bytes:
    body = b"\0" + varlong(wrap64(record.timestamp - base_timestamp)) + varlong(fields.offset_delta)
    body += sized(fields.key) + sized(fields.value) + varlong(len(fields.headers))
    for name, value in fields.headers:
        body += sized(name) + sized(value)
    return varlong(len(body)) + body


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


def wrapper(header: BatchHeader, kept: Sequence[Record]) -> bytes:
    """A v0/v1 wrapper with the messages kept, at least one. Offsets within are relative to the
    first one's with magic 1, where only their distance to the last one counts (KIP-31)."""
    codec, flags = (
        header.attributes & CODEC_MASK,
        header.attributes & (TIMESTAMP_TYPE_FLAG if header.magic else 0),
    )
    zero = kept[0].offset if header.magic else 0
    inner = b"".join(
        message(header.magic, record.offset - zero, flags, record.timestamp, record.key, record.value)
        for record in kept
    )
    timestamp = header.max_timestamp
    if not flags:
        timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in kept))
    value = compress(codec, header.magic, inner)
    return message(header.magic, kept[-1].offset, codec | flags, timestamp, None, value)


def message(
    magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for data in (key, value):
        checked += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked
