"""Headers of batches, and what is checked before one is believed.

All formats begin alike, whatever their magic, and a segment may mix them in any order:

| at | type | field |
|---|---|---|
| 0 | i64 | offset: of the first record (magic 2), of the record (0, 1), of the last one (compressed 0, 1) |
| 8 | i32 | size: how many bytes follow this field |
| 16 | i8 | magic |

A message of magic 0 or 1 is taken as a batch of one record; a compressed one wraps a batch of messages.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from native_log.records.reference.damage import DamagedBatchError, Stop

PREFIX = struct.Struct(">qi")
"""offset, size"""
PREFIX_BYTES = 12
MAGIC_AT = 16
MIN_ENTRY_BYTES = 17
"""Up to and including the magic: with less nothing can be said of a batch."""
MIN_SIZE = 14
"""A v0 message with null key and null value: no entry is smaller."""
MAX_ENTRY_BYTES = (1 << 31) - 1

V0_HEADER = struct.Struct(">qiIbb")
"""offset, size, crc, magic, attributes"""
V1_HEADER = struct.Struct(">qiIbbq")
"""offset, size, crc, magic, attributes, timestamp"""
V2_HEADER = struct.Struct(">qiibIhiqqqhii")
"""baseOffset, size, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp,
maxTimestamp, producerId, producerEpoch, baseSequence, recordCount: 61 bytes"""

HEADER_BYTES = {0: V0_HEADER.size, 1: V1_HEADER.size, 2: V2_HEADER.size}
"""How much of an entry the fields of its header take."""
SMALLEST_ENTRY_BYTES = {0: PREFIX_BYTES + 14, 1: PREFIX_BYTES + 22, 2: V2_HEADER.size}

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of one batch: sizes in bytes, times in ms. What magic 0 and 1 lack has a default."""

    position: int
    size_bytes: int
    """The whole entry, prefix included."""
    magic: int
    crc: int
    attributes: int
    offset: int
    """As written: of the first record with magic 2, else of the last one."""
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
        """Whether `base_timestamp` is the time until which tombstones and markers are kept (KIP-534)."""
        return self.magic == 2 and bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def is_wrapper(self) -> bool:
        """A compressed v0/v1 message, its value a batch of messages. Its first offset and its record count
        are hidden in there."""
        return self.magic < 2 and self.codec != 0

    @property
    def lacks_offset(self) -> bool:
        """Whether the offset of this wrapper may be missing: producers may leave it 0, for the broker to set
        (KIP-31). Then the offsets within are absolute."""
        return self.is_wrapper and self.magic == 1 and self.offset == 0

    def sequence(self, offset_delta: int) -> int:
        """Sequence numbers wrap from 2^31 - 1 to 0 (Kafka: DefaultRecordBatch.incrementSequence)."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + offset_delta) & 0x7FFFFFFF


def header_at(data: memoryview, index: int, base_position: int, max_batch_bytes: int) -> BatchHeader:
    """The header of the entry at `index`. Raises Stop where there is none that can be believed.

    The order of these checks is part of the interface: where several hold, the first decides.
    """
    left = len(data) - index
    if left <= 0:
        raise Stop("end")
    offset, size = PREFIX.unpack_from(data, index) if left >= PREFIX_BYTES else (None, 0)
    if size < MIN_SIZE and all_zero(data, index):
        raise Stop("zeros")  # a preallocated file: not written yet
    if left < MIN_ENTRY_BYTES:
        raise Stop("partial", MIN_ENTRY_BYTES)
    assert offset is not None

    magic = int.from_bytes(data[index + MAGIC_AT : index + MIN_ENTRY_BYTES], "big", signed=True)
    size_bytes = PREFIX_BYTES + size
    try:
        check_claims(size, magic, max_batch_bytes)
    except DamagedBatchError as found:
        claimed = size_bytes if size >= MIN_SIZE else 0
        raise Stop.damaged(found, base_position + index, claimed, offset) from None

    if left < HEADER_BYTES[magic]:
        raise Stop("partial", HEADER_BYTES[magic])
    return parse_header(data, index, base_position + index)


def check_claims(size: int, magic: int, max_batch_bytes: int) -> int:
    """Check an entry's size field and its magic, and return its size in bytes. Raises DamagedBatchError."""
    size_bytes = PREFIX_BYTES + size
    if size < MIN_SIZE:
        raise DamagedBatchError("size", f"a batch's size field is at least {MIN_SIZE}, found {size}")
    if magic not in HEADER_BYTES:
        raise DamagedBatchError("magic", f"magic 0, 1 or 2 was expected, found {magic}")
    if size_bytes > min(max_batch_bytes, MAX_ENTRY_BYTES):
        raise DamagedBatchError(
            "too-large", f"the batch claims {size_bytes} bytes, more than max_batch_bytes = {max_batch_bytes}"
        )
    if size_bytes < SMALLEST_ENTRY_BYTES[magic]:
        raise DamagedBatchError(
            "size",
            f"a batch of magic {magic} has at least {SMALLEST_ENTRY_BYTES[magic]} bytes, "
            f"this one claims {size_bytes}",
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
    """Whether every byte from `index` on is zero; looks at no more of them than it must."""
    zeros = bytes(1 << 16)
    for at in range(index, len(data), len(zeros)):
        block = data[at : at + len(zeros)]
        if block != zeros[: len(block)]:
            return False
    return True


def wrap64(value: int) -> int:
    """Sums of offsets and times run over as Java's long does."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
