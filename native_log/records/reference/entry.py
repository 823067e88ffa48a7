"""Headers of batches, and the checks before a header is trusted.

All formats start with the same fields, and a segment may mix formats in any order:

| at | type | field |
|---|---|---|
| 0 | i64 | offset: of the first record (magic 2), of the record (0, 1), of the last one (compressed 0, 1) |
| 8 | i32 | size: the number of bytes after this field |
| 16 | i8 | magic |

A message of magic 0 or 1 is treated as a batch of one record; a compressed one wraps a batch of messages. Its
other fields are listed in `legacy`.

The header of a batch of magic 2 (Kafka: DefaultRecordBatch) has 61 bytes, big-endian like all integers:

| at | type | field |
|---|---|---|
| 0 | i64 | baseOffset: of the first record the batch had when it was written |
| 8 | i32 | size, or batchLength: 49 + the size of the records |
| 12 | i32 | partitionLeaderEpoch: of the leader that appended the batch; -1: none |
| 16 | i8 | magic: 2 |
| 17 | u32 | crc: CRC-32C of all bytes from 21 to the end of the batch |
| 21 | i16 | attributes, see below |
| 23 | i32 | lastOffsetDelta: last offset - baseOffset. Compaction keeps it when the last record goes |
| 27 | i64 | baseTimestamp: epoch ms of the first record; or the delete horizon, see below |
| 35 | i64 | maxTimestamp: epoch ms; the append time with LogAppendTime |
| 43 | i64 | producerId: -1 without idempotence |
| 51 | i16 | producerEpoch: -1 without idempotence |
| 53 | i32 | baseSequence: sequence number of the first record; -1 without idempotence, in control batches |
| 57 | i32 | recordCount: 0 in a batch that compaction emptied |
| 61 | | the records, as `record_batch` describes them, compressed together |

The CRC starts at 21 because a leader sets baseOffset and partitionLeaderEpoch when it appends a batch: it
need not compute the CRC again. The size and the magic must be read before the CRC, to find it. So a changed
offset or epoch has a correct CRC: see `order`.

The attributes of magic 2:

| bit | mask | meaning |
|---|---|---|
| 0-2 | 0x07 | id of the codec, see native_log.codecs |
| 3 | 0x08 | timestamp type: 0 CreateTime, 1 LogAppendTime (all records have the maxTimestamp) |
| 4 | 0x10 | transactional |
| 5 | 0x20 | control batch: its records are markers (key: i16 version, i16 type; 0 ABORT, 1 COMMIT) |
| 6 | 0x40 | baseTimestamp is the delete horizon: until then tombstones and markers are kept (KIP-534) |
| 7-15 | | unused |

Magic 1 has bits 0 to 3 (in one byte), magic 0 bits 0 to 2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from native_log.records.reference.damage import DamagedBatchError, Stop

PREFIX = struct.Struct(">qi")
"""offset, size"""
PREFIX_BYTES = 12
MAGIC_AT = 16
NEWEST_MAGIC = 2
MIN_ENTRY_BYTES = 17
"""Up to and including the magic: the least that identifies a batch."""
MIN_SIZE = 14
"""The size field of the smallest entry: a v0 message with null key and null value."""
MAX_ENTRY_BYTES = (1 << 31) - 1

V0_HEADER = struct.Struct(">qiIbb")
"""offset, size, crc, magic, attributes"""
V1_HEADER = struct.Struct(">qiIbbq")
"""offset, size, crc, magic, attributes, timestamp"""
V2_HEADER = struct.Struct(">qiibIhiqqqhii")
"""The fields of the table above, 61 bytes"""

HEADER_BYTES = {0: V0_HEADER.size, 1: V1_HEADER.size, 2: V2_HEADER.size}
"""The size of the header's fields, by magic."""
SMALLEST_ENTRY_BYTES = {0: PREFIX_BYTES + 14, 1: PREFIX_BYTES + 22, 2: V2_HEADER.size}

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of one batch: sizes in bytes, times in epoch ms. Fields missing in magic 0 and 1 have
    defaults."""

    position: int
    size_bytes: int
    """Of the whole entry, including offset and size."""
    magic: int
    crc: int
    attributes: int
    offset: int
    """As stored: of the first record with magic 2, of the last record with magic 0 and 1."""
    max_timestamp: int
    last_offset_delta: int = 0
    record_count: int = 1
    base_timestamp: int = -1
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def last_offset(self) -> int:
        return wrap64(self.offset + self.last_offset_delta)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the delete horizon: tombstones and markers are kept until then."""
        return self.magic == 2 and bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def is_wrapper(self) -> bool:
        """Whether this is a compressed v0/v1 message, whose value is a batch of messages. Its header has
        neither the first offset nor the record count."""
        return self.magic < 2 and self.codec != 0

    @property
    def lacks_offset(self) -> bool:
        """Whether the wrapper's offset may be unset: some producers leave it 0, for the broker to set
        (KIP-31). The offsets of the messages within are absolute then."""
        return self.is_wrapper and self.magic == 1 and self.offset == 0

    def sequence(self, offset_delta: int) -> int:
        """Return the sequence number of a record. They wrap from 2^31 - 1 to 0 (Kafka:
        DefaultRecordBatch.incrementSequence)."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + offset_delta) & 0x7FFFFFFF


def header_at(data: memoryview, index: int, base_position: int, max_batch_bytes: int) -> BatchHeader:
    """Return the header of the entry at `index`. Raise Stop if there is no valid one.

    The order of the checks is part of the format's specification: the first that fails decides the status.
    """
    left = len(data) - index
    if left <= 0:
        raise Stop("end")
    offset, size = PREFIX.unpack_from(data, index) if left >= PREFIX_BYTES else (None, 0)
    if size < MIN_SIZE and all_zero(data, index):
        raise Stop("zeros")  # a preallocated file, not written yet
    if left < MIN_ENTRY_BYTES:
        raise Stop("partial", MIN_ENTRY_BYTES)
    assert offset is not None

    magic = int.from_bytes(data[index + MAGIC_AT : index + MIN_ENTRY_BYTES], "big", signed=True)
    size_bytes = PREFIX_BYTES + size
    try:
        check_claims(size, magic, max_batch_bytes)
    except DamagedBatchError as error:
        claimed = size_bytes if size >= MIN_SIZE else 0
        raise Stop.damaged(error, base_position + index, claimed, offset) from None

    if left < HEADER_BYTES[magic]:
        raise Stop("partial", HEADER_BYTES[magic])
    return parse_header(data, index, base_position + index)


def check_claims(size: int, magic: int, max_batch_bytes: int) -> int:
    """Check an entry's size field and its magic. Return its size in bytes. Raise DamagedBatchError."""
    size_bytes = PREFIX_BYTES + size
    if size < MIN_SIZE:
        raise DamagedBatchError("size", f"expected a size field of at least {MIN_SIZE}, found {size}")
    if magic not in HEADER_BYTES:
        raise DamagedBatchError("magic", f"expected magic 0, 1 or 2, found {magic}")
    if size_bytes > min(max_batch_bytes, MAX_ENTRY_BYTES):
        raise DamagedBatchError(
            "too-large",
            f"expected a batch of at most max_batch_bytes = {max_batch_bytes} bytes, "
            f"found one of {size_bytes}; raise max_batch_bytes",
        )
    if size_bytes < SMALLEST_ENTRY_BYTES[magic]:
        raise DamagedBatchError(
            "size",
            f"expected a size field of at least {SMALLEST_ENTRY_BYTES[magic] - PREFIX_BYTES} "
            f"with magic {magic}, found {size}",
        )
    return size_bytes


