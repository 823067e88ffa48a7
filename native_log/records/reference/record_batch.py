"""Records of a batch of magic 2 (Kafka 0.11 and later; Kafka: DefaultRecordBatch, DefaultRecord, KIP-98).

The header of 61 bytes (see `entry`) is followed by the records, as one compressed stream if there is a codec.
A record:

| type | field |
|---|---|
| varint | length: the number of bytes after this field |
| i8 | attributes: unused |
| varlong | timestampDelta: timestamp - baseTimestamp of the batch |
| varint | offsetDelta: offset - baseOffset of the batch |
| varint, bytes | length of the key, negative for null; the key |
| varint, bytes | length of the value, negative for null; the value |
| varint | number of headers |
| | headers: varint length of the key and the key (UTF-8); length and value as above |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import crc32c

from native_log.records.java_utf8 import java_utf8
from native_log.records.reference.codec import decompress
from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.entry import LOG_APPEND_TIME, V2_HEADER, BatchHeader, wrap64
from native_log.records.reference.record import Record
from native_log.records.reference.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Iterator

CRC_FROM = 21
"""The CRC covers the batch from here on: see `entry`."""


def crc_of(batch: memoryview) -> int:
    return int(crc32c.crc32c(batch[CRC_FROM:]))


def read_records(header: BatchHeader, batch: memoryview, max_batch_bytes: int) -> Iterator[Record]:
    """Yield the records of a whole batch. Raise DamagedBatchError, possibly after the first records."""
    return (read_record(header, fields) for fields in all_fields(header, batch, max_batch_bytes))


def all_fields(header: BatchHeader, batch: memoryview, max_batch_bytes: int) -> Iterator[Fields]:
    """Yield the records as they are stored."""
    payload = decompress(header, batch[V2_HEADER.size :], max_batch_bytes)
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise DamagedBatchError(
            "records",
            f"expected a record count and a last offset delta of 0 or more, found {header.record_count} and "
            f"{header.last_offset_delta}",
        )
    at = 0
    for number in range(header.record_count):
        length, at = read_varint(payload, at, len(payload))
        if not 0 <= length <= len(payload) - at:
            raise DamagedBatchError(
                "records",
                f"expected {length} bytes of record {number} of {header.record_count}, "
                f"found {len(payload) - at}",
            )
        yield read_fields(payload, at, at + length)
        at += length
    if at != len(payload):
        raise DamagedBatchError(
            "records",
            f"expected the end of the batch after {header.record_count} records, "
            f"found {len(payload) - at} more bytes",
        )


class Fields(NamedTuple):
    """A record as it is stored: with deltas to its batch's header, and header keys as bytes."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def read_record(header: BatchHeader, fields: Fields) -> Record:
    if header.timestamp_type == LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    else:  # also with a delete horizon: deltas are relative to the value of the field
        timestamp = wrap64(header.base_timestamp + fields.timestamp_delta)
    return Record(
        offset=wrap64(header.offset + fields.offset_delta),
        timestamp=timestamp,
        timestamp_type=header.timestamp_type,
        key=fields.key,
        value=fields.value,
        headers=tuple((java_utf8(key), value) for key, value in fields.headers),
        sequence=header.sequence(fields.offset_delta),
    )


def read_fields(data: memoryview, at: int, end: int) -> Fields:
    """Return the record whose body is data[at:end]."""
    if at == end:
        raise DamagedBatchError("records", "expected the attributes of a record, found no bytes")
    timestamp_delta, at = read_varlong(data, at + 1, end)
    offset_delta, at = read_varint(data, at, end)
    key, at = read_nullable(data, at, end, "key")
    value, at = read_nullable(data, at, end, "value")
    headers, at = read_headers(data, at, end)
    if at != end:
        raise DamagedBatchError(
            "records", f"expected the end of a record after its fields, found {end - at} more bytes"
        )
    return Fields(timestamp_delta, offset_delta, key, value, headers)


def read_nullable(data: memoryview, at: int, end: int, what: str) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at, end)
    if length < 0:
        return None, at
    if length > end - at:
        raise DamagedBatchError("records", f"expected a {what} of {length} bytes, found {end - at}")
    return bytes(data[at : at + length]), at + length


def read_headers(data: memoryview, at: int, end: int) -> tuple[tuple[tuple[bytes, bytes | None], ...], int]:
    count, at = read_varint(data, at, end)
    if not 0 <= count <= end - at:
        raise DamagedBatchError("records", f"expected a header count of 0 to {end - at}, found {count}")
    headers = []
    for _ in range(count):
        key, at = read_nullable(data, at, end, "header key")
        if key is None:
            raise DamagedBatchError("records", "expected a header key, found null")
        value, at = read_nullable(data, at, end, "header value")
        headers.append((key, value))
    return tuple(headers), at
