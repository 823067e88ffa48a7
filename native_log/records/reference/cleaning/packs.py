"""Keys and offsets on their way from the tasks that read to the one that has a bucket. The format is that of
OffsetMap.buckets."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import crc32c

from native_log.records.reference.cleaning.survivors import Survivors

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterable, Iterator  # type: ignore[attr-defined]

VERSION = 1
DIRTY, CLEAN = 0, 1
HEADER = struct.Struct("<BBqq")
"""version, kind, number of entries, least offset"""
SMALLEST_ENTRY_BYTES = 2


def bucket_of(key: bytes, count: int) -> int:
    return int(crc32c.crc32c(key)) * count >> 32


def pack(kind: int, entries: list[tuple[bytes, int]], count: int) -> list[bytes]:
    if not 1 <= count <= 1 << 16:
        raise ValueError(f"1 to 65536 buckets were expected, found {count}")
    buckets: list[list[tuple[bytes, int]]] = [[] for _ in range(count)]
    for key, offset in entries:
        buckets[bucket_of(key, count)].append((key, offset))
    return [one_pack(kind, bucket) for bucket in buckets]


def one_pack(kind: int, entries: list[tuple[bytes, int]]) -> bytes:
    least = min((offset for _, offset in entries), default=0)
    packed = bytearray(HEADER.pack(VERSION, kind, len(entries), least))
    for key, offset in entries:
        packed += leb128(len(key)) + leb128(offset - least) + key
    return bytes(packed)


def leb128(value: int) -> bytes:
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def merge(packs: Iterable[Buffer]) -> Survivors:
    """Survivors of one bucket.

    Of a key that any pack of the dirty part has: the greatest offset there. Of any other: all its offsets in
    packs of the clean part. The order of the packs does not matter.

    Raises:
        ValueError: bytes that are no pack.
    """
    newest: dict[bytes, int] = {}
    clean: list[tuple[bytes, int]] = []
    for number, data in enumerate(packs):
        try:
            kind, entries = unpack(memoryview(data).cast("B"))
            if kind == CLEAN:
                clean.extend(entries)
                continue
            for key, offset in entries:
                newest[key] = max(offset, newest.get(key, offset))
        except ValueError as error:
            raise ValueError(f"pack {number}: {error}") from None
    offsets = [*newest.values(), *(offset for key, offset in clean if key not in newest)]
    return Survivors(offset for offset in offsets if offset >= 0)


def unpack(data: memoryview) -> tuple[int, Iterator[tuple[bytes, int]]]:
    if len(data) < HEADER.size:
        raise ValueError(f"a pack has at least {HEADER.size} bytes, found {len(data)}")
    version, kind, count, least = HEADER.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"packs of version {VERSION} were expected, found {version}")
    if kind not in (DIRTY, CLEAN):
        raise ValueError(f"kind 0 or 1 was expected, found {kind}")
    most = (len(data) - HEADER.size) // SMALLEST_ENTRY_BYTES
    if not 0 <= count <= most:
        raise ValueError(f"the pack claims {count} entries, its {len(data)} bytes hold 0 to {most}")
    return kind, entries_of(data, count, least)


def entries_of(data: memoryview, count: int, least: int) -> Iterator[tuple[bytes, int]]:
    at = HEADER.size
    for number in range(count):
        length, at = read_leb128(data, at, number)
        ahead, at = read_leb128(data, at, number)
        offset = least + ahead
        if length > len(data) - at or offset >= 1 << 63:
            raise ValueError(f"entry {number} of {count} claims {length} key bytes and offset {offset}")
        yield bytes(data[at : at + length]), offset
        at += length
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes are left behind the {count} entries")


def read_leb128(data: memoryview, at: int, number: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at == len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value < 1 << 64:
            return value, at
    raise ValueError(f"entry {number} is cut short, or has a number of more than 64 bits")
