"""The portable format of 64-bit roaring bitmaps (github.com/RoaringBitmap/RoaringFormatSpec): a 32-bit bitmap for
each upper half of the values.

| type (little-endian) | field |
|---|---|
| u64 | number of upper halves |
| u32, bitmap | for each upper half, ascending: the upper half, and the bitmap of the lower halves |

A 32-bit bitmap has a container for each 2^16 values:

| type | field |
|---|---|
| u32 | 12346 and the u32 number of containers; or 12347 + (containers - 1 << 16) and a bit for each of them: whether it is one of runs |
| u16, u16 | key and number of values - 1, for each container |
| u32 | where it begins, for each; with runs only from 4 containers on |
| | the containers: up to 4096 values as u16 each; more as 2^16 bits; runs as u16 count and u16 first, u16 length - 1 of each |
"""  # noqa: E501

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

COOKIE, COOKIE_WITH_RUNS = 12346, 12347
MAX_ARRAY = 4096
MIN_CONTAINERS_WITH_OFFSETS = 4
BITMAP_BYTES = 1 << 13


def ones(bits: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, ascending."""
    for at, byte in enumerate(bits.to_bytes(BITMAP_BYTES, "little")):
        if byte:
            yield from (at * 8 + bit for bit in range(8) if byte >> bit & 1)


def to_bytes(bitmaps: dict[int, int]) -> bytes:
    """Serialize bitmaps: value >> 16 to an integer with the bits of the lower halves."""
    halves: dict[int, dict[int, int]] = {}
    for high in sorted(bitmaps):
        halves.setdefault(high >> 16, {})[high & 0xFFFF] = bitmaps[high]
    data = struct.pack("<Q", len(halves))
    for half, containers in halves.items():
        data += struct.pack("<I", half) + to_bytes_32(containers)
    return data


def to_bytes_32(containers: dict[int, int]) -> bytes:
    bodies = [container_to_bytes(bits) for bits in containers.values()]
    head = struct.pack("<II", COOKIE, len(containers))
    head += b"".join(struct.pack("<HH", key, bits.bit_count() - 1) for key, bits in containers.items())
    begins, at = [], len(head) + 4 * len(bodies)
    for body in bodies:
        begins.append(at)
        at += len(body)
    return head + struct.pack(f"<{len(begins)}I", *begins) + b"".join(bodies)


def container_to_bytes(bits: int) -> bytes:
    count = bits.bit_count()
    return (
        struct.pack(f"<{count}H", *ones(bits))
        if count <= MAX_ARRAY
        else bits.to_bytes(BITMAP_BYTES, "little")
    )


def from_bytes(data: memoryview) -> dict[int, int]:
    """Deserialize. Raise ValueError if `data` is not such a bitmap."""
    rest = Input(data)
    (halves,) = rest.take("<Q")
    bitmaps: dict[int, int] = {}
    before = -1
    for _ in range(halves):
        (half,) = rest.take("<I")
        if not before < half < 1 << 31:
            raise ValueError(f"expected increasing upper halves below 2^31, found {half} after {before}")
        before = half
        for key, bits in containers_from(rest):
            bitmaps[half << 16 | key] = bits
    if rest.left:
        raise ValueError(f"expected the end of the bitmap, found {rest.left} more bytes")
    return bitmaps


def containers_from(rest: Input) -> Iterator[tuple[int, int]]:
    (cookie,) = rest.take("<I")
    is_run = b""
    if cookie == COOKIE:
        (count,) = rest.take("<I")
    elif cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        is_run = bytes(rest.bytes((count + 7) // 8))
    else:
        raise ValueError(f"expected cookie {COOKIE} or {COOKIE_WITH_RUNS}, found {cookie & 0xFFFF}")
    if count > 1 << 16:
        raise ValueError(f"expected at most 65536 containers, found {count}")
    described = [rest.take("<HH") for _ in range(count)]
    if not is_run or count >= MIN_CONTAINERS_WITH_OFFSETS:
        rest.bytes(4 * count)
    before = -1
    for number, (key, most) in enumerate(described):
        if key <= before:
            raise ValueError(f"expected increasing container keys, found {key} after {before}")
        before = key
        runs = bool(is_run) and bool(is_run[number >> 3] >> (number & 7) & 1)
        bits = run_container(rest) if runs else plain_container(rest, most + 1)
        if bits.bit_count() != most + 1:
            raise ValueError(f"expected {most + 1} values in container {key}, found {bits.bit_count()}")
        yield key, bits


def plain_container(rest: Input, count: int) -> int:
    if count > MAX_ARRAY:
        return int.from_bytes(rest.bytes(BITMAP_BYTES), "little")
    values = rest.take(f"<{count}H")
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("expected increasing values in a container, found others")
    return sum(1 << value for value in values)


def run_container(rest: Input) -> int:
    (runs,) = rest.take("<H")
    bits, end = 0, -1
    for _ in range(runs):
        first, more = rest.take("<HH")
        if first <= end or first + more > 0xFFFF:
            raise ValueError("expected increasing runs up to 65535 in a container, found others")
        end = first + more
        bits |= (1 << end + 1) - (1 << first)
    return bits


class Input:
    def __init__(self, data: memoryview) -> None:
        self._data = data

    @property
    def left(self) -> int:
        return len(self._data)

    def bytes(self, count: int) -> memoryview:
        if count > len(self._data):
            raise ValueError(f"expected {count} more bytes, found {len(self._data)}")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def take(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.bytes(struct.calcsize(layout)))
