"""The values that cross the kernel's seam: Arrow schemas of records and batches, and what a call came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

DEFAULT_MAX_BATCH_BYTES = 256 << 20
"""Ceiling in bytes for one batch, as stored and as decompressed. Far above what brokers accept
(`max.message.bytes`, 1 MiB by default), so that only a lie or a decompression bomb meets it.

It bounds memory, too. The records of a batch become rows together, whatever `max_rows` says: of the least
size, 7 bytes, up to 38 million, about 30 bytes each with the usual columns, 1.2 GB beside the batch itself.
Compaction takes the decompressed batch to read its keys (0.27 GB), the same again to write a batch of which
records are dropped (0.54 GB), and up to 0.75 GB where a delete horizon makes the timestamp of each such
record longer. Lower it where that is too much."""

MAX_BATCH_BYTES = 2**31 + 11
"""The largest batch that a size field can tell of: a ceiling for those who let only the checksum decide."""

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
"""Every column a record can be read with. The first seven (with `headers`: eight) are those of Spark's kafka
source; the others say where a record lay and what its batch's header says. `timestampType` is -1 (none,
magic 0), 0 CreateTime or 1 LogAppendTime; `leaderEpoch`, `producerId`, `producerEpoch` and `sequence` are -1
where there is none; `position` is the byte position of the record's batch in the file `segment`."""

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
"""One row a batch, from its header alone. `sizeInBytes` includes the 12 bytes of offset and size; times are
epoch ms; `baseOffset` and `recordCount` are null for compressed v0/v1 wrappers, which hide both under the
compression; `controlType` is 0 ABORT, 1 COMMIT, ... (null: no control batch); `isValid` is null unless CRCs
were checked."""


class OffsetOrder(NamedTuple):
    """What is known of the offsets of the batches in a part of a segment.

    Offsets increase from batch to batch. No CRC covers the base offset, so only this rule finds a batch that
    is there twice or whose offset was altered. A batch is damaged (kind "order") if it

    - begins at or below the last offset before it,
    - reaches `end_offset`, or
    - leaps over the batch behind it: that one fits what came before, and has no room between this batch and
      what follows.
    """

    next_offset: int
    """Inclusive: no batch begins below it. It follows the last offset of the batches before."""
    end_offset: int
    """Exclusive: the base offset of the next segment, 2^63 - 1 if there is none."""
    descriptor: int
    """Of the open file, in which positions are those of the call. A header behind the buffer's end is read
    from there."""

    def after(self, next_offset: int | None) -> OffsetOrder:
        """What is known behind batches that end before `next_offset`; None: there were none."""
        if next_offset is None or next_offset <= self.next_offset:
            return self
        return self._replace(next_offset=next_offset)


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch that cannot be read, and why."""

    kind: str
    """"size", "magic", "crc", "codec", "compression", "records", "order" or "too-large"."""
    position: int
    """Its first byte."""
    size_bytes: int
    """What its header claims (12 + size), or 0 where the size field itself is impossible."""
    offset: int | None
    """The offset its header claims; None if not even that is there."""
    message: str
    """One line: what was expected, what was found."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one call of `decode` came to."""

    batch: pa.RecordBatch
    """The records, with the columns asked for, in that order."""
    status: str
    """"end": the buffer is used up; "partial": at `position` begins a batch that goes on beyond the buffer;
    "limit": max_rows or max_bytes was reached; "zeros": from `position` on there are only zero bytes;
    "damaged": see `damage`."""
    position: int
    """First byte not used, where the next call begins. Beyond the buffer's end if a batch was skipped by its
    header."""
    next_offset: int | None
    """Last offset + 1 of the last batch used or skipped; None if there was none."""
    needed_bytes: int
    """With "partial": how many bytes from `position` on are needed to go on. Else 0."""
    damage: Damage | None


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one call of `scan` came to. Fields as in Decoded."""

    batches: pa.RecordBatch
    status: str
    position: int
    next_offset: int | None
    needed_bytes: int
    damage: Damage | None
