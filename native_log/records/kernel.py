"""The compiled kernel behind the interface of native_log.records: its tuples become Decoded and Scanned.

What the functions do, take and raise is said where they can be read: in `native_log.records.reference`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records.encode import (
    MOST_BYTES,
    Encoded,
    batch_positions,
    check_settings,
    count_rows,
    known_parts,
    no_batch_at,
    refuse,
)
from native_log.records.loading import load_kernel
from native_log.records.partitioner import check_partitions, check_row_partitions, known_keys
from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES, Damage, Decoded, Scanned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from native_log import _kernel
    from native_log.records.encode import Part
    from native_log.records.schema import OffsetOrder
else:
    _kernel = load_kernel()

find_batch = _kernel.find_batch


def decode(
    buffer: Buffer,
    columns: Sequence[str],
    *,
    base_position: int = 0,
    start_offset: int | None = None,
    end_offset: int | None = None,
    aborted: Buffer = b"",
    max_rows: int | None = None,
    max_bytes: int | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    control: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    segment: str | None = None,
    order: OffsetOrder | None = None,
) -> Decoded:
    """See native_log.records.reference.decode."""
    return _decoded(
        _kernel.decode(
            buffer,
            columns,
            base_position=base_position,
            start_offset=start_offset,
            end_offset=end_offset,
            aborted=aborted,
            max_rows=max_rows,
            max_bytes=max_bytes,
            check_crcs=check_crcs,
            max_batch_bytes=max_batch_bytes,
            control=control,
            topic=topic,
            partition=partition,
            segment=segment,
            order=order,
        )
    )


def decode_file(descriptor: int, position: int, end: int, columns: Sequence[str], **how: Any) -> Decoded:
    """See native_log.records.reference.decode_file."""
    return _decoded(_kernel.decode((descriptor, position, end), columns, **how))


def _decoded(found: tuple[Any, ...]) -> Decoded:
    batch, status, position, next_offset, needed, damage = found
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
    estimated_ratio: float = 1.0,
    first_row: int = 0,
    finish: bool = True,
) -> Encoded:
    """See native_log.records.reference.encode."""
    parts = known_parts(records)
    check_settings(
        magic=magic,
        compression=compression,
        level=level,
        batch_size=batch_size,
        rows=count_rows(parts),
        max_message_bytes=max_message_bytes,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        timestamp_type=timestamp_type,
        estimated_ratio=estimated_ratio,
    )
    encoded, refused = _kernel.encode(
        [(batch, None if rows is None else _values(rows)) for batch, rows in parts],
        magic=magic,
        compression=compression,
        level=level,
        batch_size=min(batch_size, MOST_BYTES),
        max_message_bytes=None if max_message_bytes is None else min(max_message_bytes, MOST_BYTES),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        append_time_ms=append_time_ms if timestamp_type else None,
        now_ms=now_ms,
        base_position=base_position,
        estimated_ratio=estimated_ratio,
        finish=finish,
    )
    if encoded is None:
        refuse(refused, first_row, max_message_bytes)
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
    refused = _kernel.patch(data, _values(positions), base_offset=base_offset, leader_epoch=leader_epoch)
    if refused is not None:
        no_batch_at(refused + base_position, base_offset)


def write_prefixes(descriptor: int, batches: pa.RecordBatch, *, leader_epoch: int) -> None:
    """See native_log.records.reference.write_prefixes."""
    positions, base_offsets, sizes = (
        _values(batches.column(name)) for name in ("position", "baseOffset", "sizeInBytes")
    )
    _kernel.write_prefixes(descriptor, positions, base_offsets, sizes, leader_epoch=leader_epoch)


def _values(numbers: pa.Array) -> memoryview:
    """The bytes of an array of integers."""
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


def _damage(found: tuple[Any, ...] | None) -> Damage | None:
    return None if found is None else Damage(*found)