def parse_header(data: memoryview, index: int, position: int) -> BatchHeader:
    magic = data[index + MAGIC_AT]
    if magic == 2:
        return parse_v2_header(data, index, position)
    timestamp = -1
    if magic == 1:
        offset, size, crc, _, attributes, timestamp = V1_HEADER.unpack_from(data, index)
    else:
        offset, size, crc, _, attributes = V0_HEADER.unpack_from(data, index)
    return BatchHeader(
        position=position,
        size_bytes=PREFIX_BYTES + size,
        magic=magic,
        crc=crc,
        attributes=attributes,
        offset=offset,
        max_timestamp=timestamp,
    )


def parse_v2_header(data: memoryview, index: int, position: int) -> BatchHeader:
    (
        base_offset,
        size,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = V2_HEADER.unpack_from(data, index)
    return BatchHeader(
        position=position,
        size_bytes=PREFIX_BYTES + size,
        magic=magic,
        crc=crc,
        attributes=attributes,
        offset=base_offset,
        max_timestamp=max_timestamp,
        last_offset_delta=last_offset_delta,
        record_count=record_count,
        base_timestamp=base_timestamp,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def all_zero(data: memoryview, index: int) -> bool:
    """Return whether all bytes from `index` on are zero. Stop at the first block with another byte."""
    zeros = bytes(1 << 16)
    for at in range(index, len(data), len(zeros)):
        block = data[at : at + len(zeros)]
        if block != zeros[: len(block)]:
            return False
    return True


def wrap64(value: int) -> int:
    """Let a sum of offsets or times overflow like Java's long."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
