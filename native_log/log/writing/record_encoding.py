"""Records on their way into a log: checked, encoded, given their offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import InvalidRecordError, RecordTooLargeError
from native_log.log.writing.sequences import MAX_SEQUENCE, check_producer
from native_log.log.writing.validation import LOG_APPEND_TIME, check_columns, check_records, check_target
from native_log.prefetch import prefetch
from native_log.records import encode
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from native_log.config import LogConfig
    from native_log.log.writing.append_context import AppendContext
    from native_log.records import Encoded
    from native_log.records.encode import Part

_SLICE_BYTES = 4 << 20
"""Records encoded at a time: enough for a large write, few enough to stay in the CPU's cache."""


@dataclass(frozen=True, slots=True)
class RecordEncoder:
    """How records become batches.

    Attributes:
        compression: codec; None: what compression.type says, none where that is "producer".
        level: of the codec; None: the topic's.
        batch_size: about how many bytes a batch has before compression.
        producer_id, producer_epoch, base_sequence, is_transactional: what the batches say of their producer.
    """

    compression: str | None
    level: int | None
    batch_size: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False

    def encode(
        self,
        records: pa.RecordBatch | Sequence[Part],
        config: LogConfig,
        now_ms: int,
        path: object,
        *,
        base_offset: int,
        leader_epoch: int = -1,
        first_row: int = 0,
        estimated_ratio: float = 1.0,
        finish: bool = True,
    ) -> Encoded:
        """Some of the records, as batches that a topic of these settings takes.

        Args:
            records, estimated_ratio, finish: see native_log.records.encode.
            path: of the log, for errors.
            first_row: how many records came before: the number of the first of these, and their distance
                from `base_sequence`.

        Raises:
            InvalidRecordError, InvalidTimestampError, RecordTooLargeError.
        """
        wanted = config.compression_type
        codec = self.compression or ("none" if wanted == "producer" else wanted)
        is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        sequence = self.base_sequence
        try:
            done = encode(
                records,
                compression=codec,
                level=config.compression_level(codec) if self.level is None else self.level,
                batch_size=self.batch_size,
                max_message_bytes=config.max_message_bytes,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=sequence if sequence < 0 else (sequence + first_row) % (MAX_SEQUENCE + 1),
                is_transactional=self.is_transactional,
                timestamp_type=1 if is_append_time else 0,
                append_time_ms=now_ms if is_append_time else -1,
                now_ms=now_ms,
                estimated_ratio=estimated_ratio,
                first_row=first_row,
                finish=finish,
            )
        except InvalidRecordError as error:
            raise type(error)(error.message, path=path) from None
        _check_segment_bytes(done.batches, config, path, first_row - base_offset)
        return done


def encoded(
    records: object, how: RecordEncoder, at: AppendContext, target: tuple[str, int]
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    """Pieces of encoded batches: their bytes and rows. Raises as PartitionLog.append says.

    Args:
        target: topic and partition of the log.
    """
    rows = _arrow(records)
    check_columns(rows.schema.names)
    check_target(rows, target, at.path)
    pieces = _encoded(rows, how, at)
    # Where there is more than one, the next is encoded while one is written.
    return prefetch(pieces) if rows.nbytes > _SLICE_BYTES else pieces


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
    records: pa.RecordBatch | pa.Table, how: RecordEncoder, at: AppendContext
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    row = 0
    for batch in records.to_batches() if isinstance(records, pa.Table) else [records]:
        check_records(batch, at.config, at.now_ms, at.path, row)
        row += batch.num_rows
    check_producer(
        at.producers, how.producer_id, how.producer_epoch, how.base_sequence, how.is_transactional, at.path
    )
    row, ratio = 0, 1.0
    for piece in _slices(records):
        if piece.num_rows:
            done = how.encode(
                piece,
                at.config,
                at.now_ms,
                at.path,
                base_offset=at.log_end_offset + row,
                leader_epoch=at.leader_epoch,
                first_row=row,
                estimated_ratio=ratio,
            )
            yield done.data, done.batches
            row, ratio = row + piece.num_rows, done.estimated_ratio


def _check_segment_bytes(batches: pa.RecordBatch, config: LogConfig, path: object, shift: int) -> None:
    """`shift`: from offsets to rows."""
    sizes = int32s(batches, "sizeInBytes").tolist()
    largest = max(sizes, default=0)
    if largest > config.segment_bytes:
        row = int64s(batches, "baseOffset")[sizes.index(largest)] + shift
        raise RecordTooLargeError(
            f"row {row}: expected a batch of at most {config.segment_bytes} bytes (segment.bytes), found one "
            f"of {largest} that begins with it; raise that, or make batches or values smaller",
            path=path,
        )


def _slices(records: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    """Whatever pieces a table is in: batches of the log do not end where those do."""
    rows = max(1, records.num_rows * _SLICE_BYTES // max(1, records.nbytes))
    for start in range(0, records.num_rows, rows):
        piece = records.slice(start, rows)
        if isinstance(piece, pa.Table):
            yield from piece.combine_chunks().to_batches()
        else:
            yield piece
