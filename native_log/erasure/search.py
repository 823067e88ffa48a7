"""Where the selected records lie in a log."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import LogNeedsRecoveryError
from native_log.log.reading.log_range import LogRange
from native_log.log.segment_slices import SegmentSlice
from native_log.segment.damage import DamagedRange
from native_log.storage import DataFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from native_log.erasure.selection import Selection
    from native_log.log import PartitionLog

ERASURE_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "segment": pa.string(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "keySha256": pa.string(),
        "keyBytes": pa.int64(),
        "status": pa.string(),
        "reason": pa.string(),
    }
)
"""One row a record that was erased (in a dry run: would be): `segment` is the file it lay in, keySha256 is in
hex, it and keyBytes are null where there is no key; `status` is "erased". Besides, the others null, a row

- for each file that was left of other segments, its path as `segment`: "removed" (would be);
- for each place in the log directories that may hold copies and was not searched, its path as `segment`:
  "copy", `reason` says what it is and what to do. `topic` and `partition` are null where they are not known;
- for a partition that could not be dealt with: "failed", with `reason`. Nothing is erased of it but what is
  told to be.
"""


_MOST_BYTES = 64 << 20


def check_end(log: PartitionLog) -> None:
    """Raises LogNeedsRecoveryError where a torn write lies behind the last whole batch: it may hold records,
    too, and is not to be thrown away unseen."""
    if not log.segments:
        return
    last = log.segments[-1]
    end = log.end_position(last)
    with DataFile(str(last.path)) as file:
        if not file.is_zero(end, file.size_bytes):
            raise LogNeedsRecoveryError(
                f"expected a log that ends with a whole batch, found {file.size_bytes - end} bytes that are "
                "none, as a crash leaves them: run kafkalog recover, and erase then",
                path=last.path,
                position=end,
                offset=log.log_end_offset,
            )


def search(
    log: PartitionLog, selection: Selection, nulled: bool, advance: Callable[[int], None] = lambda _: None
) -> Iterator[pa.RecordBatch]:
    """The selected records as rows of ERASURE_SCHEMA, batch by batch.

    All that lies in the log's files is looked at: also below the log start offset, above the high watermark,
    and of aborted transactions. Raises CorruptRecordError.

    Args:
        nulled: but for those that are tombstones without headers.
    """
    columns = [*selection.columns, "offset", "timestamp", "segment"]
    if nulled:
        columns += {"value", "headers"}.difference(columns)
    for segment in log.segments:
        end = log.end_position(segment)
        if end == 0:
            continue
        piece = SegmentSlice.of(segment, 0, end)
        whole = LogRange(
            str(log.path),
            log.topic,
            log.partition,
            segment.base_offset,
            log.log_end_offset,
            "read_uncommitted",
            (piece,),
            log.max_batch_bytes,
        )
        for records in _joined(_read(whole, columns), len(selection.keys)):
            mask = selection.mask(records)
            if nulled:
                mask = pc.and_not(mask, _is_nulled(records))
            found = records.filter(mask)
            if found.num_rows:
                yield _rows(log, found)
        advance(end)


def _read(range: LogRange, columns: list[str]) -> Iterator[pa.RecordBatch]:
    return range.read(columns, mode="dropMalformed", on_damage=DamagedRange.refuse, first_rows=None)


def _joined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The batches, put together to about so many rows: to look for many keys takes as long as they are many,
    whatever they are looked for in."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= rows or sum(one.nbytes for one in held) >= _MOST_BYTES:
            yield pa.concat_batches(held)
            held.clear()
    if held:
        yield pa.concat_batches(held)


def _is_nulled(records: pa.RecordBatch) -> pa.BooleanArray:
    headers = pc.list_value_length(records.column("headers"))
    return pc.and_(pc.is_null(records.column("value")), pc.equal(headers.fill_null(0), 0))


def _rows(log: PartitionLog, found: pa.RecordBatch) -> pa.RecordBatch:
    count, keys = found.num_rows, found.column("key")
    digests = [None if key is None else hashlib.sha256(key).hexdigest() for key in keys.to_pylist()]
    columns = [
        pa.array([log.topic] * count, pa.string()),
        pa.array([log.partition] * count, pa.int32()),
        found.column("segment").cast(pa.string()),
        found.column("offset"),
        found.column("timestamp"),
        pa.array(digests, pa.string()),
        pc.binary_length(keys).cast(pa.int64()),
        pa.array(["erased"] * count, pa.string()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ERASURE_SCHEMA)
