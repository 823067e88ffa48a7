"""Encode batches and wrappers with the records that are kept (Kafka: MemoryRecords.filterTo)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.reference import write
from native_log.records.reference.codec.compress import compress
from native_log.records.reference.entry import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
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
    """Return the batch with the kept records (at least one). Its offsets, including the last, and its
    producer do not change."""
    base_timestamp = kept[0][0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    records = b"".join(v2_record(record, fields, base_timestamp) for record, fields in kept)
    codec = header.attributes & CODEC_MASK
    max_timestamp = header.max_timestamp
    if header.timestamp_type != LOG_APPEND_TIME:
        max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record, _ in kept))
    return _v2_batch(
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
    """Return the header alone (Kafka: DefaultRecordBatch.writeEmptyHeader)."""
    return _v2_batch(
        header,
        attributes=header.attributes & KEPT_FLAGS,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        record_count=0,
        records=b"",
    )


def _v2_batch(
    header: BatchHeader,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    records: bytes,
) -> bytes:
    return write.v2_batch(
        base_offset=header.offset,
        leader_epoch=header.leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=record_count,
        records=records,
    )


def v2_record(record: Record, fields: Fields, base_timestamp: int) -> bytes:
    timestamp_delta = wrap64(record.timestamp - base_timestamp)
    return write.v2_record(timestamp_delta, fields.offset_delta, fields.key, fields.value, fields.headers)


def wrapper(header: BatchHeader, kept: Sequence[Record]) -> bytes:
    """Return a v0/v1 wrapper with the kept messages (at least one), with the same codec and timestamp
    type."""
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    return write.wrapper(header.magic, header.attributes & CODEC_MASK, kept, append_time)
