"""Records and batches on their way into a log: checked, encoded or taken as bytes, given their offsets
(Kafka: LogValidator)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from native_log.errors import CorruptRecordError, InvalidRecordError
from native_log.log.validation import LOG_APPEND_TIME, check_records, check_sizes, check_timestamps
from native_log.records import DEFAULT_MAX_BATCH_BYTES, decode, encode, scan
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Buffer

    from native_log.config import LogConfig
    from native_log.log.append import LogAppender

_ORIGINS = ("client", "coordinator", "replication")
_SLICE_BYTES = 4 << 20
"""Records encoded at a time: enough for a large write, few enough to stay in the CPU's cache."""
_LOG_APPEND_TIME_BIT = 1 << 3
_MAX_SEQUENCE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Encoding:
    """How records become batches; see PartitionLog.append."""

    compression: str | None
    level: int | None
    batch_size: int
    leader_epoch: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


def encoded(
    records: pa.RecordBatch | pa.Table,
    how: Encoding,
    config: LogConfig,
    appender: LogAppender,
    now_ms: int,
    path: object,
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    """Pieces of encoded batches, with offsets from the log's end on. Raises as PartitionLog.append says."""
    batches = records.to_batches() if isinstance(records, pa.Table) else [records]
    for batch in batches:
        check_records(batch, config, now_ms, path)
    codec = how.compression or ("none" if config.compression_type == "producer" else config.compression_type)
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    sequence = how.base_sequence
    for batch in batches:
        for piece in _slices(batch):
            done = encode(
                piece,
                compression=codec,
                level=config.compression_level(codec) if how.level is None else how.level,
                batch_size=how.batch_size,
                max_message_bytes=config.max_message_bytes,
                base_offset=appender.log_end_offset,
                leader_epoch=appender.latest_epoch if how.leader_epoch is None else how.leader_epoch,
                producer_id=how.producer_id,
                producer_epoch=how.producer_epoch,
                base_sequence=sequence,
                is_transactional=how.is_transactional,
                timestamp_type=1 if is_append_time else 0,
                append_time_ms=now_ms if is_append_time else -1,
                now_ms=now_ms,
            )
            check_sizes(int32s(done.batches, "sizeInBytes").tolist(), config, path)
            yield done.data, done.batches
            sequence = -1 if sequence < 0 else (sequence + piece.num_rows) % (_MAX_SEQUENCE + 1)


def incoming(
    data: Buffer,
    origin: str,
    leader_epoch: int | None,
    config: LogConfig,
    appender: LogAppender,
    now_ms: int,
    path: object,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    """Encoded batches as pieces of a log. Raises as PartitionLog.append_batches says."""
    if origin not in _ORIGINS:
        raise ValueError(f"origin must be one of {', '.join(_ORIGINS)}, found {origin!r}")
    given = memoryview(data).cast("B")
    batches = _scanned(given, path, max_batch_bytes)
    if batches.num_rows == 0:
        return
    if origin == "replication":
        first = batches.column("baseOffset")[0].as_py()
        first = batches.column("lastOffset")[0].as_py() if first is None else first
        if first < appender.log_end_offset:
            raise InvalidRecordError(
                f"expected batches of a replica that go on at {appender.log_end_offset}, the log's end, or "
                f"above, found one at {first}",
                path=path,
                offset=first,
            )
        _check_order(batches, path)
        yield given, batches
        return
    _check_headers(batches, origin, config, path)
    epoch = appender.latest_epoch if leader_epoch is None else leader_epoch
    copy = bytearray(given)
    max_times = _check_records_of(copy, batches, config, now_ms, path, max_batch_bytes)
    rebuilt = _rebuilt_codecs(batches, config)
    offset = appender.log_end_offset
    if rebuilt is None:
        _patch(copy, batches, max_times, offset, epoch, config, now_ms)
        yield copy, _scanned(memoryview(copy), path, max_batch_bytes)
        return
    for index, codec in enumerate(rebuilt):
        row = {name: batches.column(name)[index].as_py() for name in batches.schema.names}
        one = batches.slice(index, 1)
        part = memoryview(copy)[row["position"] : row["position"] + row["sizeInBytes"]]
        if codec is None:
            fresh = bytearray(part)
            rows = _scanned(memoryview(fresh), path, max_batch_bytes)
            _patch(fresh, rows, max_times[index : index + 1], offset, epoch, config, now_ms)
            yield fresh, _scanned(memoryview(fresh), path, max_batch_bytes)
        else:
            yield _recompressed(part, row, codec, offset, epoch, config, now_ms, max_batch_bytes)
        offset += one.column("lastOffset")[0].as_py() - _first_offset(part, row, max_batch_bytes) + 1


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _SLICE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _scanned(data: memoryview, path: object, max_batch_bytes: int) -> pa.RecordBatch:
    found = scan(data, check_crcs=True, max_batch_bytes=max_batch_bytes)
    damage = found.damage.message if found.damage else None
    position = found.position
    if damage is None and (found.status != "end" or found.position != len(data)):
        damage = f"expected whole batches, found the bytes from {found.position} on to be none"
    wrong = pc.index(found.batches.column("isValid"), False).as_py()
    if wrong >= 0:
        damage, position = "the checksum is not that of the bytes", int64s(found.batches, "position")[wrong]
    if damage is not None:
        raise CorruptRecordError(f"batches to append, at byte {position}: {damage}", path=path)
    return found.batches


def _check_order(batches: pa.RecordBatch, path: object) -> None:
    last_offsets = int64s(batches, "lastOffset")
    bases = batches.column("baseOffset").to_pylist()
    for before, base, last in zip(last_offsets, bases[1:], last_offsets[1:], strict=False):
        if (last if base is None else base) <= before:
            raise InvalidRecordError(
                f"expected batches in order of their offsets, found one at {base} behind {before}",
                path=path,
                offset=base,
            )


def _check_headers(batches: pa.RecordBatch, origin: str, config: LogConfig, path: object) -> None:
    """What a leader asks of a batch by its header alone (reference: ProduceRequest, LogValidator)."""
    names = ("magic", "baseOffset", "lastOffset", "recordCount", "isControl", "isTransactional", "producerId",
             "baseSequence", "timestampType")  # fmt: skip
    columns = [batches.column(name).to_pylist() for name in names]
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    for i, (magic, base, last, count, control, transactional, producer, sequence, time_type) in enumerate(
        zip(*columns, strict=True)
    ):
        problem = None
        if control:
            problem = None if origin == "coordinator" else "data, found a control batch (see origin)"
        elif magic >= 2:
            if count <= 0:
                problem = f"at least one record, found {count}"
            elif last - base != count - 1:
                problem = f"offsets without gaps, found {count} records over {last - base + 1} offsets"
            elif producer >= 0 and sequence < 0:
                problem = f"a sequence, for it has producer {producer}, found {sequence}"
            elif producer < 0 and transactional:
                problem = "a producer id, for it is transactional, found none"
            elif is_append_time and time_type == 1:
                problem = "CreateTime from a producer, found LogAppendTime"
        if problem is not None:
            raise InvalidRecordError(
                f"batch {i} of those to append, at its offset {base}: expected {problem}; batches of a "
                'replica are appended with origin "replication"',
                path=path,
            )
    check_sizes(int32s(batches, "sizeInBytes").tolist(), config, path)


def _check_records_of(
    data: bytearray,
    batches: pa.RecordBatch,
    config: LogConfig,
    now_ms: int,
    path: object,
    max_batch_bytes: int,
) -> list[int]:
    """Look into the batches; the greatest timestamp of each one's records, -1 for control batches."""
    found: list[int] = []
    is_create_time = config.message_timestamp_type != LOG_APPEND_TIME
    positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
    columns = ["offset", "timestamp", *(["key"] if config.is_compacted else [])]
    magics, controls = int32s(batches, "magic"), batches.column("isControl").to_pylist()
    headers_max, time_types = int64s(batches, "maxTimestamp"), batches.column("timestampType").to_pylist()
    bases = batches.column("baseOffset").to_pylist()
    for i in range(batches.num_rows):
        part = memoryview(data)[positions[i] : positions[i] + sizes[i]]
        decoded = decode(part, columns, control=True, check_crcs=False, max_batch_bytes=max_batch_bytes)
        if decoded.damage is not None:
            raise CorruptRecordError(
                f"batch {i} of those to append: {decoded.damage.message}", path=path, offset=bases[i]
            )
        records = decoded.batch
        if controls[i]:
            found.append(headers_max[i])
            continue
        if magics[i] >= 2:
            offsets = int64s(records, "offset")
            if offsets.tolist() != list(range(bases[i], bases[i] + len(offsets))):
                raise InvalidRecordError(
                    f"batch {i} of those to append: expected offset deltas from 0 up, each one more than the "
                    "one before",
                    path=path,
                    offset=bases[i],
                )
        if config.is_compacted and records.column("key").null_count:
            raise InvalidRecordError(
                f"batch {i} of those to append: expected a key in each record, for the topic is compacted "
                "(cleanup.policy), found null",
                path=path,
                offset=bases[i],
            )
        times = records.column("timestamp")
        if is_create_time:
            if time_types[i] != 1:
                check_timestamps(times, config, now_ms, path)
            greatest = pc.max(times.cast(pa.int64())).as_py()
            found.append(-1 if greatest is None else max(-1, greatest // 1000))
        else:
            found.append(now_ms)
    return found


def _rebuilt_codecs(batches: pa.RecordBatch, config: LogConfig) -> list[str | None] | None:
    """For each batch the codec it has to be encoded anew with, None where its bytes can stay; None: all."""
    wanted = config.compression_type
    codecs: list[str | None] = []
    for magic, codec, control in zip(
        *(batches.column(name).to_pylist() for name in ("magic", "compression", "isControl")), strict=True
    ):
        target = codec if wanted == "producer" else wanted
        codecs.append(None if control or (magic >= 2 and codec == target) else target)
    return codecs if any(codecs) else None


def _patch(
    data: bytearray,
    batches: pa.RecordBatch,
    max_times: list[int],
    offset: int,
    leader_epoch: int,
    config: LogConfig,
    now_ms: int,
) -> None:
    """Offsets and leader epoch in place: the checksum does not cover them. Where the timestamp type or the
    greatest timestamp has to be another, these and the checksum."""
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
    bases, last_offsets = batches.column("baseOffset").to_pylist(), int64s(batches, "lastOffset")
    attributes, old_max = int32s(batches, "attributes"), int64s(batches, "maxTimestamp")
    controls = batches.column("isControl").to_pylist()
    for i in range(batches.num_rows):
        at, end = positions[i], positions[i] + sizes[i]
        struct.pack_into(">q", data, at, offset)
        struct.pack_into(">i", data, at + 12, leader_epoch)
        offset += last_offsets[i] - bases[i] + 1
        wanted = attributes[i] & ~_LOG_APPEND_TIME_BIT | (_LOG_APPEND_TIME_BIT if is_append_time else 0)
        max_time = now_ms if is_append_time else max_times[i]
        if controls[i] or (wanted == attributes[i] and max_time == old_max[i]):
            continue
        struct.pack_into(">h", data, at + 21, wanted)
        struct.pack_into(">q", data, at + 35, max_time)
        struct.pack_into(">I", data, at + 17, crc32c(memoryview(data)[at + 21 : end]))


def _first_offset(part: memoryview, row: dict[str, Any], max_batch_bytes: int) -> int:
    if row["baseOffset"] is not None:
        return int(row["baseOffset"])
    inner = decode(part, ["offset"], check_crcs=False, max_batch_bytes=max_batch_bytes).batch
    return int(row["lastOffset"] - inner.num_rows + 1)


def _recompressed(
    part: memoryview,
    row: dict[str, Any],
    codec: str,
    offset: int,
    leader_epoch: int,
    config: LogConfig,
    now_ms: int,
    max_batch_bytes: int,
) -> tuple[Buffer, pa.RecordBatch]:
    """The batch's records in a new one of magic 2. What was of magic 0 or 1 has no producer."""
    names = ["key", "value", "headers", "timestamp"]
    records = decode(part, names, check_crcs=False, max_batch_bytes=max_batch_bytes).batch
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    keeps = row["magic"] >= 2
    done = encode(
        records,
        compression=codec,
        level=config.compression_level(codec),
        batch_size=2**31 - 1,
        max_message_bytes=config.max_message_bytes,
        base_offset=offset,
        leader_epoch=leader_epoch,
        producer_id=row["producerId"] if keeps else -1,
        producer_epoch=row["producerEpoch"] if keeps else -1,
        base_sequence=row["baseSequence"] if keeps else -1,
        is_transactional=bool(row["isTransactional"]) if keeps else False,
        timestamp_type=1 if is_append_time else 0,
        append_time_ms=now_ms if is_append_time else -1,
        now_ms=now_ms,
    )
    return done.data, done.batches
