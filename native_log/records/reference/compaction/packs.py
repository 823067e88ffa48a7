"""Packs of keys and offsets, and the survivors of all packs of a bucket. KeyBuckets.take documents the
format."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from native_log.records.reference.compaction.survivors import Survivors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

VERSION = 2
DIRTY, CLEAN = 0, 1
MAX_BUCKETS = 1 << 16
HEADER = struct.Struct("<BBqq")
"""version, kind, number of entries, base"""
SHORT = struct.Struct("<BI")
"""length of the key, offset - base"""
LONG = struct.Struct("<BIq")
"""IS_LONG, length of the key, offset"""
IS_LONG = 255

MULTIPLIER = 0x9E3779B97F4A7C15
ONES_64 = (1 << 64) - 1


def bucket_of(key: bytes, count: int) -> int:
    hash, whole = len(key), len(key) // 8 * 8
    for at in range(0, whole, 8):
        hash = mix(hash ^ int.from_bytes(key[at : at + 8], "little"))
    if whole < len(key):
        hash = mix(hash ^ int.from_bytes(key[-8:], "little"))
    return hash * count >> 64


def mix(value: int) -> int:
    product = value * MULTIPLIER
    return product & ONES_64 ^ product >> 64


def pack(kind: int, base: int, entries: Iterable[tuple[bytes, int]]) -> bytes:
    packed = [entry(base, key, offset) for key, offset in entries]
    return HEADER.pack(VERSION, kind, len(packed), base) + b"".join(packed)


def entry(base: int, key: bytes, offset: int) -> bytes:
    if len(key) < IS_LONG and 0 <= offset - base < 1 << 32:
        return SHORT.pack(len(key), offset - base) + key
    return LONG.pack(IS_LONG, len(key), offset) + key


def merge(buckets: Iterable[Iterable[Buffer]]) -> Survivors:
    """Return the survivors of buckets.

    If a dirty pack has a key, the greatest of the key's offsets in dirty packs survives. Otherwise all its
    offsets in clean packs survive. The order of the packs does not matter.

    Args:
        buckets: the packs of each bucket. A bucket is merged before the next one is requested.

    Raises:
        ValueError: the bytes are not a pack.
    """
    survivors = Survivors()
    for number, packs in enumerate(buckets):
        try:
            survivors.update(survivors_of(packs))
        except ValueError as error:
            raise ValueError(f"bucket {number}: {error}") from None
    return survivors


def survivors_of(packs: Iterable[Buffer]) -> Iterator[int]:
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
    return (offset for offset in offsets if offset >= 0)


def unpack(data: memoryview) -> tuple[int, Iterable[tuple[bytes, int]]]:
    if not len(data):
        return CLEAN, ()
    if len(data) < HEADER.size:
        raise ValueError(f"expected a pack of 0 or at least {HEADER.size} bytes, found {len(data)}")
    version, kind, count, base = HEADER.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"expected packs of version {VERSION}, found {version}")
    if kind not in (DIRTY, CLEAN):
        raise ValueError(f"expected kind 0 or 1, found {kind}")
    max_count = (len(data) - HEADER.size) // SHORT.size
    if not 0 <= count <= max_count:
        raise ValueError(f"expected at most {max_count} entries in {len(data)} bytes, found {count}")
    return kind, index_entries(data, count, base)


def index_entries(data: memoryview, count: int, base: int) -> Iterator[tuple[bytes, int]]:
    at = HEADER.size
    for number in range(count):
        try:
            if data[at] == IS_LONG:
                _, length, offset = LONG.unpack_from(data, at)
                at += LONG.size
            else:
                length, ahead = SHORT.unpack_from(data, at)
                offset = base + ahead
                at += SHORT.size
        except (struct.error, IndexError):
            raise ValueError(
                f"expected the rest of entry {number} of {count}, found the end of the pack"
            ) from None
        if length > len(data) - at or offset >= 1 << 63:
            raise ValueError(
                f"expected at most {len(data) - at} key bytes and an offset below 2^63 in entry {number} "
                f"of {count}, found {length} bytes and offset {offset}"
            )
        yield bytes(data[at : at + length]), offset
        at += length
    if at != len(data):
        left = len(data) - at
        raise ValueError(f"expected the end of the pack after {count} entries, found {left} more bytes")
