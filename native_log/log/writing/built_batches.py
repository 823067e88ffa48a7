"""Check the batches of a producer that were built record by record, and encode them with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import InvalidRecordError
from native_log.log.writing.sequences import check_producer
from native_log.log.writing.validation import (
    LOG_APPEND_TIME,
    check_sizes,
    check_timestamps,
    timestamp_range,
)
from native_log.records import encode_builders
from native_log.segment.scan import int32s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.writing.append_context import AppendContext
    from native_log.log.writing.encoded_batches import EncodedBatches
    from native_log.log.writing.record_encoding import RecordEncoder
    from native_log.records import BatchBuilder


def encode_built(
    builders: Sequence[BatchBuilder], encoder: RecordEncoder, context: AppendContext
) -> EncodedBatches:
    """Encode one batch from each builder, to be appended at the log end offset.

    Raises the errors of PartitionLog.append.
    """
    _check_keys(builders, context)
    _check_timestamps(builders, context)
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


def _check_keys(builders: Sequence[BatchBuilder], context: AppendContext) -> None:
    if not context.config.is_compacted:
        return
    for index, builder in enumerate(builders):
        if builder.first_null_key >= 0:
            raise InvalidRecordError(
                f"batch {index}, record {builder.first_null_key}: expected a key, because the topic is "
                "compacted (cleanup.policy), found null; add a key, or leave the record out",
                path=context.path,
            )


def _check_timestamps(builders: Sequence[BatchBuilder], context: AppendContext) -> None:
    if context.config.message_timestamp_type == LOG_APPEND_TIME:
        return
    times = [time for builder in builders for time in (builder.min_timestamp, builder.max_timestamp)]
    earliest, latest = timestamp_range(context.config, context.now_ms)
    if min(times) < earliest or max(times) > latest:
        check_timestamps(pa.array(times, pa.int64()), context.config, context.now_ms, context.path)
