"""The LZ4 frame format (Kafka: Lz4BlockInputStream).

    magic: 04 22 4d 18
    FLG: i8                     bits 6-7 version 01, 5 blocks are independent, 4 block checksums,
                                3 content size, 2 content checksum, 0-1 reserved
    BD: i8                      bits 4-6 largest block: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB;
                                others reserved
    [content size: 8 bytes]     a hint, ignored
    HC: i8                      second byte of xxHash32 from FLG to here
    blocks                      length: u32, top bit = not compressed; the block; [xxHash32 of it: 4 bytes]
    end mark: 00 00 00 00       [content checksum: 4 bytes, ignored, as by Kafka's reader]

Integers are little-endian. Kafka's reader rejects frames whose blocks depend on earlier blocks. Other clients
write such frames, and this reader accepts them. There can be several frames.
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
"""The distance over which a dependent block can refer to earlier bytes."""


def decompress(payload: memoryview, output: Output, check_header: bool) -> None:
    """Decompress all frames.

    Args:
        check_header: whether HC must be correct. With magic 0 it is not checked, because Kafka wrote a wrong
        one
            (KAFKA-3160: it hashed the frame's magic too).
    """
    at = 0
    while at < len(payload):
        at = read_frame(payload, at, output, check_header)


def read_frame(payload: memoryview, at: int, output: Output, check_header: bool) -> int:
    """Add the content of the frame at `at` to `output`. Return the index of the frame's end."""
    source = Source(payload, at, output)
    magic = source.take(len(MAGIC), "the frame's magic")
    if magic != MAGIC:
        raise output.damaged(f"expected a frame's magic {MAGIC.hex()}, found {magic.hex()}")
    descriptor_at = source.at
    flags, block_descriptor = source.take(2, "the frame descriptor")
    if flags >> 6 != 1:
        raise output.damaged(f"expected frame version 1, found {flags >> 6}")
    if flags & 0x03 or block_descriptor & 0x8F:
        raise output.damaged(f"expected no reserved bits, found FLG {flags:#04x}, BD {block_descriptor:#04x}")
    block_bytes = BLOCK_BYTES.get(block_descriptor >> 4)
    if block_bytes is None:
        raise output.damaged(f"expected block size 4 to 7, found {block_descriptor >> 4}")
    if flags & 0x08:
        source.take(8, "the content size")
    expected = xxh32(payload[descriptor_at : source.at]) >> 8 & 0xFF
    checksum = source.take(1, "the header checksum")[0]
    if check_header and checksum != expected:
        raise output.damaged(f"expected header checksum {expected:#04x}, found {checksum:#04x}")

    window = b""
    while length := source.word("a block's length"):
        block = read_block(length, source, output, block_bytes, has_checksum=bool(flags & 0x10))
        content = block if length & STORED_FLAG else decompress_block(block, window, output, block_bytes)
        output.add(content)
        window = (window + content)[-WINDOW_BYTES:]
    if flags & 0x04:
        source.word("the content checksum")
    return source.at


class Source:
    """The bytes of a frame, read one field after the other."""

    def __init__(self, payload: memoryview, at: int, output: Output) -> None:
        self.at = at
        self._payload = payload
        self._output = output

    def take(self, size: int, what: str) -> bytes:
        left = len(self._payload) - self.at
        if size > left:
            raise self._output.damaged(f"expected {size} bytes of {what}, found {left}")
        taken = bytes(self._payload[self.at : self.at + size])
        self.at += size
        return taken

    def word(self, what: str) -> int:
        (value,) = WORD.unpack(self.take(WORD.size, what))
        return int(value)


def read_block(length: int, source: Source, output: Output, max_bytes: int, has_checksum: bool) -> bytes:
    length &= ~STORED_FLAG
    if length > max_bytes:
        raise output.damaged(f"expected a block of at most {max_bytes} bytes, found {length}")
    block = source.take(length, "a block")
    if has_checksum:
        actual, expected = xxh32(memoryview(block)), source.word("a block's checksum")
        if actual != expected:
            raise output.damaged(f"expected block checksum {expected:#010x}, found {actual:#010x}")
    return block


def decompress_block(block: bytes, window: bytes, output: Output, max_bytes: int) -> bytes:
    """Decompress a block. `window`: the content before it, to which the block can refer."""
    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=max_bytes, dict=window))
    except lz4.block.LZ4BlockError as error:
        raise output.damaged(f"expected a valid block of {len(block)} bytes, found damage: {error}") from None
