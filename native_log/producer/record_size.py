"""The sizes of records, as Kafka's producer estimates them before it encodes them.

Kafka: DefaultRecord, DefaultRecordBatch, AbstractRecords.estimateSizeInBytesUpperBound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_OVERHEAD = 61
"""Bytes of a batch header."""
MAX_RECORD_OVERHEAD = 21
"""Maximum size of a record without key, value, headers and their lengths (Kafka:
DefaultRecord.MAX_RECORD_OVERHEAD)."""
MAX_OVERHEAD = BATCH_OVERHEAD + MAX_RECORD_OVERHEAD
"""Size of a batch header, plus MAX_RECORD_OVERHEAD."""
MAX_VARINT_BYTES = 5
"""The most bytes of a length."""

Header = tuple[str, bytes | None]


def max_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] | None) -> int:
    """Return the most bytes that a record may take in a batch of its own, uncompressed."""
    headers = headers or ()
    size = MAX_OVERHEAD + field_size(key) + field_size(value) + varint_size(len(headers))
    for name, content in headers:
        size += field_size(name.encode()) + field_size(content)
    return size


def field_size(content: bytes | None) -> int:
    """Return the size of a field with its length, in bytes."""
    return 1 if content is None else varint_size(len(content)) + len(content)


def varint_size(length: int) -> int:
    """Return the size of a length as a zigzag varint, in bytes."""
    return (((2 * length) | 1).bit_length() + 6) // 7
