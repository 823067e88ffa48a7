"""snappy with the framing of snappy-java ("xerial"), or a single block without it.

    magic: 82 "SNAPPY" 00       i32 version, i32 lowest compatible version
    then for each block:        i32 length, the block

A payload without that header is a single block, which librdkafka and others write. Every block starts with
its decompressed length (unsigned varint).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import snappy

from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.varint import MAX_VARINT_BYTES, read_unsigned

if TYPE_CHECKING:
    from native_log.records.reference.codec.output import Output

MAGIC = b"\x82SNAPPY\x00"
HEADER = struct.Struct(">8sii")
LENGTH = struct.Struct(">i")
(MAGIC_AS_LENGTH,) = LENGTH.unpack(MAGIC[:4])
MIN_COMPATIBLE_VERSION = 1
MAX_EXPANSION = 22
"""The most that a block can expand: a copy of 64 bytes takes 3 bytes."""


def decompress(payload: memoryview, output: Output) -> None:
    if len(payload) < HEADER.size or payload[: len(MAGIC)] != MAGIC:
        add_block(payload, output)
        return
    at = 0
    while len(payload) - at >= LENGTH.size:  # like snappy-java, ignore fewer bytes
        (length,) = LENGTH.unpack_from(payload, at)
        if length == MAGIC_AS_LENGTH:  # the header of another stream
            check_header(payload, at, output)
            at += HEADER.size
            continue
        at += LENGTH.size
        if not 0 <= length <= len(payload) - at:
            raise output.damaged(f"expected a block of {length} bytes, found {len(payload) - at}")
        add_block(payload[at : at + length], output)
        at += length


def check_header(payload: memoryview, at: int, output: Output) -> None:
    if len(payload) - at < HEADER.size:
        raise output.damaged(f"expected a header of {HEADER.size} bytes, found {len(payload) - at}")
    magic, version, _ = HEADER.unpack_from(payload, at)
    if magic != MAGIC:
        raise output.damaged(f"expected the header {MAGIC.hex()}, found {magic.hex()}")
    if version < MIN_COMPATIBLE_VERSION:
        raise output.damaged(f"expected version {MIN_COMPATIBLE_VERSION} or later, found {version}")


def add_block(block: memoryview, output: Output) -> None:
    try:
        claimed, _ = read_unsigned(block, 0, len(block), 32, MAX_VARINT_BYTES)
    except DamagedBatchError:
        raise output.damaged(
            "expected a block that begins with its decompressed length, found none"
        ) from None
    if claimed > MAX_EXPANSION * len(block):  # the library would allocate them
        most = MAX_EXPANSION * len(block)
        raise output.damaged(f"expected at most {most} bytes in a block of {len(block)}, found {claimed}")
    if claimed > output.room:
        raise output.too_large()
    try:
        output.add(snappy.uncompress(bytes(block)))
    except snappy.UncompressError as error:
        raise output.damaged(f"expected a valid block of {len(block)} bytes, found damage: {error}") from None
