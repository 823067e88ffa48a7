"""Arrow records -> batches of magic 2, sized as Kafka's producer sizes them (Kafka: MemoryRecordsBuilder,
ProducerBatch)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import crc32c
import pyarrow as pa

from native_log.errors import RecordTooLargeError
from native_log.records.encode import Encoded
from native_log.records.reference.cleaning.write import sized, varlong
from native_log.records.reference.codec import NAMES
from native_log.records.reference.codec.compress import compress
from native_log.records.reference.entry import TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, V2_HEADER
from native_log.records.reference.scan import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODECS = {name: number for number, name in NAMES.items()}
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
_MAX_SEQUENCE = 2**31 - 1


class _RatioEstimator:
    """How far batches are compressed, as the producer guesses it (Kafka: CompressionRatioEstimator)."""

    def __init__(self) -> None:
        self._ratio = 1.0

    def observe(self, ratio: float) -> None:
        step = 0.05 if ratio > self._ratio else -0.005
        self._ratio = max(self._ratio + step, ratio)

    def compressed_bytes(self, size_bytes: int) -> int:
        return int(size_bytes * self._ratio * 1.05)


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
    """Records as batches with offsets from `base_offset` on.

    Args:
        records: columns by name, in any order, others are passed over: `value`, `key` (binary or string;
            null is null), `headers` (list of structs of key and value; null: none), `timestamp` (timestamp of
            any unit, or int64 ms; null or no such column: `now_ms`).
        compression: none, gzip, snappy, lz4 or zstd. `level` is a hint: the reference uses the default ones.
        batch_size: a batch takes records while it is not larger than this before compression (as the
            producer estimates it); one larger record gets a batch of its own.
        timestamp_type: 1 marks the batches LogAppendTime, with `append_time_ms` as their greatest timestamp.

    Raises:
        RecordTooLargeError: a batch is larger than `max_message_bytes`. ValueError: an unknown codec, or a
        magic other than 2.
    """
    if magic != 2:
        raise ValueError(f"magic 2 is what can be written, found {magic}")
    if compression not in _CODECS:
        raise ValueError(f"compression is one of {', '.join(_CODECS)}, found {compression!r}")
    codec = _CODECS[compression]
    attributes = codec | (TIMESTAMP_TYPE_FLAG if timestamp_type else 0)
    attributes |= TRANSACTIONAL_FLAG if is_transactional else 0
    out = bytearray()
    row, estimator = 0, _RatioEstimator() if codec else None
    for batch in _batches(records, batch_size, now_ms, estimator):
        body = b"".join(data for data, _ in batch)
        stored = compress(codec, 2, body) if codec else body
        if estimator is not None:
            estimator.observe((V2_HEADER.size + len(stored)) / (V2_HEADER.size + len(body)))
        size = V2_HEADER.size + len(stored)
        if max_message_bytes is not None and size > max_message_bytes:
            raise RecordTooLargeError(
                f"rows {row} to {row + len(batch) - 1} make a batch of {size} bytes, expected at most "
                f"{max_message_bytes} (max.message.bytes); raise that, or make batches or values smaller"
            )
        sequence = base_sequence if base_sequence < 0 else (base_sequence + row) % (_MAX_SEQUENCE + 1)
        checked = struct.pack(
            ">hiqqqhii",
            attributes,
            len(batch) - 1,
            batch[0][1],
            append_time_ms if timestamp_type else max(time for _, time in batch),
            producer_id,
            producer_epoch,
            sequence,
            len(batch),
        )
        crc = crc32c.crc32c(stored, crc32c.crc32c(checked))
        out += struct.pack(">qiibI", base_offset + row, size - 12, leader_epoch, 2, crc) + checked + stored
        row += len(batch)
    return Encoded(bytes(out), scan(bytes(out), base_position=base_position, check_crcs=True).batches)


def _batches(
    records: pa.RecordBatch, batch_size: int, now_ms: int, estimator: _RatioEstimator | None
) -> Iterator[list[tuple[bytes, int]]]:
    """Encoded records with their timestamps, a list for each batch."""
    batch: list[tuple[bytes, int]] = []
    written = 0
    columns = (_binary(records, "key"), _binary(records, "value"), _headers(records), _times(records, now_ms))
    for key, value, headers, time_ms in zip(*columns, strict=True):
        record = _record(key, value, headers, time_ms - (batch[0][1] if batch else time_ms), len(batch))
        stored = written if estimator is None else estimator.compressed_bytes(written)
        if batch and V2_HEADER.size + stored + len(record) > batch_size:
            yield batch
            batch, written = [], 0
            record = _record(key, value, headers, 0, 0)
        batch.append((record, time_ms))
        written += len(record)
    if batch:
        yield batch


def _record(
    key: bytes | None, value: bytes | None, headers: list[dict[str, Any]] | None, time_delta: int, delta: int
) -> bytes:
    body = b"\0" + varlong(time_delta) + varlong(delta) + sized(key) + sized(value)
    body += varlong(len(headers or ()))
    for header in headers or ():
        name = header["key"]
        body += sized(name.encode() if isinstance(name, str) else name) + sized(header["value"])
    return varlong(len(body)) + body


def _binary(records: pa.RecordBatch, name: str) -> list[bytes | None]:
    if name not in records.schema.names or pa.types.is_null(records.column(name).type):
        return [None] * records.num_rows
    found: list[bytes | None] = records.column(name).cast(pa.large_binary()).to_pylist()
    return found


def _headers(records: pa.RecordBatch) -> list[list[dict[str, Any]] | None]:
    if "headers" not in records.schema.names:
        return [None] * records.num_rows
    found: list[list[dict[str, Any]] | None] = records.column("headers").to_pylist()
    return found


def _times(records: pa.RecordBatch, now_ms: int) -> list[int]:
    if "timestamp" not in records.schema.names or pa.types.is_null(records.column("timestamp").type):
        return [now_ms] * records.num_rows
    column = records.column("timestamp")
    factor, divisor = _PER_MS[column.type.unit] if pa.types.is_timestamp(column.type) else (1, 1)
    values = column.cast(pa.int64()).to_pylist()
    return [now_ms if value is None else value * factor // divisor for value in values]
