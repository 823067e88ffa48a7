"""Encoded batches on their way into a log: checked, and taken as bytes wherever a broker takes them as bytes
(Kafka: LogValidator)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from native_log.errors import CorruptRecordError, InvalidRecordError
from native_log.log.writing.sequences import new_batches
from native_log.log.writing.validation import check_headers, check_order, check_timestamps
from native_log.records import decode, encode, scan
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Buffer

    from native_log.log.writing.append_context import AppendContext

EncodedBatches = tuple["Buffer", pa.RecordBatch]
"""Bytes of whole batches, and their rows of BATCH_SCHEMA."""

_ORIGINS = ("client", "coordinator", "replication")
_LOG_APPEND_TIME_BIT = 1 << 3
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT, _LEADER_EPOCH_AT = 17, 21, 35, 12


def incoming(data: Buffer, origin: str, at: AppendContext) -> tuple[int, Iterator[EncodedBatches]]:
    """Encoded batches as pieces of a log: (offset of the first record, pieces).

    Raises as PartitionLog.append_batches says, at once or while the pieces are made.
    """
    if origin not in _ORIGINS:
        raise ValueError(f"origin must be one of {', '.join(_ORIGINS)}, found {origin!r}")
    given = memoryview(data).cast("B")
    batches = _scanned(given, at)
    if batches.num_rows == 0:
        return at.log_end_offset, iter(())
    if origin == "replication":
        check_order(batches, at.log_end_offset, at.path)
        return _first_offset(given, batches, 0, at), iter([(given, batches)])
    check_headers(batches, origin, at.config, at.path)
    new = new_batches(batches, at.producers, at.path)
    if len(new.indexes) < batches.num_rows:
        given = memoryview(b"".join(_part(given, batches, index) for index in new.indexes))
        batches = batches.take(pa.array(new.indexes, pa.int64()))
        batches = _scanned(given, at) if len(given) else batches
    first_offset = at.log_end_offset if new.first_offset is None else new.first_offset
    return first_offset, _prepared(given, batches, at)


def _prepared(given: memoryview, batches: pa.RecordBatch, at: AppendContext) -> Iterator[EncodedBatches]:
    times = [_greatest_timestamp(given, batches, i, at) for i in range(batches.num_rows)]
    codecs = _codecs_to_rebuild(batches, at)
    offset = at.log_end_offset
    if not any(codecs):
        copy = bytearray(given)
        _patch(copy, batches, times, offset, at)
        yield copy, scan(copy).batches
        return
    for index, codec in enumerate(codecs):
        part = _part(given, batches, index)
        records = int64s(batches, "lastOffset")[index] - _first_offset(given, batches, index, at) + 1
        if codec is None:
            one = bytearray(part)
            _patch(one, scan(one).batches, times[index : index + 1], offset, at)
            yield one, scan(one).batches
        else:
            row = {name: batches.column(name)[index].as_py() for name in batches.schema.names}
            yield _rebuilt(part, row, codec, offset, at)
        offset += records


def _scanned(data: memoryview, at: AppendContext) -> pa.RecordBatch:
    found = scan(data, check_crcs=True, max_batch_bytes=at.max_batch_bytes)
    damage = found.damage.message if found.damage else None
    position = found.position
    if damage is None and (found.status != "end" or found.position != len(data)):
        damage = f"expected whole batches, found the bytes from {found.position} on to be none"
    wrong = pc.index(found.batches.column("isValid"), False).as_py()
    if wrong >= 0:
        damage, position = "the checksum is not that of the bytes", int64s(found.batches, "position")[wrong]
    if damage is not None:
        raise CorruptRecordError(f"batches to append, at byte {position}: {damage}", path=at.path)
    return found.batches


def _part(data: memoryview, batches: pa.RecordBatch, index: int) -> memoryview:
    position = int64s(batches, "position")[index]
    return data[position : position + int32s(batches, "sizeInBytes")[index]]


def _first_offset(data: memoryview, batches: pa.RecordBatch, index: int, at: AppendContext) -> int:
    first = batches.column("baseOffset")[index].as_py()
    if first is not None:
        return int(first)
    part = _part(data, batches, index)  # a compressed v0/v1 wrapper, which has its last offset
    inner = decode(part, ["offset"], check_crcs=False, max_batch_bytes=at.max_batch_bytes).batch
    return int(int64s(batches, "lastOffset")[index] - inner.num_rows + 1)


def _greatest_timestamp(data: memoryview, batches: pa.RecordBatch, index: int, at: AppendContext) -> int:
    """Look into a batch; the greatest timestamp that it has to have, ms.

    Raises CorruptRecordError, InvalidRecordError, InvalidTimestampError.
    """
    columns = ["offset", "timestamp", *(["key"] if at.config.is_compacted else [])]
    part, base = _part(data, batches, index), batches.column("baseOffset")[index].as_py()
    decoded = decode(part, columns, control=True, check_crcs=False, max_batch_bytes=at.max_batch_bytes)
    name = f"batch {index} of those to append"
    if decoded.damage is not None:
        raise CorruptRecordError(f"{name}: {decoded.damage.message}", path=at.path, offset=base)
    if batches.column("isControl")[index].as_py():
        return int64s(batches, "maxTimestamp")[index]
    records = decoded.batch
    if int32s(batches, "magic")[index] >= 2:
        offsets = int64s(records, "offset").tolist()
        if offsets != list(range(base, base + len(offsets))):
            message = f"{name}: expected offset deltas from 0 up, each one more than the one before"
            raise InvalidRecordError(message, path=at.path, offset=base)
    if at.config.is_compacted and records.column("key").null_count:
        raise InvalidRecordError(
            f"{name}: expected a key in each record, for the topic is compacted (cleanup.policy), found null",
            path=at.path,
            offset=base,
        )
    if at.append_time_ms is not None:
        return at.append_time_ms
    times = records.column("timestamp")
    if batches.column("timestampType")[index].as_py() != 1:
        check_timestamps(times, at.config, at.now_ms, at.path)
    greatest = pc.max(times.cast(pa.int64())).as_py()
    return -1 if greatest is None else max(-1, greatest // 1000)


def _codecs_to_rebuild(batches: pa.RecordBatch, at: AppendContext) -> list[str | None]:
    """For each batch the codec it has to be encoded anew with; None where its bytes can stay."""
    wanted = at.config.compression_type
    codecs: list[str | None] = []
    for magic, codec, is_control in zip(
        *(batches.column(name).to_pylist() for name in ("magic", "compression", "isControl")), strict=True
    ):
        target = codec if wanted == "producer" else wanted
        codecs.append(None if is_control or (magic >= 2 and codec == target) else target)
    return codecs


def _patch(
    data: bytearray, batches: pa.RecordBatch, greatest_timestamps: list[int], offset: int, at: AppendContext
) -> None:
    """Offsets and leader epoch in place: the checksum does not cover them. Where the timestamp type or the
    greatest timestamp has to be another, these and the checksum."""
    is_append_time = at.append_time_ms is not None
    positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
    bases, last_offsets = batches.column("baseOffset").to_pylist(), int64s(batches, "lastOffset")
    attributes, old_times = int32s(batches, "attributes"), int64s(batches, "maxTimestamp")
    controls = batches.column("isControl").to_pylist()
    for i in range(batches.num_rows):
        start, end = positions[i], positions[i] + sizes[i]
        struct.pack_into(">q", data, start, offset)
        struct.pack_into(">i", data, start + _LEADER_EPOCH_AT, at.leader_epoch)
        offset += last_offsets[i] - bases[i] + 1
        wanted = attributes[i] & ~_LOG_APPEND_TIME_BIT | (_LOG_APPEND_TIME_BIT if is_append_time else 0)
        if controls[i] or (wanted == attributes[i] and greatest_timestamps[i] == old_times[i]):
            continue
        struct.pack_into(">h", data, start + _ATTRIBUTES_AT, wanted)
        struct.pack_into(">q", data, start + _MAX_TIMESTAMP_AT, greatest_timestamps[i])
        struct.pack_into(">I", data, start + _CRC_AT, crc32c(memoryview(data)[start + _ATTRIBUTES_AT : end]))


def _rebuilt(
    part: memoryview, row: dict[str, Any], codec: str, offset: int, at: AppendContext
) -> EncodedBatches:
    """The batch's records in a new one of magic 2. What was of magic 0 or 1 has no producer."""
    names = ["key", "value", "headers", "timestamp"]
    records = decode(part, names, check_crcs=False, max_batch_bytes=at.max_batch_bytes).batch
    has_producer = row["magic"] >= 2
    done = encode(
        records,
        compression=codec,
        level=at.config.compression_level(codec),
        batch_size=2**31 - 1,
        max_message_bytes=at.config.max_message_bytes,
        base_offset=offset,
        leader_epoch=at.leader_epoch,
        producer_id=row["producerId"] if has_producer else -1,
        producer_epoch=row["producerEpoch"] if has_producer else -1,
        base_sequence=row["baseSequence"] if has_producer else -1,
        is_transactional=bool(row["isTransactional"]) if has_producer else False,
        timestamp_type=0 if at.append_time_ms is None else 1,
        append_time_ms=-1 if at.append_time_ms is None else at.append_time_ms,
        now_ms=at.now_ms,
    )
    return done.data, done.batches
