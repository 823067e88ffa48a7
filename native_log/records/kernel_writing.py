"""The functions of the compiled kernel that write, or that take Arrow arrays.

Their arguments are checked in Python, as in the reference implementation. They need Arrow, which
takes longer to import than some commands take: the others, in `kernel`, do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.records.encoding import (
    Encoded,
    batch_positions,
    check_position,
    count_rows,
    known_parts,
    raise_no_batch,
    raise_rejection,
)
from native_log.records.partitioner import check_partitions, check_row_partitions, known_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from native_log import _kernel as kernel
    from native_log.records.encoding import Part
    from native_log.records.kernel import BatchBuilder
    from native_log.records.options import EncodeOptions
else:
    from native_log.records.kernel import kernel


def encode(
    records: pa.RecordBatch | Sequence[Part],
    options: EncodeOptions,
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
    encoded, rejection = kernel.encode(
        [(batch, None if rows is None else _values(rows)) for batch, rows in parts],
        options,
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


def encode_builders(
    builders: Sequence[BatchBuilder],
    options: EncodeOptions,
    *,
    base_offset: int = 0,
    base_sequence: int = -1,
) -> Encoded:
    """See native_log.records.reference.encode_builders."""
    rows = sum(builder.record_count for builder in builders)
    check_position(options, base_offset, base_sequence, rows, 1.0)
    encoded, rejection = kernel.encode_builders(
        builders, options, base_offset=base_offset, base_sequence=base_sequence
    )
    if encoded is None:
        raise_rejection(rejection, 0, options.max_message_bytes)
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
    rejected = kernel.patch(data, _values(positions), base_offset=base_offset, leader_epoch=leader_epoch)
    if rejected is not None:
        raise_no_batch(rejected + base_position, base_offset)


def write_prefixes(descriptor: int, batches: pa.RecordBatch, *, leader_epoch: int) -> None:
    """See native_log.records.reference.write_prefixes."""
    positions, base_offsets, sizes = (
        _values(batches.column(name)) for name in ("position", "baseOffset", "sizeInBytes")
    )
    kernel.write_prefixes(descriptor, positions, base_offsets, sizes, leader_epoch=leader_epoch)


def _values(numbers: pa.Array) -> memoryview:
    """Return the bytes of an array of integers without nulls."""
    width = numbers.type.byte_width
    start = numbers.offset * width
    return memoryview(numbers.buffers()[1] or b"").cast("B")[start : start + len(numbers) * width]


def murmur2(keys: pa.Array) -> pa.Array:
    """See native_log.records.reference.murmur2."""
    return pa.record_batch(kernel.murmur2(known_keys(keys))).column(0)


def partition_of_keys(keys: pa.Array, partitions: int) -> pa.Array:
    """See native_log.records.reference.partition_of_keys."""
    check_partitions(partitions)
    return pa.record_batch(kernel.murmur2(known_keys(keys), partitions)).column(0)


def rows_by_partition(partitions: pa.Array, count: int) -> list[tuple[int, pa.Array]]:
    """See native_log.records.reference.rows_by_partition."""
    check_row_partitions(partitions, count)
    batch, sizes = kernel.rows_by_partition(_values(partitions), count)
    rows, by_partition, start = pa.record_batch(batch).column(0), [], 0
    for partition, size in sizes:
        by_partition.append((partition, rows.slice(start, size)))
        start += size
    return by_partition
