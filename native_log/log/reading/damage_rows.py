"""The rows of damaged ranges, which mode permissive returns among those of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.segment.damage import DamagedRange


def damage_rows(
    damaged: Sequence[DamagedRange], columns: Sequence[str], topic: str, partition: int, segment: str
) -> pa.RecordBatch:
    """Return one row for each damaged range of a segment. Columns that describe a record are null."""
    count = len(damaged)
    if not columns:  # rows are counted
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    values: dict[str, Callable[[], list[Any]]] = {
        "topic": lambda: [topic] * count,
        "partition": lambda: [partition] * count,
        "offset": lambda: [each.offset for each in damaged],
        "position": lambda: [each.position for each in damaged],
        "segment": lambda: [segment] * count,
        CORRUPT_RECORD: lambda: [str(each) for each in damaged],
    }
    arrays = [
        pa.array(values[name](), _type_of(name)) if name in values else pa.nulls(count, _type_of(name))
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def insert_rows(batch: pa.RecordBatch, rows: pa.RecordBatch, rows_before: Sequence[int]) -> pa.RecordBatch:
    """Return `batch` with further rows of the same columns.

    Args:
        batch: the batch.
        rows: the further rows.
        rows_before: for each of them, how many rows of `batch` come before it; in ascending order.
    """
    indices: list[int] = []
    start, count = 0, batch.num_rows
    for index, end in enumerate(rows_before):
        indices.extend(range(start, end))
        indices.append(count + index)
        start = end
    indices.extend(range(start, count))
    arrays = [pa.concat_arrays(columns) for columns in zip(batch.columns, rows.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names).take(pa.array(indices, pa.int64()))


def _type_of(column: str) -> pa.DataType:
    return pa.string() if column == CORRUPT_RECORD else RECORD_SCHEMA.field(column).type
