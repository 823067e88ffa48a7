"""Search a log for the selected records."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import LogNeedsRecoveryError
from native_log.log.reading.log_range import LogRange
from native_log.log.slices import SegmentSlice
from native_log.segment.damage import DamagedRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from native_log.erasure.selection import RecordSelection
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
"""The report of an erasure. The column `status` is the kind of a row:

- "erased" (in a dry run: "would be erased"): a record. `segment` is the name of the file that contained it.
  `keySha256` (in hex) and `keyBytes` are null if the record has no key. A key that can be guessed can be
  found by its SHA-256, so the report is personal data.
- "removed" (in a dry run: "would be removed"): a leftover file of a segment. `segment` is its path.
- "copy": a place in the log directories that may contain copies and was not searched. `segment` is its path,
  and `reason` says what it is and what to do. `topic` and `partition` are null if they are not known.
- "failed": a partition that could not be processed, with the `reason`. Only the records that are reported as
  erased were erased from it.

All other columns of these rows are null.
"""


_MAX_JOINED_BYTES = 64 << 20


def check_end(log: PartitionLog) -> None:
    """Raise LogNeedsRecoveryError if the log ends with an incomplete batch.

    The incomplete batch may contain selected records, and must not be dropped without a report.
    """
    if not log.segments:
        return
    last = log.segments[-1]
    end = log.state.end_position(last)
    with last.open() as file:
        if not file.is_zero(end, file.size_bytes):
            raise LogNeedsRecoveryError(
                f"expected a log that ends with a whole batch, found {file.size_bytes - end} bytes after the "
                "last batch, as a crash leaves them; run kafkalog recover, then erase again",
                path=last.path,
                position=end,
                offset=log.log_end_offset,
            )


def search_log(
    log: PartitionLog,
    selection: RecordSelection,
    tombstone: bool,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the selected records as rows of ERASURE_SCHEMA, in offset order.

    All records in the log's files are searched, including those below the log start offset, above the high
    watermark, and of aborted transactions.

    Args:
        tombstone: whether records are replaced by tombstones; then tombstones without headers are left out.
        on_bytes: called with the number of bytes searched since the last call.

    Raises:
        CorruptRecordError: a batch is damaged.
    """
    columns = [*selection.columns, "offset", "timestamp", "segment"]
    if tombstone:
        columns += {"value", "headers"}.difference(columns)
    for segment in log.segments:
        end = log.state.end_position(segment)
        if end == 0:
            continue
        whole_segment = LogRange(
            log.state.source,
            segment.base_offset,
            log.log_end_offset,
            "read_uncommitted",
            (SegmentSlice.of(segment, 0, end),),
        )
        for records in _join_batches(_read(whole_segment, columns), len(selection.keys)):
            mask = selection.mask(records)
            if tombstone:
                mask = pc.and_not(mask, _is_bare_tombstone(records))
            selected = records.filter(mask)
            if selected.num_rows:
                yield _report_rows(log, selected)
        on_bytes(end)


def _read(range: LogRange, columns: list[str]) -> Iterator[pa.RecordBatch]:
    return range.read(columns, mode="dropMalformed", on_damage=DamagedRange.reject, first_rows=None)


def _join_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join consecutive batches to batches of about `rows` rows.

    `pc.is_in` builds a hash table of all selected keys in each call. Larger batches need fewer calls.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        is_large = sum(b.nbytes for b in pending) >= _MAX_JOINED_BYTES
        if is_large or sum(b.num_rows for b in pending) >= rows:
            yield pa.concat_batches(pending)
            pending.clear()
    if pending:
        yield pa.concat_batches(pending)


def _is_bare_tombstone(records: pa.RecordBatch) -> pa.BooleanArray:
    """Return for each record whether it has neither a value nor headers."""
    headers = pc.list_value_length(records.column("headers"))
    return pc.and_(pc.is_null(records.column("value")), pc.equal(headers.fill_null(0), 0))


def _report_rows(log: PartitionLog, records: pa.RecordBatch) -> pa.RecordBatch:
    count, keys = records.num_rows, records.column("key")
    digests = [None if key is None else hashlib.sha256(key).hexdigest() for key in keys.to_pylist()]
    columns = [
        pa.array([log.topic] * count, pa.string()),
        pa.array([log.partition] * count, pa.int32()),
        records.column("segment").cast(pa.string()),
        records.column("offset"),
        records.column("timestamp"),
        pa.array(digests, pa.string()),
        pc.binary_length(keys).cast(pa.int64()),
        pa.array(["erased"] * count, pa.string()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ERASURE_SCHEMA)
