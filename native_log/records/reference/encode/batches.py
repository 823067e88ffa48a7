"""Rows to batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records.encoding import MAX_ENCODED_BATCH_BYTES
from native_log.records.reference import write
from native_log.records.reference.codec.compress import compress
from native_log.records.reference.encode.rows import RejectedError
from native_log.records.reference.entry import TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, V2_HEADER, wrap64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.records.options import EncodeOptions
    from native_log.records.reference.encode.ratio import Ratio
    from native_log.records.reference.encode.rows import RecordHeaders
    from native_log.records.reference.record import Record

_MAX_UNCOMPRESSED_BYTES = 256 << 20
"""The most bytes of a batch before compression: the default limit of readers (DEFAULT_MAX_BATCH_BYTES)."""
_MAX_OVERHEAD = 21
"""The most bytes of a record without key, value and headers: length 5, attributes 1, timestamp delta 10,
offset delta 5 (Kafka: DefaultRecord.MAX_RECORD_OVERHEAD)."""
_LEGACY_OVERHEAD = {0: 26, 1: 34}
"""Bytes of a message without its key and value."""


@dataclass(frozen=True, slots=True)
class BatchFormat:
    """How batches are written; see encode."""

    options: EncodeOptions
    codec: int
    """Its id."""
    max_bytes: int
    """Of a batch, after compression."""
    base_sequence: int
    finish: bool

    @property
    def append_time_ms(self) -> int | None:
        """None with CreateTime."""
        return self.options.append_time_ms if self.options.timestamp_type else None

    @property
    def batch_size(self) -> int:
        return min(self.options.batch_size, MAX_ENCODED_BATCH_BYTES)


def v2_batches(
    rows: Sequence[tuple[Record, RecordHeaders]], form: BatchFormat, ratio: Ratio
) -> Iterator[tuple[int, bytes]]:
    """Yield each batch with the number of its records."""
    attributes = form.codec | (TIMESTAMP_TYPE_FLAG if form.append_time_ms is not None else 0)
    attributes |= TRANSACTIONAL_FLAG if form.options.is_transactional else 0
    start = 0
    while start < len(rows):
        base, written = rows[start][0], bytearray()
        end = start
        limit = form.batch_size
        for record, headers in rows[start:]:
            delta = wrap64(record.timestamp - base.timestamp)
            data = write.v2_record(delta, end - start, record.key, record.value, headers)
            if end == start:
                # A record larger than a batch raises the limit to the most that the record could take (Kafka:
                # RecordAccumulator.append). Small records after it may use what it does not need.
                content = write.v2_content(record.key, record.value, headers)
                limit = max(limit, min(form.max_bytes, V2_HEADER.size + _MAX_OVERHEAD + len(content)))
            elif (
                V2_HEADER.size + ratio.estimate(len(written)) + len(data) > limit
                or len(written) + len(data) > _MAX_UNCOMPRESSED_BYTES
            ):
                break
            written += data
            end += 1
        if end == len(rows) and not form.finish:
            return
        stored = compress(form.codec, 2, bytes(written), form.options.level)
        ratio.observe(len(written), len(stored))
        max_timestamp = max(record.timestamp for record, _ in rows[start:end])
        yield (
            end - start,
            write.v2_batch(
                base_offset=base.offset,
                leader_epoch=form.options.leader_epoch,
                attributes=attributes,
                last_offset_delta=end - start - 1,
                base_timestamp=base.timestamp,
                max_timestamp=max_timestamp if form.append_time_ms is None else form.append_time_ms,
                producer_id=form.options.producer_id,
                producer_epoch=form.options.producer_epoch,
                base_sequence=_sequence(form.base_sequence, start),
                record_count=end - start,
                records=stored,
            ),
        )
        start = end


def _sequence(base: int, records: int) -> int:
    """2^31 - 1 is followed by 0; -1 is not a sequence number."""
    return base if base < 0 else (base + records) % 2**31


def legacy_batches(
    rows: Sequence[tuple[Record, RecordHeaders]], form: BatchFormat, ratio: Ratio
) -> Iterator[tuple[int, bytes]]:
    """Yield messages of magic 0 or 1, or wrappers of them, each with the number of its records."""
    magic = form.options.magic
    append_time = form.append_time_ms if magic else None  # magic 0 has no timestamps at all
    for row, (_, headers) in enumerate(rows):
        if headers:
            raise RejectedError("headers", row, row, 0)
    records = [record for record, _ in rows]
    if not form.codec:
        flags = 0 if append_time is None else TIMESTAMP_TYPE_FLAG
        for record in records:
            timestamp = record.timestamp if append_time is None else append_time
            yield 1, write.message(magic, record.offset, flags, timestamp, record.key, record.value)
        return
    overhead = _LEGACY_OVERHEAD[magic]
    start = 0
    while start < len(records):
        end, written = start, 0
        for record in records[start:]:
            size = overhead + len(record.key or b"") + len(record.value or b"")
            if end > start and (
                overhead + ratio.estimate(written) + size > form.batch_size
                or written + size > _MAX_UNCOMPRESSED_BYTES
            ):
                break
            written += size
            end += 1
        if end == len(records) and not form.finish:
            return
        batch = write.wrapper(
            magic, form.codec, records[start:end], append_time if magic else None, form.options.level
        )
        ratio.observe(written, len(batch) - overhead)
        yield end - start, batch
        start = end
