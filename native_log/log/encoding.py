"""Records on their way into a log: checked, encoded, given their offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import InvalidRecordError
from native_log.log.ahead import one_ahead
from native_log.log.sequences import MAX_SEQUENCE, check_producer
from native_log.log.validation import check_records, check_sizes
from native_log.records import encode
from native_log.segment.scan import int32s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from native_log.log.admission import Admission

_SLICE_BYTES = 4 << 20
"""Records encoded at a time: enough for a large write, few enough to stay in the CPU's cache."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How records become batches; see PartitionLog.append."""

    compression: str | None
    level: int | None
    batch_size: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


def encoded(records: object, how: Encoding, at: Admission) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    """Pieces of encoded batches: their bytes and rows. Raises as PartitionLog.append says."""
    rows = _arrow(records)
    pieces = _encoded(rows, how, at)
    # Where there is more than one, the next is encoded while one is written.
    return one_ahead(pieces) if rows.nbytes > _SLICE_BYTES else pieces


def _arrow(records: object) -> pa.RecordBatch | pa.Table:
    if isinstance(records, pa.RecordBatch | pa.Table):
        return records
    if hasattr(records, "__arrow_c_stream__") or hasattr(records, "__arrow_c_array__"):
        return pa.table(records)
    raise TypeError(
        "expected a pyarrow RecordBatch or Table, or a DataFrame that Arrow can take, found "
        f"{type(records).__name__}; pyarrow.RecordBatch.from_pylist makes one of a list of dicts"
    )


def _encoded(
    records: pa.RecordBatch | pa.Table, how: Encoding, at: Admission
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    row = 0
    for batch in records.to_batches() if isinstance(records, pa.Table) else [records]:
        check_records(batch, at.config, at.now_ms, at.path, row)
        row += batch.num_rows
    check_producer(
        at.producers, how.producer_id, how.producer_epoch, how.base_sequence, how.is_transactional, at.path
    )
    wanted = at.config.compression_type
    codec = how.compression or ("none" if wanted == "producer" else wanted)
    append_time_ms = at.append_time_ms
    offset, sequence, ratio = at.log_end_offset, how.base_sequence, 1.0
    for piece in _slices(records):
        if piece.num_rows:
            try:
                done = encode(
                    piece,
                    compression=codec,
                    level=at.config.compression_level(codec) if how.level is None else how.level,
                    batch_size=how.batch_size,
                    max_message_bytes=at.config.max_message_bytes,
                    base_offset=offset,
                    leader_epoch=at.leader_epoch,
                    producer_id=how.producer_id,
                    producer_epoch=how.producer_epoch,
                    base_sequence=sequence,
                    is_transactional=how.is_transactional,
                    timestamp_type=0 if append_time_ms is None else 1,
                    append_time_ms=-1 if append_time_ms is None else append_time_ms,
                    now_ms=at.now_ms,
                    estimated_ratio=ratio,
                )
            except InvalidRecordError as error:  # it counts the rows of this piece
                done_rows = offset - at.log_end_offset
                counted = f"counted from row {done_rows} on, " if done_rows else ""
                raise type(error)(f"{counted}{error.message}", path=at.path) from None
            rows = done.batches
            check_sizes(int32s(rows, "sizeInBytes").tolist(), at.config, at.path)
            yield done.data, rows
            offset, ratio = offset + piece.num_rows, done.estimated_ratio
            sequence = -1 if sequence < 0 else (sequence + piece.num_rows) % (MAX_SEQUENCE + 1)


def _slices(records: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    """Whatever pieces a table is in: batches of the log do not end where those do."""
    rows = max(1, records.num_rows * _SLICE_BYTES // max(1, records.nbytes))
    for start in range(0, records.num_rows, rows):
        piece = records.slice(start, rows)
        if isinstance(piece, pa.Table):
            yield from piece.combine_chunks().to_batches()
        else:
            yield piece
