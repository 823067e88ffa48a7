"""Read headers of batches: one row for each batch."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records.reference.batch import has_valid_crc
from native_log.records.reference.codec import codec_name
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import (
    MAGIC_AT,
    NEWEST_MAGIC,
    V2_HEADER,
    BatchHeader,
    header_at,
    wrap64,
)
from native_log.records.reference.order import OrderCheck
from native_log.records.reference.varint import read_varint, read_varlong
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES, Scanned
from native_log.records.schema import BATCH_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from native_log.records.results import OffsetOrder

CONTROL_KEY = struct.Struct(">hh")
"""version, type"""
CONTROL_BYTES = 32
"""The first bytes of the records that are read for the type of a control batch: a record's fields before its
key take at most 26 bytes, and the key of a control record 4."""
HEADER_BYTES = V2_HEADER.size + CONTROL_BYTES
"""The most bytes of a batch that a scan needs unless it checks CRCs."""


def scan(
    buffer: Buffer,
    *,
    base_position: int = 0,
    check_crcs: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
    columns: Sequence[str] | None = None,
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
        columns: the names of the columns to return, in any order; None: all.

    Raises ValueError: a column is unknown.
    """
    data = memoryview(buffer).cast("B")
    how = ScanOptions(
        base_position,
        check_crcs=check_crcs,
        max_batch_bytes=max_batch_bytes,
        order=order,
        schema=_schema_of(columns),
    )
    return scan_from(lambda index, _: data[index:], how)


def scan_headers(
    descriptor: int,
    position: int,
    end: int,
    *,
    max_rows: int,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
    columns: Sequence[str] | None = None,
) -> Scanned:
    """Scan a file's bytes from `position` (inclusive) to `end` (exclusive), with one small read for each
    batch.

    This is for large batches, where reading the bytes between the headers would cost more. With the status
    "zeros", only as many bytes as a header takes are known to be zero.

    Args:
        descriptor: of a file that is open for reading.
        max_rows: after this many batches, end with the status "limit".
        max_batch_bytes, order, columns: as for `scan`.

    Raises:
        EOFError: the file ends before `end`.
        OSError: the file cannot be read.
        ValueError: a column is unknown.
    """

    how = ScanOptions(
        position,
        max_rows=max_rows,
        max_batch_bytes=max_batch_bytes,
        order=order,
        schema=_schema_of(columns),
    )
    return scan_from(reader(descriptor, position, end), how)


def _schema_of(columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return BATCH_SCHEMA
    unknown = [name for name in columns if name not in BATCH_SCHEMA.names]
    if unknown:
        raise ValueError(f"unknown column {unknown[0]!r}: batches have {', '.join(BATCH_SCHEMA.names)}")
    return pa.schema([BATCH_SCHEMA.field(name) for name in columns])


def reader(descriptor: int, position: int, end: int) -> Callable[[int, int], memoryview]:
    """Return a function that reads a file, as `scan_from` needs it. It raises EOFError."""

    def read(index: int, size_bytes: int) -> memoryview:
        left = max(0, end - position - index)
        size = size_bytes if HEADER_BYTES < size_bytes <= left else min(HEADER_BYTES, left)
        data = os.pread(descriptor, size, position + index)
        if len(data) < size:
            raise EOFError(f"the file ends before position {position + index + size}")
        return memoryview(data)

    return read


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The arguments of `scan`, `scan_headers` and `check_file`."""

    base_position: int
    check_crcs: bool = False
    accept_newer: bool = False
    max_rows: int | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    order: OffsetOrder | None = None
    schema: pa.Schema = BATCH_SCHEMA


def scan_from(
    read: Callable[[int, int], memoryview],
    options: ScanOptions,
    is_last: Callable[[BatchHeader, memoryview, bool | None], bool] = lambda *_: False,
) -> Scanned:
    """Scan any bytes.

    Args:
        read: returns the bytes from an index on: at least those of a header, and of the number of bytes that
            it takes, or all that there are.
        options: the arguments of the scan.
        is_last: takes header, bytes and `isValid` of each batch and returns whether to end after it, with the
            status "limit".
    """
    rows: list[dict[str, Any]] = []
    order = None if options.order is None else OrderCheck(options.order)
    is_full = options.max_rows == 0
    index = 0
    next_offset = None
    while True:
        rest = read(index, 0)
        try:
            if is_full and rest:
                raise Stop("limit")
            header = _header_at(rest, options.base_position + index, options)
            if options.check_crcs:
                rest = read(index, header.size_bytes)
            needed = header.size_bytes if options.check_crcs else header_and_control_bytes(header)
            if needed > len(rest):
                raise Stop("partial", needed)
            batch = rest[: header.size_bytes]
            is_valid = has_valid_crc(header, batch) if options.check_crcs else None
            if batch[MAGIC_AT] != header.magic and not is_valid:
                header_at(rest, 0, header.position, options.max_batch_bytes)  # raises the damage
            if order is not None:
                order.check(header, rest)
        except Stop as stop:
            batches = pa.RecordBatch.from_pylist(rows, schema=options.schema)
            position = options.base_position + index
            return Scanned(batches, stop.status, position, next_offset, stop.needed_bytes, stop.damage)
        rows.append(row(header, batch, is_valid))
        is_full = is_last(header, batch, is_valid) or len(rows) == options.max_rows
        index += header.size_bytes
        next_offset = wrap64(header.last_offset + 1)
        if order is not None:
            next_offset = order.accept(next_offset)


def _header_at(rest: memoryview, position: int, options: ScanOptions) -> BatchHeader:
    if options.accept_newer and len(rest) > MAGIC_AT and NEWEST_MAGIC < rest[MAGIC_AT] < 128:
        as_newest = bytearray(rest)
        as_newest[MAGIC_AT] = NEWEST_MAGIC
        try:
            return header_at(memoryview(as_newest), 0, position, options.max_batch_bytes)
        except Stop as stop:
            if stop.status == "partial":
                raise
    return header_at(rest, 0, position, options.max_batch_bytes)


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
