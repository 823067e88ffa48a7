"""Arrow records -> batches, cut as Kafka's producer cuts them (Kafka: MemoryRecordsBuilder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.encode import Encoded, check_settings, count_rows, known_parts, refuse
from native_log.records.reference.codec import NAMES
from native_log.records.reference.encode.batches import Form, legacy_batches, v2_batches
from native_log.records.reference.encode.ratio import Ratio
from native_log.records.reference.encode.rows import RefusedError, rows
from native_log.records.reference.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from native_log.records.encode import Part

_CODECS = {name: number for number, name in NAMES.items()}
_MOST = 2**31 - 1


def encode(
    records: pa.RecordBatch | Sequence[Part],
    *,
    magic: int = 2,
    compression: str = "none",
    level: int | None = None,
    batch_size: int = 16384,
    max_message_bytes: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    timestamp_type: int = 0,
    append_time_ms: int = -1,
    now_ms: int = -1,
    base_position: int = 0,
    estimated_ratio: float = 1.0,
    first_row: int = 0,
    finish: bool = True,
) -> Encoded:
    """Records as batches with consecutive offsets from `base_offset` on.

    A batch takes records while it is estimated to be not larger than `batch_size`, as Kafka does it: without
    compression that is what they take; with it, this times 1.05 and the ratio that is hoped for (1 at first,
    0.005 less with each batch that is better, up at once: CompressionRatioEstimator). A producer keeps that
    ratio for a topic as long as it lives: see `estimated_ratio`.

    Args:
        records: columns by name, in any order, others are passed over: `value`, `key` (binary or string),
            `headers` (list of structs of key, binary or string, and value; null: none), `timestamp`
            (timestamp of any unit and zone, rounded down to ms, or int64 ms; null: `now_ms`). Only `value`
            has to be there. Or several such batches, in order, each with the numbers of the rows that are
            meant (uint32 without nulls; None: all).
        magic: the format: 2, or 1 or 0 of clusters before 0.11, with which there are no headers and no
            producers, and records are compressed within a wrapper message.
        compression: none, gzip, snappy, lz4 or zstd (magic 2 only).
        level: of the compression; None is Kafka's default: gzip -1 (6), zstd 3, lz4 9, which is its fast
            compressor, any other level being its slow one of high compression.
        batch_size: in bytes, as `batch.size` of the producer; 0: a batch for each record. A record larger
            than this gets a batch of its own.
        max_message_bytes: no batch may be larger, header and compression included. None: any.
        base_offset: offset of the first record.
        leader_epoch: of all batches; -1 is what a producer sends.
        producer_id, producer_epoch, base_sequence: -1: no idempotent producer. The sequence is the first
            record's; past 2^31 - 1 comes 0.
        is_transactional: marks the batches; wants a producer_id.
        timestamp_type: 0 CreateTime; 1 marks the batches LogAppendTime, with `append_time_ms` as their
            greatest timestamp. Records keep the timestamps they have, which readers then do not show.
        append_time_ms: see timestamp_type.
        now_ms: timestamp of records that have none.
        base_position: position in the file of the first byte, for `Encoded.batches`.
        estimated_ratio: of the size of compressed batches to that before, as it is expected at first: where
            encoding goes on, `Encoded.estimated_ratio` of the call before.
        first_row: by which number errors call the first record.
        finish: make a batch of records at the end that do not fill one. If not, they are left: see
            `Encoded.rows`.

    Raises:
        RecordTooLargeError: a batch is larger than `max_message_bytes`; it names the rows. A record may have
            2^31 - 1 bytes in any case.
        InvalidTimestampError: a timestamp below -1.
        InvalidRecordError: a header without a key.
        ValueError: settings that do not go together, unknown ones, columns of other types.
    """
    parts = known_parts(records)
    check_settings(
        magic=magic,
        compression=compression,
        level=level,
        batch_size=batch_size,
        rows=count_rows(parts),
        max_message_bytes=max_message_bytes,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        timestamp_type=timestamp_type,
        estimated_ratio=estimated_ratio,
    )
    most_bytes = _MOST if max_message_bytes is None else min(max_message_bytes, _MOST)
    form = Form(
        magic,
        _CODECS[compression],
        level,
        min(batch_size, _MOST),
        most_bytes,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        is_transactional,
        append_time_ms if timestamp_type else None,
        finish,
    )
    written = bytearray()
    row, ratio = 0, Ratio(estimated_ratio, compressed=form.codec != 0)
    try:
        given = list(rows(parts, base_offset, now_ms))
        for count, batch in (v2_batches if magic == 2 else legacy_batches)(given, form, ratio):
            if len(batch) > most_bytes:
                raise RefusedError("too-large", row, row + count - 1, len(batch))
            written += batch
            row += count
    except RefusedError as refused:
        refuse(refused.args, first_row, max_message_bytes)
    data = bytes(written)
    return Encoded(data, scan(data, base_position=base_position, check_crcs=True).batches, row, ratio.value)
