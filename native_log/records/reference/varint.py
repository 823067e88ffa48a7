"""Variable-length integers: seven bits a byte, lowest first, the top bit says "more follows". Signed ones are
zigzag coded (Kafka: ByteUtils). They may be longer than they need to be, but never than their type allows."""

from __future__ import annotations

from native_log.records.reference.damage import DamagedBatchError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A signed 32-bit value at `at`, and where the next byte is."""
    value, at = read_unsigned(data, at, end, 32, MAX_VARINT_BYTES)
    return (value >> 1) ^ -(value & 1), at


def read_varlong(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A signed 64-bit value at `at`, and where the next byte is."""
    value, at = read_unsigned(data, at, end, 64, MAX_VARLONG_BYTES)
    return (value >> 1) ^ -(value & 1), at


def read_unsigned(data: memoryview, at: int, end: int, bits: int, max_bytes: int) -> tuple[int, int]:
    value = 0
    for i in range(max_bytes):
        if at + i >= end:
            raise DamagedBatchError(
                "records", f"a varint runs over the end of what holds it, after {i} bytes"
            )
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            # The last possible byte has room for bits beyond the type: Java shifts them out.
            return value & ((1 << bits) - 1), at + i + 1
    raise DamagedBatchError("records", f"a varint of {bits} bits is longer than {max_bytes} bytes")
