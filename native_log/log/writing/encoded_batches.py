"""Check encoded batches and give them their final offsets (Kafka: LogValidator).

A batch is decoded and encoded again only where a broker does so too.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from native_log.errors import CorruptRecordError, InvalidRecordError
from native_log.log.writing.sequences import new_batches
from native_log.log.writing.validation import check_headers, check_order, check_timestamps
from native_log.records import DecodeOptions, EncodeOptions, decode, encode, scan
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Buffer

    from native_log.log.writing.append_context import AppendContext

EncodedBatches = tuple["Buffer", pa.RecordBatch]
"""The bytes of whole batches, and their rows of BATCH_SCHEMA."""

_ORIGINS = ("client", "coordinator", "replication")
_LOG_APPEND_TIME_BIT = 1 << 3
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT, _LEADER_EPOCH_AT = 17, 21, 35, 12


def prepare_batches(
    data: Buffer, origin: str, context: AppendContext
) -> tuple[int, Iterator[EncodedBatches]]:
    """Return the offset of the first record, and an iterator over the batches with their final offsets.

    Raises the errors of PartitionLog.append_batches, at once or during the iteration.
    """
    if origin not in _ORIGINS:
        raise ValueError(f"origin: expected one of {', '.join(_ORIGINS)}, found {origin!r}")
    original = memoryview(data).cast("B")
    batches = _scan_batches(original, context)
    if batches.num_rows == 0:
        return context.log_end_offset, iter(())
    if origin == "replication":
        check_order(batches, context.log_end_offset, context.path)
        return _first_offset(original, batches, 0, context), iter([(original, batches)])
    check_headers(batches, origin, context.config, context.path)
    new = new_batches(batches, context.producers, context.path)
    if len(new.indexes) < batches.num_rows:
        original = memoryview(b"".join(_batch_bytes(original, batches, index) for index in new.indexes))
        batches = batches.take(pa.array(new.indexes, pa.int64()))
        batches = _scan_batches(original, context) if len(original) else batches
    first_offset = context.log_end_offset if new.first_offset is None else new.first_offset
    return first_offset, _assign_offsets(original, batches, context)


def _assign_offsets(
    data: memoryview, batches: pa.RecordBatch, context: AppendContext
) -> Iterator[EncodedBatches]:
    times = [_validate_records(data, batches, i, context) for i in range(batches.num_rows)]
    codecs = _target_codecs(batches, context)
    offset = context.log_end_offset
    if not any(codecs):
        copy = bytearray(data)
        _patch(copy, batches, times, offset, context)
        yield copy, scan(copy).batches
        return
    for index, codec in enumerate(codecs):
        part = _batch_bytes(data, batches, index)
        records = int64s(batches, "lastOffset")[index] - _first_offset(data, batches, index, context) + 1
        if codec is None:
            patched = bytearray(part)
            _patch(patched, scan(patched).batches, times[index : index + 1], offset, context)
            yield patched, scan(patched).batches
        else:
            row = {name: batches.column(name)[index].as_py() for name in batches.schema.names}
            yield _reencode(part, row, codec, offset, context)
        offset += records


def _scan_batches(data: memoryview, context: AppendContext) -> pa.RecordBatch:
    scanned = scan(data, check_crcs=True, max_batch_bytes=context.max_batch_bytes)
    damage = scanned.damage.message if scanned.damage else None
    position = scanned.position
    if damage is None and (scanned.status != "end" or scanned.position != len(data)):
        damage = f"expected whole batches, found none from byte {scanned.position} to the end"
    wrong = pc.index(scanned.batches.column("isValid"), False).as_py()
    if wrong >= 0:
        damage, position = "the checksum does not match the bytes", int64s(scanned.batches, "position")[wrong]
    if damage is not None:
        raise CorruptRecordError(f"batches to append, at byte {position}: {damage}", path=context.path)
    return scanned.batches


def _batch_bytes(data: memoryview, batches: pa.RecordBatch, index: int) -> memoryview:
    position = int64s(batches, "position")[index]
    return data[position : position + int32s(batches, "sizeInBytes")[index]]


def _first_offset(data: memoryview, batches: pa.RecordBatch, index: int, context: AppendContext) -> int:
    first = batches.column("baseOffset")[index].as_py()
    if first is not None:
        return int(first)
    part = _batch_bytes(data, batches, index)  # a compressed v0/v1 wrapper, which has only its last offset
    inner = decode(part, ["offset"], _decode_options(context)).batch
    return int(int64s(batches, "lastOffset")[index] - inner.num_rows + 1)


def _validate_records(data: memoryview, batches: pa.RecordBatch, index: int, context: AppendContext) -> int:
    """Check the records of a batch; return the maximum timestamp that its header must have, in ms.

    Raises CorruptRecordError, InvalidRecordError, InvalidTimestampError.
    """
    columns = ["offset", "timestamp", *(["key"] if context.config.is_compacted else [])]
    part, base = _batch_bytes(data, batches, index), batches.column("baseOffset")[index].as_py()
    decoded = decode(part, columns, _decode_options(context, control=True))
    name = f"batch {index} of those to append"
    if decoded.damage is not None:
        raise CorruptRecordError(f"{name}: {decoded.damage.message}", path=context.path, offset=base)
    if batches.column("isControl")[index].as_py():
        return int64s(batches, "maxTimestamp")[index]
    records = decoded.batch
    if int32s(batches, "magic")[index] >= 2:
        offsets = int64s(records, "offset").tolist()
        if offsets != list(range(base, base + len(offsets))):
            message = f"{name}: expected the offset deltas 0, 1, 2, ..., found others"
            raise InvalidRecordError(message, path=context.path, offset=base)
    if context.config.is_compacted and records.column("key").null_count:
        raise InvalidRecordError(
            f"{name}: expected a key in each record, because the topic is compacted (cleanup.policy), found "
            "null",
            path=context.path,
            offset=base,
        )
    if context.append_time_ms is not None:
        return context.append_time_ms
    times = records.column("timestamp")
    if batches.column("timestampType")[index].as_py() != 1:
        check_timestamps(times, context.config, context.now_ms, context.path)
    greatest = pc.max(times.cast(pa.int64())).as_py()
    return -1 if greatest is None else max(-1, greatest // 1000)


def _target_codecs(batches: pa.RecordBatch, context: AppendContext) -> list[str | None]:
    """Return for each batch the codec with which it must be encoded again; None if its bytes can stay."""
    compression_type = context.config.compression_type
    codecs: list[str | None] = []
    for magic, codec, is_control in zip(
        *(batches.column(name).to_pylist() for name in ("magic", "compression", "isControl")), strict=True
    ):
        target = codec if compression_type == "producer" else compression_type
        codecs.append(None if is_control or (magic >= 2 and codec == target) else target)
    return codecs


def _patch(
    data: bytearray,
    batches: pa.RecordBatch,
    greatest_timestamps: list[int],
    offset: int,
    context: AppendContext,
) -> None:
    """Set offsets and leader epoch in place; the checksum does not cover them.

    If the timestamp type or the maximum timestamp must change too, set these and the checksum.
    """
    timestamp_type_bit = 0 if context.append_time_ms is None else _LOG_APPEND_TIME_BIT
    positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
    bases, last_offsets = batches.column("baseOffset").to_pylist(), int64s(batches, "lastOffset")
    attributes, old_times = int32s(batches, "attributes"), int64s(batches, "maxTimestamp")
    controls = batches.column("isControl").to_pylist()
    for i in range(batches.num_rows):
        start, end = positions[i], positions[i] + sizes[i]
        struct.pack_into(">q", data, start, offset)
        struct.pack_into(">i", data, start + _LEADER_EPOCH_AT, context.leader_epoch)
        offset += last_offsets[i] - bases[i] + 1
        new_attributes = attributes[i] & ~_LOG_APPEND_TIME_BIT | timestamp_type_bit
        if controls[i] or (new_attributes == attributes[i] and greatest_timestamps[i] == old_times[i]):
            continue
        struct.pack_into(">h", data, start + _ATTRIBUTES_AT, new_attributes)
        struct.pack_into(">q", data, start + _MAX_TIMESTAMP_AT, greatest_timestamps[i])
        struct.pack_into(">I", data, start + _CRC_AT, crc32c(memoryview(data)[start + _ATTRIBUTES_AT : end]))


def _reencode(
    part: memoryview, row: dict[str, Any], codec: str, offset: int, context: AppendContext
) -> EncodedBatches:
    """Encode the records of a batch again, with magic 2. Batches of magic 0 and 1 have no producer."""
    names = ["key", "value", "headers", "timestamp"]
    records = decode(part, names, _decode_options(context)).batch
    has_producer = row["magic"] >= 2
    options = EncodeOptions(
        compression=codec,
        level=context.config.compression_level(codec),
        batch_size=2**31 - 1,
        max_message_bytes=context.config.max_message_bytes,
        leader_epoch=context.leader_epoch,
        producer_id=row["producerId"] if has_producer else -1,
        producer_epoch=row["producerEpoch"] if has_producer else -1,
        is_transactional=bool(row["isTransactional"]) if has_producer else False,
        timestamp_type=0 if context.append_time_ms is None else 1,
        append_time_ms=-1 if context.append_time_ms is None else context.append_time_ms,
        now_ms=context.now_ms,
    )
    base_sequence = row["baseSequence"] if has_producer else -1
    encoded = encode(records, options, base_offset=offset, base_sequence=base_sequence)
    return encoded.data, encoded.batches


def _decode_options(context: AppendContext, *, control: bool = False) -> DecodeOptions:
    """Return options for batches whose checksums have been checked."""
    return DecodeOptions(check_crcs=False, max_batch_bytes=context.max_batch_bytes, control=control)
