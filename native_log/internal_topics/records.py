"""Read the records of a partition of an internal topic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.offset_span import OffsetSpan
from native_log.log.reading.latest import latest_rows
from native_log.log.reading.reader import read_rows
from native_log.messages.reading import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.log import LogRange, PartitionLog
    from native_log.log.reading.options import ReadOptions

RECORD_FIELDS = ("offset", "timestamp", "key", "value")
HISTORY_FIELDS = (*RECORD_FIELDS, "producerId", "isTransactional")
_ROWS = 8192
"""About how many rows a batch of a table has."""
LAST_MS = (2**63 - 1) // 1000
"""The last time in epoch ms that is also a number of us."""
_TYPE_BYTES = 2


class Record(NamedTuple):
    """A record.

    Attributes:
        timestamp_us: in microseconds since 1970; None: the record has no timestamp.
        producer_id: -1 if there is none, or if it was not read.
    """

    offset: int
    timestamp_us: int | None
    key: bytes | None
    value: bytes | None
    producer_id: int = -1
    is_transactional: bool = False

    def location(self, partition: int) -> dict[str, Any]:
        """Return the values of RECORD_COLUMNS for a record that can be decoded."""
        return {
            "recordPartition": partition,
            "recordOffset": self.offset,
            "recordTimestamp": self.timestamp_us,
        }

    def undecodable(self, partition: int, error: MessageError) -> dict[str, Any]:
        """Return the values of RECORD_COLUMNS for a record that cannot be decoded."""
        return {
            **self.location(partition),
            "error": str(error),
            "recordKey": self.key,
            "recordValue": self.value,
        }


def known_range(log: PartitionLog) -> LogRange:
    """Return the records up to the high watermark, and at least those of all closed segments.

    The high watermark in the checkpoint is some seconds old. A broker may have removed a record because a
    closed segment has a newer one with its key. So those are needed, too.
    """
    range = log.range()
    closed_end = log.segments[-1].base_offset if log.segments else 0
    if closed_end <= range.end_offset:
        return range
    located = log.state.locate(OffsetSpan(range.start_offset, closed_end))
    return replace(range, end_offset=closed_end, slices=located.slices, earlier=located.earlier)


def visible_range(log: PartitionLog) -> LogRange:
    """Return `known_range` without the records of transactions that are not committed.

    A coordinator uses these. A read_committed consumer gets fewer: it stops at the first open transaction.
    """
    return replace(known_range(log), isolation_level="read_committed")


def latest_records(
    log: PartitionLog, read_options: ReadOptions, *, except_types: Iterable[int] = ()
) -> Iterator[Record]:
    """Read the newest record of each key of `visible_range`, in the order of offsets, tombstones too.

    Args:
        log: a partition of an internal topic.
        read_options: what to do about damage and data loss.
        except_types: types of records to skip. A key begins with its type.
    """
    prefixes = pa.array([kind.to_bytes(_TYPE_BYTES) for kind in except_types], pa.binary())
    for batch in latest_batches(log, read_options):
        types = pc.binary_slice(batch.column("key"), 0, _TYPE_BYTES)
        yield from records_of(batch.filter(pc.invert(pc.is_in(types, prefixes))) if len(prefixes) else batch)


def latest_batches(log: PartitionLog, read_options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read the same as `latest_records`, as batches with RECORD_FIELDS."""
    return latest_rows(visible_range(log), RECORD_FIELDS, read_options)


def all_records(log: PartitionLog, read_options: ReadOptions) -> Iterator[Record]:
    """Read all records of `known_range`, those of aborted and open transactions too."""
    return (record for batch in all_batches(log, read_options) for record in records_of(batch))


def all_batches(log: PartitionLog, read_options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read the same as `all_records`, as batches with HISTORY_FIELDS."""
    return read_rows(known_range(log), HISTORY_FIELDS, read_options)


def records_of(batch: pa.RecordBatch) -> Iterator[Record]:
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in batch.columns
    ]
    return map(Record, *columns)


def to_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Put rows into record batches. Missing columns become null."""
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == _ROWS:
            yield pa.RecordBatch.from_pylist(some, schema)
            some = []
    if some:
        yield pa.RecordBatch.from_pylist(some, schema)


def times_ms(timestamps: pa.Array) -> pa.Array:
    """Convert timestamps to int64, in epoch ms."""
    return pc.divide(timestamps.cast(pa.int64()), 1000)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a table. Times are in epoch ms, because datetime does not cover all of them."""
    for index, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type):
            batch = batch.set_column(index, column.name, times_ms(batch.column(index)))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def timestamp_us(field: str, time_ms: int) -> int | None:
    """Convert epoch ms to epoch us. Negative times are unknown: None.

    Raises:
        MessageError: the time does not fit into 64 bits of us.
    """
    if time_ms < 0:
        return None
    if time_ms > LAST_MS:
        raise MessageError(f"expected {field} up to {LAST_MS}, found {time_ms}")
    return time_ms * 1000
