"""The LZ4 frame format, as far as Kafka uses it (Kafka: Lz4BlockInputStream), and a little further.

    magic: 04 22 4d 18
    FLG: i8                     bits 6-7 version 01, 5 blocks are independent, 4 block checksums,
                                3 content size, 2 content checksum, 0-1 reserved
    BD: i8                      bits 4-6 largest block: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB;
                                others reserved
    [content size: 8 bytes]     a hint, not looked at
    HC: i8                      second byte of xxHash32 from FLG to here
    blocks                      length: u32, top bit = stored as it is; the block; [xxHash32 of it: 4 bytes]
    end mark: 00 00 00 00       [content checksum: 4 bytes, not looked at, as Kafka's reader]

Numbers are little-endian. Kafka's reader refuses frames whose blocks refer to earlier ones; other clients
write them, and this one takes them. Several frames may follow each other.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import lz4.block

from native_log.records.reference.codec.xxhash import xxh32

if TYPE_CHECKING:
    from native_log.records.reference.codec.output import Output

MAGIC = b"\x04\x22\x4d\x18"
WORD = struct.Struct("<I")
STORED_FLAG = 0x80000000
BLOCK_BYTES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
WINDOW_BYTES = 1 << 16
"""How far back a dependent block may refer."""


def decompress(payload: memoryview, output: Output, check_header: bool) -> None:
    """`check_header`: whether HC must be right. Kafka wrote it wrongly with magic 0 (KAFKA-3160: the frame's
    magic was hashed too), so there it says nothing."""
    at = 0
    while at < len(payload):
        at = read_frame(payload, at, output, check_header)


def read_frame(payload: memoryview, at: int, output: Output, check_header: bool) -> int:
    """Adds what the frame at `at` holds to `output`; where the frame ends."""
    source = Source(payload, at, output)
    magic = source.take(len(MAGIC), "the frame's magic")
    if magic != MAGIC:
        raise output.damaged(f"a frame's magic {MAGIC.hex()} was expected, found {magic.hex()}")
    descriptor_at = source.at
    flags, block_descriptor = source.take(2, "the frame descriptor")
    if flags >> 6 != 1:
        raise output.damaged(f"frame version 1 was expected, found {flags >> 6}")
    if flags & 0x03 or block_descriptor & 0x8F:
        raise output.damaged(f"reserved bits are set: FLG {flags:#04x}, BD {block_descriptor:#04x}")
    block_bytes = BLOCK_BYTES.get(block_descriptor >> 4)
    if block_bytes is None:
        raise output.damaged(f"block size 4 to 7 was expected, found {block_descriptor >> 4}")
    if flags & 0x08:
        source.take(8, "the content size")
    expected = xxh32(payload[descriptor_at : source.at]) >> 8 & 0xFF
    found = source.take(1, "the header checksum")[0]
    if check_header and found != expected:
        raise output.damaged(f"header checksum {expected:#04x} was expected, found {found:#04x}")

    window = b""
    while length := source.word("a block's length"):
        block = read_block(length, source, output, block_bytes, has_checksum=bool(flags & 0x10))
        content = block if length & STORED_FLAG else decompressed(block, window, output, block_bytes)
        output.add(content)
        window = (window + content)[-WINDOW_BYTES:]
    if flags & 0x04:
        source.word("the content checksum")
    return source.at


class Source:
    """The bytes of a frame, taken one field after the other."""

    def __init__(self, payload: memoryview, at: int, output: Output) -> None:
        self.at = at
        self._payload = payload
        self._output = output

    def take(self, size: int, what: str) -> bytes:
        left = len(self._payload) - self.at
        if size > left:
            raise self._output.damaged(f"{what} has {size} bytes, {left} are left")
        taken = bytes(self._payload[self.at : self.at + size])
        self.at += size
        return taken

    def word(self, what: str) -> int:
        (value,) = WORD.unpack(self.take(WORD.size, what))
        return int(value)


def read_block(length: int, source: Source, output: Output, most_bytes: int, has_checksum: bool) -> bytes:
    length &= ~STORED_FLAG
    if length > most_bytes:
        raise output.damaged(f"a block claims {length} bytes, {most_bytes} is the frame's most")
    block = source.take(length, "a block")
    if has_checksum:
        found, expected = xxh32(memoryview(block)), source.word("a block's checksum")
        if found != expected:
            raise output.damaged(
                f"block checksum {expected:#010x} was expected, its bytes have {found:#010x}"
            )
    return block


def decompressed(block: bytes, window: bytes, output: Output, most_bytes: int) -> bytes:
    """`window`: what the frame held before this block, which may refer to it."""
    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=most_bytes, dict=window))
    except lz4.block.LZ4BlockError as error:
        raise output.damaged(f"a block of {len(block)} bytes cannot be decompressed: {error}") from None
