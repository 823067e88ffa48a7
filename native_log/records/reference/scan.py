"""Read headers of batches: one row for each batch."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records.reference.batch import has_valid_crc
from native_log.records.reference.codec import codec_name
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import V2_HEADER, BatchHeader, header_at, wrap64
from native_log.records.reference.order import OrderCheck
from native_log.records.reference.varint import read_varint, read_varlong
from native_log.records.schema import BATCH_SCHEMA, DEFAULT_MAX_BATCH_BYTES, Scanned

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from native_log.records.schema import OffsetOrder

CONTROL_KEY = struct.Struct(">hh")
"""version, type"""
CONTROL_BYTES = 32
"""The first bytes of the records that are read for the type of a control batch: a record's fields before its
key take at most 26 bytes, and the key of a control record 4."""


def scan(
    buffer: Buffer,
    *,
    base_position: int = 0,
    check_crcs: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
) -> Scanned:
    """Return one row (BATCH_SCHEMA) for each batch in `buffer`, from its header.

    A wrong CRC, an unknown codec or an impossible record count does not end a scan. Of the last batch, the
    buffer need only contain the header, and of a control batch the key of its record too. `position` may be
    beyond the buffer then.

    Args:
        buffer: bytes of a .log file, from the beginning of a batch.
        base_position: position of the buffer's first byte in the file.
        check_crcs: whether to check the CRC of each batch and set `isValid`, as a broker does in recovery:
            of v0/v1 wrappers the wrapper's own CRC. The buffer must contain whole batches then.
        max_batch_bytes: the most bytes that a header may claim.
        order: what is known of the offsets (see OffsetOrder). None: batches may come in any order.
    """
    data = memoryview(buffer).cast("B")
    return _scan(lambda index: data[index:], base_position, None, check_crcs, max_batch_bytes, order)


def scan_headers(
    descriptor: int,
    position: int,
    end: int,
    *,
    max_rows: int,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
) -> Scanned:
    """Scan a file's bytes from `position` (inclusive) to `end` (exclusive), with one small read for each
    batch.

    This is for large batches, where reading the bytes between the headers would cost more. With the status
    "zeros", only as many bytes as a header takes are known to be zero.

    Args:
        descriptor: of a file that is open for reading.
        max_rows: after this many batches, end with the status "limit".
        max_batch_bytes, order: as for `scan`.

    Raises:
        EOFError: the file ends before `end`.
        OSError: the file cannot be read.
    """

    def read_header(index: int) -> memoryview:
        size = min(V2_HEADER.size + CONTROL_BYTES, max(0, end - position - index))
        data = os.pread(descriptor, size, position + index)
        if len(data) < size:
            raise EOFError(f"the file ends before position {position + index + size}")
        return memoryview(data)

    return _scan(read_header, position, max_rows, False, max_batch_bytes, order)


def _scan(
    bytes_from: Callable[[int], memoryview],
    base_position: int,
    max_rows: int | None,
    check_crcs: bool,
    max_batch_bytes: int,
    offset_order: OffsetOrder | None,
) -> Scanned:
    rows: list[dict[str, Any]] = []
    order = None if offset_order is None else OrderCheck(offset_order)
    index = 0
    next_offset = None
    while True:
        rest = bytes_from(index)
        try:
            if max_rows is not None and len(rows) >= max_rows and rest:
                raise Stop("limit")
            header = header_at(rest, 0, base_position + index, max_batch_bytes)
            needed = header.size_bytes if check_crcs else header_and_control_bytes(header)
            if needed > len(rest):
                raise Stop("partial", needed)
            if order is not None:
                order.check(header, rest)
        except Stop as stop:
            batches = pa.RecordBatch.from_pylist(rows, schema=BATCH_SCHEMA)
            position = base_position + index
            return Scanned(batches, stop.status, position, next_offset, stop.needed_bytes, stop.damage)
        batch = rest[: header.size_bytes]
        rows.append(row(header, batch, has_valid_crc(header, batch) if check_crcs else None))
        index += header.size_bytes
        next_offset = wrap64(header.last_offset + 1)
        if order is not None:
            order.accept(next_offset)


def header_and_control_bytes(header: BatchHeader) -> int:
    """Return the bytes of a batch that a scan needs."""
    if has_control_record(header):
        return min(V2_HEADER.size + CONTROL_BYTES, header.size_bytes)
    return 0  # the header is there


def has_control_record(header: BatchHeader) -> bool:
    return header.is_control and header.record_count > 0


def row(header: BatchHeader, batch: memoryview, is_valid: bool | None) -> dict[str, Any]:
    return {
        "position": header.position,
        "sizeInBytes": header.size_bytes,
        "magic": header.magic,
        "baseOffset": None if header.is_wrapper else header.offset,
        "lastOffset": header.last_offset,
        "recordCount": None if header.is_wrapper else header.record_count,
        "compression": codec_name(header.codec),
        "timestampType": header.timestamp_type,
        "baseTimestamp": None if header.magic < 2 or header.has_delete_horizon else header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
        "leaderEpoch": header.leader_epoch,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.sequence(header.last_offset_delta),
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "controlType": control_type(batch) if has_control_record(header) and not header.codec else None,
        "attributes": header.attributes,
        "crc": header.crc,
        "isValid": is_valid,
    }


def control_type(batch: memoryview) -> int | None:
    """Return the type of the first record of a control batch: 0 (ABORT), 1 (COMMIT), ... (Kafka:
    ControlRecordType). None if its key is not a control record's."""
    end = min(len(batch), V2_HEADER.size + CONTROL_BYTES)
    try:
        _, at = read_varint(batch, V2_HEADER.size, end)  # length
        _, at = read_varlong(batch, at + 1, end)  # timestamp delta, after the attributes
        _, at = read_varint(batch, at, end)  # offset delta
        length, at = read_varint(batch, at, end)
    except DamagedBatchError:
        return None
    if length < CONTROL_KEY.size or at + CONTROL_KEY.size > end:
        return None
    version, control = CONTROL_KEY.unpack_from(batch, at)
    return None if version < 0 else int(control)
