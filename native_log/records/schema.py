"""Arrow schemas of records and batches, and the results of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

DEFAULT_MAX_BATCH_BYTES = 256 << 20
"""The default limit for the bytes of one batch, as stored and as decompressed. It is far above the limit of
brokers (`max.message.bytes`, 1 MiB by default): only a false size or a decompression bomb exceeds it.

It also bounds memory. The records of a batch become rows together, even if `max_rows` is smaller. A record
has at least 7 bytes, so there can be 38 million of them. With the usual columns they take about 30 bytes
each, 1.2 GB in addition to the batch itself. Compaction needs memory for the decompressed batch to read its
keys (0.27 GB), as much again to write a batch without some of its records (0.54 GB), and up to 0.75 GB where
a delete horizon makes the timestamp of each such record longer. Lower the limit where that is too much."""

MAX_BATCH_BYTES = 2**31 + 11
"""The largest batch that the size field can express: the limit where only the checksum shall decide."""

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
        ("leaderEpoch", pa.int32()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("sequence", pa.int32()),
        ("isTransactional", pa.bool_()),
        ("compression", pa.string()),
        ("magic", pa.int32()),
        ("batchOffset", pa.int64()),
        ("position", pa.int64()),
        ("segment", pa.string()),
    ]
)
"""All columns of a record. The first seven (with `headers`: eight) are those of Spark's kafka source. The
others are the record's location and the fields of its batch's header. `timestampType` is -1 (no timestamp,
magic 0), 0 (CreateTime) or 1 (LogAppendTime); `leaderEpoch`, `producerId`, `producerEpoch` and `sequence` are
-1 if the batch has none; `position` is the byte position of the record's batch in the file `segment`."""

CORRUPT_RECORD = "_corrupt_record"
"""Name of the column (string) that says what is wrong with damaged bytes; null in the rows of records."""

BATCH_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("sizeInBytes", pa.int32()),
        ("magic", pa.int32()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("recordCount", pa.int32()),
        ("compression", pa.string()),
        ("timestampType", pa.int32()),
        ("baseTimestamp", pa.int64()),
        ("maxTimestamp", pa.int64()),
        ("deleteHorizonMs", pa.int64()),
        ("leaderEpoch", pa.int32()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("baseSequence", pa.int32()),
        ("lastSequence", pa.int32()),
        ("isTransactional", pa.bool_()),
        ("isControl", pa.bool_()),
        ("controlType", pa.int32()),
        ("attributes", pa.int32()),
        ("crc", pa.int64()),
        ("isValid", pa.bool_()),
    ]
)
"""One row for each batch, from its header alone. `sizeInBytes` includes the 12 bytes of offset and size;
times are epoch ms; `baseOffset` and `recordCount` are null for compressed v0/v1 wrappers, whose headers have
neither; `controlType` is 0 (ABORT), 1 (COMMIT), ... (null: no control batch); `isValid` is null unless CRCs
were checked."""


class OffsetOrder(NamedTuple):
    """What is known of the offsets of the batches in a part of a segment.

    Offsets increase from batch to batch. No CRC covers the base offset, so only this rule detects a duplicate
    batch or a changed offset. A batch is damaged (kind "order") if

    - its first offset is at or below the last offset before it,
    - its last offset reaches `end_offset`, or
    - it skips the offsets of the next batch: the next batch fits to the batches before, and its offsets do
    not
      fit between this batch and the one after the next.
    """

    next_offset: int
    """Inclusive: no batch starts below it. It is the last offset of the batches before + 1."""
    end_offset: int
    """Exclusive: the base offset of the next segment, 2^63 - 1 if there is none."""
    descriptor: int
    """Of the open file to which the positions of the call refer. A header after the buffer's end is read from
    it."""

    def after(self, next_offset: int | None) -> OffsetOrder:
        """Return what is known after batches that end before `next_offset`. None: there were none."""
        if next_offset is None or next_offset <= self.next_offset:
            return self
        return self._replace(next_offset=next_offset)


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch that cannot be read, and the reason."""

    kind: str
    """"size", "magic", "crc", "codec", "compression", "records", "order" or "too-large"."""
    position: int
    """Its first byte."""
    size_bytes: int
    """12 + the size field of its header, or 0 if the size field itself is invalid."""
    offset: int | None
    """The offset in its header; None if there are too few bytes for one."""
    message: str
    """One line: what was expected, what was found."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Result of one call of `decode` or `decode_file`."""

    batch: pa.RecordBatch
    """The records, with the requested columns in the requested order."""
    status: str
    """"end": the buffer is used up; "partial": the batch at `position` continues beyond the buffer; "limit":
    max_rows or max_bytes was reached; "zeros": there are only zero bytes from `position` on; "damaged": see
    `damage`."""
    position: int
    """First byte not used, where the next call starts. Beyond the buffer's end if a batch was skipped by its
    header."""
    next_offset: int | None
    """Last offset + 1 of the last batch used or skipped; None if there was none."""
    needed_bytes: int
    """With "partial": the number of bytes from `position` on that the next call needs. Else 0."""
    damage: Damage | None


@dataclass(frozen=True, slots=True)
class Scanned:
    """Result of one call of `scan` or `scan_headers`. `batches` has one row for each batch (BATCH_SCHEMA);
    the other fields are those of Decoded."""

    batches: pa.RecordBatch
    status: str
    position: int
    next_offset: int | None
    needed_bytes: int
    damage: Damage | None


@dataclass(frozen=True, slots=True)
class Formatted:
    """Result of one call of `format_batches`. The fields after `gaps` are those of Decoded, except that with
    the status "limit" a batch follows that is not printed: of magic 0 or 1, or a control batch."""

    text: memoryview
    """Lines in UTF-8."""
    first_offset: int | None
    """Of the first record; None if no records were printed."""
    last_offset: int | None
    """Of the last record."""
    gaps: list[tuple[int, int]]
    """The offsets of consecutive records between which there is a gap."""
    status: str
    position: int
    next_offset: int | None
    needed_bytes: int
    damage: Damage | None
