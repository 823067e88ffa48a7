"""Variable-length integers (Kafka: ByteUtils).

Each byte has seven bits of the value, the lowest first; its top bit is set if another byte follows. Signed
integers are zigzag encoded. An encoding may be longer than necessary, up to the maximum of its type.
"""

from __future__ import annotations

from native_log.records.reference.damage import DamagedBatchError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the signed 32-bit integer at `at`, and the index after it."""
    value, at = read_unsigned(data, at, end, 32, MAX_VARINT_BYTES)
    return (value >> 1) ^ -(value & 1), at


def read_varlong(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the signed 64-bit integer at `at`, and the index after it."""
    value, at = read_unsigned(data, at, end, 64, MAX_VARLONG_BYTES)
    return (value >> 1) ^ -(value & 1), at


def read_unsigned(data: memoryview, at: int, end: int, bits: int, max_bytes: int) -> tuple[int, int]:
    value = 0
    for i in range(max_bytes):
        if at + i >= end:
            raise DamagedBatchError(
                "records", f"expected the rest of a varint, found the end after {i} bytes"
            )
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            # The last byte can have bits beyond the type. Like Java, drop them.
            return value & ((1 << bits) - 1), at + i + 1
    raise DamagedBatchError(
        "records", f"expected a varint of {bits} bits in at most {max_bytes} bytes, found a longer one"
    )
