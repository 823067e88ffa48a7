"""Functions of the compiled kernel with the interface of `native_log.records.reference`, where they are
documented. This module turns the kernel's tuples into values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records.encode import (
    MAX_ENCODED_BATCH_BYTES,
    Encoded,
    batch_positions,
    check_position,
    count_rows,
    known_parts,
    raise_no_batch,
    raise_rejection,
)
from native_log.records.loading import load_kernel
from native_log.records.options import DEFAULT_DECODE, DEFAULT_ENCODE
from native_log.records.partitioner import check_partitions, check_row_partitions, known_keys
from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES, Damage, Decoded, Scanned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from native_log import _kernel
    from native_log.records.encode import Part
    from native_log.records.options import DecodeOptions, EncodeOptions
    from native_log.records.schema import OffsetOrder
else:
    _kernel = load_kernel()

find_batch = _kernel.find_batch


def decode(
    buffer: Buffer,
    columns: Sequence[str],
    options: DecodeOptions = DEFAULT_DECODE,
    *,
    base_position: int = 0,
    order: OffsetOrder | None = None,
) -> Decoded:
    """See native_log.records.reference.decode."""
    return _decoded(
        _kernel.decode(buffer, columns, **_fields(options), base_position=base_position, order=order)
    )


def decode_file(
    descriptor: int,
    position: int,
    end: int,
    columns: Sequence[str],
    options: DecodeOptions = DEFAULT_DECODE,
    *,
    order: OffsetOrder | None = None,
) -> Decoded:
    """See native_log.records.reference.decode_file."""
    return _decoded(_kernel.decode((descriptor, position, end), columns, **_fields(options), order=order))


def _fields(options: Any) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__match_args__}


def _decoded(result: tuple[Any, ...]) -> Decoded:
    batch, status, position, next_offset, needed, damage = result
    return Decoded(pa.record_batch(batch), status, position, next_offset, needed, _damage(damage))


def scan(
    buffer: Buffer,
    *,
    base_position: int = 0,
    check_crcs: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
) -> Scanned:
    """See native_log.records.reference.scan."""
    batches, status, position, next_offset, needed, damage = _kernel.scan(
        buffer,
        base_position=base_position,
        check_crcs=check_crcs,
        max_batch_bytes=max_batch_bytes,
        order=order,
    )
    return Scanned(pa.record_batch(batches), status, position, next_offset, needed, _damage(damage))


def scan_headers(
    descriptor: int,
    position: int,
    end: int,
    *,
    max_rows: int,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
) -> Scanned:
    """See native_log.records.reference.scan_headers."""
    batches, status, position, next_offset, needed, damage = _kernel.scan_headers(
        descriptor, position, end, max_rows=max_rows, max_batch_bytes=max_batch_bytes, order=order
    )
    return Scanned(pa.record_batch(batches), status, position, next_offset, needed, _damage(damage))


def encode(
    records: pa.RecordBatch | Sequence[Part],
    options: EncodeOptions = DEFAULT_ENCODE,
    *,
    base_offset: int = 0,
    base_sequence: int = -1,
    base_position: int = 0,
    estimated_ratio: float = 1.0,
    first_row: int = 0,
    finish: bool = True,
) -> Encoded:
    """See native_log.records.reference.encode."""
    parts = known_parts(records)
    check_position(options, base_offset, base_sequence, count_rows(parts), estimated_ratio)
    fields = _fields(options)
    fields["batch_size"] = min(options.batch_size, MAX_ENCODED_BATCH_BYTES)
    if options.max_message_bytes is not None:
        fields["max_message_bytes"] = min(options.max_message_bytes, MAX_ENCODED_BATCH_BYTES)
    if not fields.pop("timestamp_type"):
        fields["append_time_ms"] = None
    encoded, rejection = _kernel.encode(
        [(batch, None if rows is None else _values(rows)) for batch, rows in parts],
        **fields,
        base_offset=base_offset,
        base_sequence=base_sequence,
        base_position=base_position,
        estimated_ratio=estimated_ratio,
        finish=finish,
    )
    if encoded is None:
        raise_rejection(rejection, first_row, options.max_message_bytes)
    data, batches, encoded_rows, ratio = encoded
    return Encoded(memoryview(data), batches, encoded_rows, ratio)


def patch(
    data: Buffer,
    batches: pa.RecordBatch | pa.Array | Sequence[int],
    *,
    base_offset: int,
    leader_epoch: int,
    base_position: int = 0,
) -> None:
    """See native_log.records.reference.patch."""
    positions = batch_positions(batches, base_position)
    rejected = _kernel.patch(data, _values(positions), base_offset=base_offset, leader_epoch=leader_epoch)
    if rejected is not None:
        raise_no_batch(rejected + base_position, base_offset)


def write_prefixes(descriptor: int, batches: pa.RecordBatch, *, leader_epoch: int) -> None:
    """See native_log.records.reference.write_prefixes."""
    positions, base_offsets, sizes = (
        _values(batches.column(name)) for name in ("position", "baseOffset", "sizeInBytes")
    )
    _kernel.write_prefixes(descriptor, positions, base_offsets, sizes, leader_epoch=leader_epoch)


def _values(numbers: pa.Array) -> memoryview:
    """Return the bytes of an array of integers without nulls."""
    width = numbers.type.byte_width
    start = numbers.offset * width
    return memoryview(numbers.buffers()[1] or b"").cast("B")[start : start + len(numbers) * width]


def murmur2(keys: pa.Array) -> pa.Array:
    """See native_log.records.reference.murmur2."""
    return pa.record_batch(_kernel.murmur2(known_keys(keys))).column(0)


def partition_of_keys(keys: pa.Array, partitions: int) -> pa.Array:
    """See native_log.records.reference.partition_of_keys."""
    check_partitions(partitions)
    return pa.record_batch(_kernel.murmur2(known_keys(keys), partitions)).column(0)


def deal(partitions: pa.Array, count: int) -> list[tuple[int, pa.Array]]:
    check_row_partitions(partitions, count)
    batch, sizes = _kernel.deal(_values(partitions), count)
    rows, by_partition, start = pa.record_batch(batch).column(0), [], 0
    for partition, size in sizes:
        by_partition.append((partition, rows.slice(start, size)))
        start += size
    return by_partition


def _damage(fields: tuple[Any, ...] | None) -> Damage | None:
    return None if fields is None else Damage(*fields)
