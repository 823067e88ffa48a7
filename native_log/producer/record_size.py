"""The sizes of records, as Kafka's producer estimates them before it encodes them.

Kafka: DefaultRecord, DefaultRecordBatch, AbstractRecords.estimateSizeInBytesUpperBound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def max_size(key: bytes | None, value: bytes | None, headers: Iterable[Header]) -> int:
    """Return the most bytes that a record may take in a batch of its own, uncompressed."""
    headers = list(headers)
    size = MAX_OVERHEAD + field_size(key) + field_size(value) + varint_size(len(headers))
    return size + sum(field_size(name.encode()) + field_size(content) for name, content in headers)


def field_size(content: bytes | None) -> int:
    """Return the size of a field with its length, in bytes."""
    return 1 if content is None else varint_size(len(content)) + len(content)


def varint_size(length: int) -> int:
    """Return the size of a length as a zigzag varint, in bytes."""
    return max(1, -(-(2 * length).bit_length() // 7))
