"""Arrow records to batches, sized like the batches of Kafka's producer (Kafka: MemoryRecordsBuilder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.codecs import CODECS
from native_log.records.encoding import (
    MAX_ENCODED_BATCH_BYTES,
    Encoded,
    check_position,
    count_rows,
    known_parts,
    raise_rejection,
)
from native_log.records.reference.encode.batches import BatchFormat, legacy_batches, v2_batches
from native_log.records.reference.encode.ratio import Ratio
from native_log.records.reference.encode.rows import RejectedError, rows
from native_log.records.reference.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from native_log.records.encoding import Part
    from native_log.records.options import EncodeOptions


def encode(
    records: pa.RecordBatch | Sequence[Part],
    options: EncodeOptions,
    *,
    base_offset: int = 0,
    base_sequence: int = -1,
    base_position: int = 0,
    estimated_ratio: float = 1.0,
    first_row: int = 0,
    finish: bool = True,
) -> Encoded:
    """Encode records as batches with consecutive offsets from `base_offset` on.

    Like Kafka's producer, a batch takes records while its estimated size is at most `batch_size`. Without
    compression the estimate is the size of the records. With compression it is that size times 1.05 times the
    estimated compression ratio: 1 at first, 0.005 less after each batch that compresses better, raised at
    once after one that compresses worse (Kafka: CompressionRatioEstimator). A producer keeps the ratio of a
    topic for its whole life: see `estimated_ratio`.

    Args:
        records: columns by name, in any order; other columns are ignored. `value` is required. Optional are
            `key` (both binary or string), `headers` (list of structs of key, binary or string, and value;
            null: none) and `timestamp` (timestamp of any unit and zone, rounded down to ms, or epoch ms as
            int64; null: `options.now_ms`). Or a sequence of such batches, in order, each with the numbers of
            the rows to encode (uint32 without nulls; None: all rows).
        base_offset: offset of the first record.
        base_sequence: sequence number of the first record; -1: no idempotent producer. 2^31 - 1 is followed
            by 0.
        base_position: position of the first byte in the file, for `Encoded.batches`.
        estimated_ratio: compressed size divided by uncompressed size, expected for the first batch. Pass the
            `Encoded.estimated_ratio` of the call before.
        first_row: the number of the first record in error messages.
        finish: whether to write a batch for the last records if they do not fill one. If not, they are left
            out: see `Encoded.rows`.

    Raises:
        RecordTooLargeError: a batch is larger than `max_message_bytes`, or a record larger than 2^31 - 1
            bytes. The message names the rows.
        InvalidTimestampError: a timestamp below -1.
        InvalidRecordError: a header without a key; headers with magic 0 or 1.
        ValueError: an argument out of range, or a column of a wrong type.
    """
    parts = known_parts(records)
    check_position(options, base_offset, base_sequence, count_rows(parts), estimated_ratio)
    limit = options.max_message_bytes
    max_bytes = MAX_ENCODED_BATCH_BYTES if limit is None else min(limit, MAX_ENCODED_BATCH_BYTES)
    form = BatchFormat(options, CODECS[options.compression].id, max_bytes, base_sequence, finish)
    output = bytearray()
    row, ratio = 0, Ratio(estimated_ratio, compressed=form.codec != 0)
    try:
        numbered = list(rows(parts, base_offset, options.now_ms))
        for count, batch in (v2_batches if options.magic == 2 else legacy_batches)(numbered, form, ratio):
            if len(batch) > max_bytes:
                raise RejectedError("too-large", row, row + count - 1, len(batch))
            output += batch
            row += count
    except RejectedError as rejection:
        raise_rejection(rejection.args, first_row, limit)
    data = bytes(output)
    return Encoded(data, scan(data, base_position=base_position, check_crcs=True).batches, row, ratio.value)
