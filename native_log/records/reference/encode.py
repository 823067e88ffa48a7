"""Arrow records -> batches, cut as Kafka's producer cuts them (Kafka: MemoryRecordsBuilder)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import crc32c
import pyarrow as pa

from native_log.records.encode import Encoded, check_settings, known_columns, refuse
from native_log.records.reference.cleaning.write import sized, varlong
from native_log.records.reference.codec import NAMES
from native_log.records.reference.codec.compress import compress
from native_log.records.reference.entry import TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, V2_HEADER, wrap64
from native_log.records.reference.scan import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODECS = {name: number for number, name in NAMES.items()}
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
_MOST = 2**31 - 1
"""Bytes and records of a batch are counted by 31 bits, and so are sequences."""
_MOST_PLAIN = 256 << 20
"""Nor does a batch have more before compression than readers take (DEFAULT_MAX_BATCH_BYTES)."""
_NO_TIMESTAMP = -1


def encode(
    records: pa.RecordBatch,
    *,
    magic: int = 2,
    compression: str = "none",
    level: int | None = None,
    batch_size: int = 16384,
    max_message_bytes: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    timestamp_type: int = 0,
    append_time_ms: int = -1,
    now_ms: int = -1,
    base_position: int = 0,
) -> Encoded:
    """Records as batches with consecutive offsets from `base_offset` on.

    A batch takes records while it is estimated to be not larger than `batch_size`, as Kafka does it: without
    compression that is what they take; with it, this times 1.05 and the ratio that is hoped for (1 at first,
    0.005 less with each batch that is better, up at once: CompressionRatioEstimator). A producer keeps that
    ratio for a topic as long as it lives; here it begins anew with each call.

    Args:
        records: columns by name, in any order, others are passed over: `value`, `key` (binary or string),
            `headers` (list of structs of key, binary or string, and value; null: none), `timestamp`
            (timestamp of any unit and zone, rounded down to ms, or int64 ms; null: `now_ms`). Only `value`
            has to be there.
        magic: the format: 2, or 1 or 0 of clusters before 0.11, with which there are no headers and no
            producers, and records are compressed within a wrapper message.
        compression: none, gzip, snappy, lz4 or zstd (magic 2 only).
        level: of the compression; None is Kafka's default: gzip -1 (6), zstd 3, lz4 9, which is its fast
            compressor, any other level being its slow one of high compression.
        batch_size: in bytes, as `batch.size` of the producer; 0: a batch for each record. A record larger
            than this gets a batch of its own.
        max_message_bytes: no batch may be larger, header and compression included. None: any.
        base_offset: offset of the first record.
        leader_epoch: of all batches; -1 is what a producer sends.
        producer_id, producer_epoch, base_sequence: -1: no idempotent producer. The sequence is the first
            record's; past 2^31 - 1 comes 0.
        is_transactional: marks the batches; wants a producer_id.
        timestamp_type: 0 CreateTime; 1 marks the batches LogAppendTime, with `append_time_ms` as their
            greatest timestamp. Records keep the timestamps they have, which readers then do not show.
        append_time_ms: see timestamp_type.
        now_ms: timestamp of records that have none.
        base_position: position in the file of the first byte, for `Encoded.batches`.

    Raises:
        RecordTooLargeError: a batch is larger than `max_message_bytes`; it names the rows. A record may have
            2^31 - 1 bytes in any case.
        InvalidTimestampError: a timestamp below -1.
        InvalidRecordError: a header without a key.
        ValueError: settings that do not go together, unknown ones, columns of other types.
    """
    check_settings(
        magic=magic,
        compression=compression,
        level=level,
        batch_size=batch_size,
        rows=records.num_rows,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        timestamp_type=timestamp_type,
    )
    codec = _CODECS[compression]
    attributes = codec | (TIMESTAMP_TYPE_FLAG if timestamp_type else 0)
    attributes |= TRANSACTIONAL_FLAG if is_transactional else 0
    out = bytearray()
    first_row, ratio = 0, _Ratio(compressed=codec != 0)
    for batch in _batches(list(_rows(known_columns(records), now_ms)), batch_size, ratio):
        body = b"".join(batch.records)
        stored = compress(codec, 2, body, level)
        ratio.observe(len(body), len(stored))
        size, rows = V2_HEADER.size + len(stored), len(batch.records)
        if size > (_MOST if max_message_bytes is None else min(max_message_bytes, _MOST)):
            refuse("too-large", first_row, first_row + rows - 1, size, max_message_bytes)
        checked = struct.pack(
            ">hiqqqhii",
            attributes,
            rows - 1,
            batch.base_timestamp,
            append_time_ms if timestamp_type else batch.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence if base_sequence < 0 else (base_sequence + first_row) % (_MOST + 1),
            rows,
        )
        crc = crc32c.crc32c(stored, crc32c.crc32c(checked))
        out += struct.pack(">qiibI", base_offset + first_row, size - 12, leader_epoch, 2, crc)
        out += checked + stored
        first_row += rows
    data = bytes(out)
    return Encoded(data, scan(data, base_position=base_position, check_crcs=True).batches)


class _Ratio:
    """How well batches will be compressed, as the producer guesses it, in 32-bit floating point as it does
    (Kafka: CompressionRatioEstimator, MemoryRecordsBuilder.estimatedBytesWritten)."""

    def __init__(self, *, compressed: bool) -> None:
        self._ratio = 1.0
        self._compressed = compressed

    def estimate(self, plain_bytes: int) -> int:
        if not self._compressed:
            return plain_bytes
        return int(_float32(_float32(_float32(plain_bytes) * self._ratio) * _float32(1.05)))

    def observe(self, plain_bytes: int, compressed_bytes: int) -> None:
        observed = _float32(_float32(compressed_bytes) / _float32(plain_bytes))
        step = _float32(0.05) if observed > self._ratio else -_float32(0.005)
        self._ratio = max(_float32(self._ratio + step), observed)


def _float32(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


class _Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp: int


class _Batch(NamedTuple):
    records: list[bytes]
    base_timestamp: int
    max_timestamp: int


def _batches(rows: list[_Row], batch_size: int, ratio: _Ratio) -> Iterator[_Batch]:
    start = 0
    while start < len(rows):
        base = rows[start].timestamp
        records: list[bytes] = []
        written = 0
        for row in rows[start:]:
            record = _record(row, wrap64(row.timestamp - base), len(records))
            estimated = V2_HEADER.size + ratio.estimate(written) + len(record)
            if records and (estimated > min(batch_size, _MOST) or written + len(record) > _MOST_PLAIN):
                break
            records.append(record)
            written += len(record)
        end = start + len(records)
        yield _Batch(records, base, max(row.timestamp for row in rows[start:end]))
        start = end


def _record(row: _Row, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"\0" + varlong(timestamp_delta) + varlong(offset_delta) + sized(row.key) + sized(row.value)
    body += varlong(len(row.headers)) + b"".join(sized(name) + sized(value) for name, value in row.headers)
    return varlong(len(body)) + body


def _rows(records: pa.RecordBatch, now_ms: int) -> Iterator[_Row]:
    columns = (
        _binary(records, "key"),
        _binary(records, "value"),
        _headers(records),
        _timestamps(records, now_ms),
    )
    for number, (key, value, headers, timestamp) in enumerate(zip(*columns, strict=True)):
        if timestamp < _NO_TIMESTAMP:
            refuse("timestamp", number, number, timestamp, None)
        if any(name is None for name, _ in headers):
            refuse("header-key", number, number, 0, None)
        yield _Row(key, value, headers, timestamp)


def _binary(records: pa.RecordBatch, name: str) -> list[bytes | None]:
    if name not in records.schema.names:
        return [None] * records.num_rows
    column = records.column(name)
    null = pa.types.is_null(column.type)
    found: list[bytes | None] = (column if null else column.cast(pa.large_binary())).to_pylist()
    return found


def _headers(records: pa.RecordBatch) -> list[list[tuple[bytes, bytes | None]]]:
    if "headers" not in records.schema.names:
        return [[]] * records.num_rows

    def encoded(data: str | bytes | None) -> bytes | None:
        return data.encode() if isinstance(data, str) else data

    return [
        [(encoded(header["key"]), encoded(header["value"])) for header in headers or ()]  # type: ignore[misc]
        for headers in records.column("headers").to_pylist()
    ]


def _timestamps(records: pa.RecordBatch, now_ms: int) -> list[int]:
    if "timestamp" not in records.schema.names:
        return [now_ms] * records.num_rows
    column = records.column("timestamp")
    factor, divisor = _PER_MS[column.type.unit] if pa.types.is_timestamp(column.type) else (1, 1)
    values = column if pa.types.is_null(column.type) else column.cast(pa.int64())
    return [now_ms if value is None else value * factor // divisor for value in values.to_pylist()]
