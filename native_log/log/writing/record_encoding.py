"""Check records and encode them as batches with their final offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import InvalidRecordError, RecordTooLargeError
from native_log.log.writing.sequences import MAX_SEQUENCE, check_producer
from native_log.log.writing.validation import LOG_APPEND_TIME, check_columns, check_records, check_target
from native_log.prefetch import prefetch
from native_log.records import EncodeOptions, encode
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from native_log.config import LogConfig
    from native_log.log.writing.append_context import AppendContext
    from native_log.records import Encoded
    from native_log.records.encoding import Part

_SLICE_BYTES = 4 << 20
"""Records are encoded in slices of this size: large enough to write efficiently, and small enough for the CPU
cache."""


@dataclass(frozen=True, slots=True)
class RecordEncoder:
    """Encode records as batches with fixed options.

    Attributes:
        compression: the codec; None: compression.type of the topic, or none if that is "producer".
        level: the compression level; None: that of the topic.
        batch_size: the approximate size of a batch in bytes, before compression.
        producer_id, producer_epoch, base_sequence, is_transactional: producer fields of the batches.
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
        """Encode records as batches that a topic with these settings accepts.

        Args:
            records, base_offset, leader_epoch, estimated_ratio, finish: see native_log.records.encoding.
            config: the topic's settings.
            now_ms: the current time, for records without a timestamp.
            path: the log's path, for error messages.
            first_row: the number of records encoded before. It is the row number of the first record, and
                its distance from `base_sequence`.

        Raises:
            InvalidRecordError, InvalidTimestampError, RecordTooLargeError.
        """
        sequence = self.base_sequence
        try:
            done = encode(
                records,
                self.options(config, now_ms, leader_epoch),
                base_offset=base_offset,
                base_sequence=sequence if sequence < 0 else (sequence + first_row) % (MAX_SEQUENCE + 1),
                estimated_ratio=estimated_ratio,
                first_row=first_row,
                finish=finish,
            )
        except InvalidRecordError as error:
            raise type(error)(error.message, path=path) from None
        _check_segment_bytes(done.batches, config, path, first_row - base_offset)
        return done

    def options(self, config: LogConfig, now_ms: int, leader_epoch: int = -1) -> EncodeOptions:
        """Return the options of the kernel for a topic with these settings."""
        compression_type = config.compression_type
        codec = self.compression or ("none" if compression_type == "producer" else compression_type)
        is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        return EncodeOptions(
            compression=codec,
            level=config.compression_level(codec) if self.level is None else self.level,
            batch_size=self.batch_size,
            max_message_bytes=config.max_message_bytes,
            leader_epoch=leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            is_transactional=self.is_transactional,
            timestamp_type=1 if is_append_time else 0,
            append_time_ms=now_ms if is_append_time else -1,
            now_ms=now_ms,
        )


def encode_records(
    records: object, encoder: RecordEncoder, context: AppendContext, target: tuple[str, int]
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    """Check records and encode them in slices. Raises the errors of PartitionLog.append.

    Args:
        records: see PartitionLog.append.
        encoder: the options of the batches.
        context: the log to append to.
        target: topic and partition of the log.

    Yields:
        The bytes of whole batches, and their rows of BATCH_SCHEMA.
    """
    rows = _to_arrow(records)
    check_columns(rows.schema.names)
    check_target(rows, target, context.path)
    encoded = _encode_slices(rows, encoder, context)
    # With several slices, encode the next one while the caller writes one.
    return prefetch(encoded) if rows.nbytes > _SLICE_BYTES else encoded


def _to_arrow(records: object) -> pa.RecordBatch | pa.Table:
    if isinstance(records, pa.RecordBatch | pa.Table):
        return records
    if hasattr(records, "__arrow_c_stream__") or hasattr(records, "__arrow_c_array__"):
        return pa.table(records)
    raise TypeError(
        "expected a pyarrow RecordBatch or Table, or a DataFrame with Arrow's PyCapsule interface, found "
        f"{type(records).__name__}; pyarrow.RecordBatch.from_pylist converts a list of dicts"
    )


def _encode_slices(
    records: pa.RecordBatch | pa.Table, encoder: RecordEncoder, context: AppendContext
) -> Iterator[tuple[Buffer, pa.RecordBatch]]:
    row = 0
    for batch in records.to_batches() if isinstance(records, pa.Table) else [records]:
        check_records(batch, context.config, context.now_ms, context.path, row)
        row += batch.num_rows
    check_producer(
        context.producers,
        encoder.producer_id,
        encoder.producer_epoch,
        encoder.base_sequence,
        encoder.is_transactional,
        context.path,
    )
    row, ratio = 0, 1.0
    for parts in _slices(records):
        rows = sum(batch.num_rows for batch, _ in parts)
        if rows:
            done = encoder.encode(
                parts,
                context.config,
                context.now_ms,
                context.path,
                base_offset=context.log_end_offset + row,
                leader_epoch=context.leader_epoch,
                first_row=row,
                estimated_ratio=ratio,
            )
            yield done.data, done.batches
            row, ratio = row + rows, done.estimated_ratio


def _check_segment_bytes(batches: pa.RecordBatch, config: LogConfig, path: object, shift: int) -> None:
    """Raise RecordTooLargeError for a batch larger than segment.bytes. `shift`: row number minus offset."""
    sizes = int32s(batches, "sizeInBytes").tolist()
    largest = max(sizes, default=0)
    if largest > config.segment_bytes:
        row = int64s(batches, "baseOffset")[sizes.index(largest)] + shift
        raise RecordTooLargeError(
            f"row {row}: expected a batch of at most {config.segment_bytes} bytes (segment.bytes), found a "
            f"batch of {largest} that begins with this row; raise segment.bytes, or write smaller batches or "
            "values",
            path=path,
        )


def _slices(records: pa.RecordBatch | pa.Table) -> Iterator[list[Part]]:
    """Yield slices of about _SLICE_BYTES. They do not depend on how the chunks of a table are divided."""
    rows = max(1, records.num_rows * _SLICE_BYTES // max(1, records.nbytes))
    for start in range(0, records.num_rows, rows):
        part = records.slice(start, rows)
        yield [(batch, None) for batch in (part.to_batches() if isinstance(part, pa.Table) else [part])]
