"""Build Arrow columns of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records.reference.codec import codec_name
from native_log.records.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.records.reference.batch import Batch
    from native_log.records.reference.record import Record

MIN_MICROSECONDS, MAX_MICROSECONDS = -(1 << 63), (1 << 63) - 1


def microseconds(timestamp_ms: int) -> int:
    return max(MIN_MICROSECONDS, min(timestamp_ms * 1000, MAX_MICROSECONDS))


def headers_or_null(record: Record) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in record.headers] or None


RECORD_FIELDS: dict[str, Callable[[Record], Any]] = {
    "key": lambda record: record.key,
    "value": lambda record: record.value,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: microseconds(record.timestamp),
    "timestampType": lambda record: record.timestamp_type,
    "headers": headers_or_null,
    "sequence": lambda record: record.sequence,
}
BATCH_FIELDS: dict[str, Callable[[Batch], Any]] = {
    "leaderEpoch": lambda batch: batch.header.leader_epoch,
    "producerId": lambda batch: batch.header.producer_id,
    "producerEpoch": lambda batch: batch.header.producer_epoch,
    "isTransactional": lambda batch: batch.header.is_transactional,
    "compression": lambda batch: codec_name(batch.header.codec),
    "magic": lambda batch: batch.header.magic,
    "batchOffset": lambda batch: batch.base_offset,
    "position": lambda batch: batch.header.position,
}


class RecordColumns:
    """Collects records and builds a RecordBatch of the requested columns.

    `columns` are names of RECORD_SCHEMA, in any order. `constants` has the values of the columns that are the
    same for all records: topic, partition, segment.
    """

    def __init__(self, columns: Sequence[str], constants: dict[str, Any]) -> None:
        unknown = [name for name in columns if name not in RECORD_SCHEMA.names]
        if unknown:
            raise ValueError(f"unknown column {unknown[0]!r}: records have {', '.join(RECORD_SCHEMA.names)}")
        self._schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
        self._constants = constants
        self._values: dict[str, list[Any]] = {name: [] for name in columns}
        self.rows = 0
        self.size_bytes = 0
        """The approximate size of the columns in Arrow."""

    def add(self, batch: Batch, records: list[Record]) -> None:
        self.rows += len(records)
        for name, values in self._values.items():
            if name in RECORD_FIELDS:
                added = [RECORD_FIELDS[name](record) for record in records]
            elif name in BATCH_FIELDS:
                added = [BATCH_FIELDS[name](batch)] * len(records)
            else:
                added = [self._constants[name]] * len(records)
            values += added
            self.size_bytes += sum(map(arrow_bytes, added))

    def reached(self, max_rows: int | None, max_bytes: int) -> bool:
        return (max_rows is not None and self.rows >= max_rows) or self.size_bytes >= max_bytes

    def finish(self) -> pa.RecordBatch:
        if not self._values:  # no columns, but a number of rows
            return pa.RecordBatch.from_struct_array(pa.array([{}] * self.rows, pa.struct([])))
        arrays = [pa.array(self._values[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def arrow_bytes(value: Any) -> int:
    """Return the approximate size of a value in an Arrow array, with its offset."""
    if isinstance(value, (bytes, str)):
        return 4 + len(value)
    if isinstance(value, list):
        return 4 + sum(arrow_bytes(header["key"]) + arrow_bytes(header["value"]) for header in value)
    return 8
