"""Messages of magic 0 and 1 (before Kafka 0.11), plain or compressed within a wrapper (Kafka: LegacyRecord,
AbstractLegacyRecordBatch, KIP-31, KIP-32).

| magic 0 at | magic 1 at | type | field |
|---|---|---|---|
| 12 | 12 | u32 | CRC-32 of all bytes after this field |
| 16 | 16 | i8 | magic |
| 17 | 17 | i8 | attributes: bits 0-2 codec, magic 1: bit 3 timestamp type |
| | 18 | i64 | timestamp: epoch ms; -1: none |
| 18 | 26 | i32 | key length, negative for null; the key |
| | | i32 | value length, negative for null; the value |

The value of a wrapper is a compressed stream of whole messages, including their offsets and sizes. The
wrapper has the offset of the last of them.
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.records.reference.codec import decompress
from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.entry import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MIN_SIZE,
    PREFIX,
    PREFIX_BYTES,
    SMALLEST_ENTRY_BYTES,
    BatchHeader,
    parse_header,
    wrap64,
)
from native_log.records.reference.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

CRC_FROM = 16
LENGTH = struct.Struct(">i")


def crc_of(message: memoryview) -> int:
    return zlib.crc32(message[CRC_FROM:])


def read_message(header: BatchHeader, message: memoryview, check_crcs: bool) -> Record:
    """Return the record of a message that is not compressed."""
    if check_crcs:
        check_crc(header, message)
    key, value = key_and_value(header, message)
    return Record(header.offset, header.max_timestamp, header.timestamp_type, key, value)


def read_wrapper(
    header: BatchHeader, message: memoryview, check_crcs: bool, max_batch_bytes: int
) -> list[Record]:
    """Return the records of a wrapper, with their offsets in the log and their timestamps.

    With `check_crcs`, the CRCs of the messages in the wrapper are checked, but not the wrapper's own CRC.
    This is what the Java consumer does: CompletedFetch.maybeEnsureValid checks the records that it returns.
    """
    _, value = key_and_value(header, message)
    if value is None:
        raise DamagedBatchError(
            "records", "expected messages in the value of a compressed message, found null"
        )
    content = decompress(header, memoryview(value), max_batch_bytes)
    inner = [read_inner_message(header, message, check_crcs) for message in list(messages(content))]
    if not inner:
        raise DamagedBatchError("records", "expected messages in a compressed message, found none")
    if not all(before.offset < after.offset for before, after in pairwise(inner)):
        raise DamagedBatchError(
            "records", "expected increasing offsets in a compressed message, found others"
        )
    base = inner_base_offset(header, inner[-1].offset)
    return [record._replace(offset=wrap64(base + record.offset)) for record in inner]


def messages(content: memoryview) -> Iterator[memoryview]:
    """Yield the messages in a wrapper. Like Kafka's reader, skip an incomplete last one."""
    at = 0
    while len(content) - at >= PREFIX_BYTES:
        _, size = PREFIX.unpack_from(content, at)
        if size < MIN_SIZE:
            raise DamagedBatchError(
                "records",
                f"expected a size field of at least {MIN_SIZE} of a message in a wrapper, found {size}",
            )
        end = at + PREFIX_BYTES + size
        if end > len(content):
            return
        yield content[at:end]
        at = end


def read_inner_message(wrapper: BatchHeader, message: memoryview, check_crcs: bool) -> Record:
    """Return the record of a message in a wrapper, with its offset as stored.

    The message is read by its own magic, which can differ from the wrapper's in logs of old brokers
    (KAFKA-4298). The wrapper determines the timestamp.
    """
    magic = message[MAGIC_AT]
    if magic > 1:
        raise DamagedBatchError("records", f"expected magic 0 or 1 of a message in a wrapper, found {magic}")
    if len(message) < SMALLEST_ENTRY_BYTES[magic]:
        raise DamagedBatchError(
            "records",
            f"expected at least {SMALLEST_ENTRY_BYTES[magic]} bytes of a message of magic {magic} "
            f"in a wrapper, found {len(message)}",
        )
    header = parse_header(message, 0, wrapper.position)
    if check_crcs:
        check_crc(header, message)
    if header.codec:
        raise DamagedBatchError(
            "records", "expected an uncompressed message in a wrapper, found a compressed one"
        )
    key, value = key_and_value(header, message)
    timestamp = header.max_timestamp
    if magic == 1 and wrapper.timestamp_type == LOG_APPEND_TIME:
        timestamp = wrapper.max_timestamp
    # The type is always the wrapper's, because consumers take it from the batch.
    return Record(header.offset, timestamp, wrapper.timestamp_type, key, value)


def inner_base_offset(wrapper: BatchHeader, last: int) -> int:
    """Return the number to add to the offsets within a wrapper, whose last one is `last`.

    In magic 0 they are absolute. In magic 1 only their distance to the last one counts, whose offset the
    wrapper has (KIP-31), unless its producer left it 0 for the broker to set.
    """
    if wrapper.offset == 0:
        return 0
    if wrapper.offset < last:
        raise DamagedBatchError(
            "records",
            f"expected a wrapper's offset of at least {last}, that of its last message, "
            f"found {wrapper.offset}",
        )
    return 0 if wrapper.magic == 0 else wrapper.offset - last


def key_and_value(header: BatchHeader, message: memoryview) -> tuple[bytes | None, bytes | None]:
    key, at = read_nullable(message, HEADER_BYTES[header.magic], "key")
    value, at = read_nullable(message, at, "value")
    if at != len(message):
        raise DamagedBatchError(
            "records",
            f"expected the end of a message after its value, found {len(message) - at} more bytes",
        )
    return key, value


def read_nullable(message: memoryview, at: int, what: str) -> tuple[bytes | None, int]:
    left = len(message) - at - LENGTH.size
    if left < 0:
        raise DamagedBatchError(
            "records",
            f"expected {LENGTH.size} bytes for the length of the {what} of a message, "
            f"found {len(message) - at}",
        )
    (length,) = LENGTH.unpack_from(message, at)
    at += LENGTH.size
    if length < 0:
        return None, at
    if length > left:
        raise DamagedBatchError("records", f"expected a {what} of {length} bytes in a message, found {left}")
    return bytes(message[at : at + length]), at + length


def check_crc(header: BatchHeader, message: memoryview) -> None:
    crc = crc_of(message)
    if crc != header.crc:
        raise DamagedBatchError(
            "crc",
            f"expected CRC-32 {header.crc:#010x} by the header, found {crc:#010x}",
        )
