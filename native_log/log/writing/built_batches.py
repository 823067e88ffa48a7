"""Check the batches of a producer that were built record by record, and encode them with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import InvalidRecordError, InvalidTimestampError
from native_log.log.writing.sequences import check_producer
from native_log.log.writing.validation import (
    LOG_APPEND_TIME,
    MISSING_KEY,
    check_sizes,
    timestamp_problem,
    timestamp_range,
)
from native_log.records import DecodeOptions, EncodeOptions, decode, encode_builders
from native_log.segment.scan import int32s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.writing.append_context import AppendContext
    from native_log.log.writing.encoded_batches import EncodedBatches
    from native_log.log.writing.record_encoding import RecordEncoder
    from native_log.records import BatchBuilder

_NO_TIMESTAMP = -1
_LAST_MS = (2**63 - 1) // 1000
"""Greater times are decoded as this one."""
_ANY_TIMESTAMP = -(2**63), 2**63 - 1


def encode_built(
    builders: Sequence[BatchBuilder], encoder: RecordEncoder, context: AppendContext
) -> EncodedBatches:
    """Encode one batch from each builder, to be appended at the log end offset.

    Raises the errors of PartitionLog.append.
    """
    _check_records(builders, context)
    check_producer(
        context.producers,
        encoder.producer_id,
        encoder.producer_epoch,
        encoder.base_sequence,
        encoder.is_transactional,
        context.path,
    )
    options = encoder.options(context.config, context.now_ms, context.leader_epoch)
    try:
        encoded = encode_builders(
            builders, options, base_offset=context.log_end_offset, base_sequence=encoder.base_sequence
        )
    except InvalidRecordError as error:
        raise type(error)(error.message, path=context.path) from None
    batches = encoded.batches
    check_sizes(int32s(batches, "sizeInBytes").tolist(), context.config, context.path)
    return encoded.data, batches


def decode_built(builder: BatchBuilder, columns: Sequence[str]) -> pa.RecordBatch:
    """Return columns of RECORD_SCHEMA for the records in a builder."""
    encoded = encode_builders([builder], EncodeOptions())
    return decode(encoded.data, columns, DecodeOptions(check_crcs=False)).batch


def _check_records(builders: Sequence[BatchBuilder], context: AppendContext) -> None:
    """Raise InvalidRecordError or InvalidTimestampError if a record has no key or an invalid timestamp.

    As a broker does, it names all invalid records (Kafka: LogValidator.processRecordErrors).
    """
    needs_key = context.config.is_compacted
    valid = timestamp_range(context.config, context.now_ms)
    if context.config.message_timestamp_type == LOG_APPEND_TIME:
        valid = _ANY_TIMESTAMP
    problems: dict[int, str] = {}
    has_invalid_time, row = False, 0
    for builder in builders:
        times_valid = valid[0] <= builder.min_timestamp and builder.max_timestamp <= valid[1]
        if not times_valid or (needs_key and builder.first_null_key >= 0):
            records = decode_built(builder, ["key", "timestamp"])
            times = records.column("timestamp").cast(pa.int64()).to_pylist()
            keys = records.column("key").is_valid().to_pylist()
            for index, (time_us, has_key) in enumerate(zip(times, keys, strict=True), row):
                time_ms = _NO_TIMESTAMP if time_us is None else _exact_ms(time_us // 1000, builder)
                if needs_key and not has_key:
                    problems[index] = MISSING_KEY
                elif not valid[0] <= time_ms <= valid[1] and time_ms != _NO_TIMESTAMP:
                    problems[index] = timestamp_problem(time_ms, valid, context.now_ms)
                    has_invalid_time = True
        row += builder.record_count
    if problems:
        first = min(problems)
        error = (InvalidTimestampError if has_invalid_time else InvalidRecordError)(
            f"expected valid records, found {len(problems)} of {row} that are not; first, record {first}: "
            f"{problems[first]}",
            path=context.path,
        )
        error.record_errors = problems
        raise error


def _exact_ms(time_ms: int, builder: BatchBuilder) -> int:
    """Return the time of a record as it was given. Arrow's microseconds cannot hold all of Kafka's times."""
    if time_ms >= _LAST_MS:
        return builder.max_timestamp
    return builder.min_timestamp if time_ms <= -_LAST_MS else time_ms
