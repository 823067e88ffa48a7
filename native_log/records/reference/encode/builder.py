"""Batches built record by record (Kafka: MemoryRecordsBuilder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.codecs import CODECS
from native_log.records.encoding import MAX_ENCODED_BATCH_BYTES, Encoded, check_position, raise_rejection
from native_log.records.reference import write
from native_log.records.reference.codec.compress import compress
from native_log.records.reference.encode.ratio import Ratio
from native_log.records.reference.entry import TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, V2_HEADER
from native_log.records.reference.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.records.options import EncodeOptions

_NO_TIMESTAMP = -1


class BatchBuilder:
    """One batch of magic 2 to which records are appended one by one, without its header and compression.

    Args:
        limit_bytes: estimated size up to which the batch takes records. The first record always fits.
        estimated_ratio: compressed size divided by uncompressed size, as expected for the batch; None: the
            batch will not be compressed.

    Attributes:
        limit_bytes: see above.
        record_count: the number of records.
        plain_bytes: the size of the records before compression, without the header.
        min_timestamp, max_timestamp: of the records, epoch ms; -1 if there is none.
        first_null_key: the index of the first record without a key; -1 if there is none.
        is_closed: whether `close` was called.
    """

    def __init__(self, limit_bytes: int, estimated_ratio: float | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._ratio = Ratio(estimated_ratio or 1.0, compressed=estimated_ratio is not None)
        self._data = bytearray()
        self._base_timestamp = _NO_TIMESTAMP
        self.record_count = 0
        self.min_timestamp = self.max_timestamp = _NO_TIMESTAMP
        self.first_null_key = -1
        self.is_closed = False

    @property
    def plain_bytes(self) -> int:
        return len(self._data)

    @property
    def estimated_bytes(self) -> int:
        """The estimated size of the batch as written, header included."""
        return V2_HEADER.size + self._ratio.estimate(len(self._data))

    @property
    def is_full(self) -> bool:
        """Whether the batch has a record and its estimated size has reached the limit."""
        return self.record_count > 0 and self.estimated_bytes >= self.limit_bytes

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None,
        timestamp_ms: int,
    ) -> int:
        """Append a record unless it does not fit or the batch is closed.

        In the kernel, the call is atomic: it does not release the GIL.

        Returns:
            The number of records, negated if the batch is full now; 0: the record was not appended. One
            number says all because a producer calls this for each record.
        """
        if self.is_closed:
            return 0
        if not self.record_count:
            self._base_timestamp = timestamp_ms
        names = [(name.encode(), content) for name, content in headers or ()]
        record = write.v2_record(timestamp_ms - self._base_timestamp, self.record_count, key, value, names)
        if self.record_count and self.estimated_bytes + len(record) > self.limit_bytes:
            return 0
        self._data += record
        if key is None and self.first_null_key < 0:
            self.first_null_key = self.record_count
        first = not self.record_count
        self.min_timestamp = timestamp_ms if first else min(self.min_timestamp, timestamp_ms)
        self.max_timestamp = timestamp_ms if first else max(self.max_timestamp, timestamp_ms)
        self.record_count += 1
        return -self.record_count if self.is_full else self.record_count

    def close(self) -> None:
        """Take no more records, even if there is room."""
        self.is_closed = True

    def renew(self, limit_bytes: int, estimated_ratio: float | None) -> BatchBuilder:
        """Return an empty builder for another batch, with the memory of this one, which is empty and closed
        from now on."""
        BatchBuilder.__init__(self, self.limit_bytes)
        self.close()
        return BatchBuilder(limit_bytes, estimated_ratio)

    def _encode(self, options: EncodeOptions, base_offset: int, base_sequence: int) -> bytes:
        """Return the batch. The builder does not change, so that it can be encoded again."""
        codec = CODECS[options.compression].id
        attributes = codec | (TIMESTAMP_TYPE_FLAG if options.timestamp_type else 0)
        attributes |= TRANSACTIONAL_FLAG if options.is_transactional else 0
        return write.v2_batch(
            base_offset=base_offset,
            leader_epoch=options.leader_epoch,
            attributes=attributes,
            last_offset_delta=self.record_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=options.append_time_ms if options.timestamp_type else self.max_timestamp,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
            records=compress(codec, 2, bytes(self._data), options.level),
        )


def encode_builders(
    builders: Sequence[BatchBuilder],
    options: EncodeOptions,
    *,
    base_offset: int = 0,
    base_sequence: int = -1,
) -> Encoded:
    """Encode one batch of magic 2 from each builder, with consecutive offsets from `base_offset` on.

    Args:
        builders: builders that contain records.
        options: `batch_size` and `now_ms` have no effect.
        base_offset: offset of the first record.
        base_sequence: sequence number of the first record; -1: no idempotent producer. 2^31 - 1 is followed
            by 0.

    Raises:
        RecordTooLargeError: a batch is larger than `max_message_bytes`. The message names the rows.
        ValueError: an argument out of range, or a builder without records.
    """
    rows = sum(builder.record_count for builder in builders)
    check_position(options, base_offset, base_sequence, rows, 1.0)
    limit = options.max_message_bytes
    max_bytes = MAX_ENCODED_BATCH_BYTES if limit is None else min(limit, MAX_ENCODED_BATCH_BYTES)
    output, row = bytearray(), 0
    for builder in builders:
        if not builder.record_count:
            raise ValueError("expected builders with records, found one without")
        sequence = base_sequence if base_sequence < 0 else (base_sequence + row) % 2**31
        batch = builder._encode(options, base_offset + row, sequence)
        if len(batch) > max_bytes:
            raise_rejection(("too-large", row, row + builder.record_count - 1, len(batch)), 0, limit)
        output += batch
        row += builder.record_count
    data = bytes(output)
    return Encoded(data, scan(data, check_crcs=True).batches, row)
