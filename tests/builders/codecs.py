"""Compress payloads of batches with each codec, in all forms that producers write."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING

import lz4.block
import lz4.frame
import snappy
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def xerial(block_bytes: int) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        out = XERIAL
        for at in range(0, len(data), block_bytes):
            block = snappy.compress(data[at : at + block_bytes])
            out += struct.pack(">i", len(block)) + block
        return out

    return compress


def halves(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Two streams, one after the other."""
    return lambda data: compress(data[: len(data) // 2]) + compress(data[len(data) // 2 :])


def lz4_frame(**how: object) -> Callable[[bytes], bytes]:
    settings = {"block_linked": False, "store_size": False} | how
    return lambda data: lz4.frame.compress(data, **settings)


def lz4_of_magic_0(data: bytes) -> bytes:
    """With the header checksum that Kafka gave it there (KAFKA-3160): 1a, of 60 40 right would be 82."""
    frame = lz4.frame.compress(data, block_linked=False, store_size=False)
    assert frame[4:7] == bytes.fromhex("604082"), frame[:7].hex()
    return frame[:6] + b"\x1a" + frame[7:]


def lz4_stored(data: bytes) -> bytes:
    """A frame of blocks that are not compressed."""
    out = bytes.fromhex("04224d18604082")
    for at in range(0, len(data), 1 << 16):
        block = data[at : at + (1 << 16)]
        out += struct.pack("<I", len(block) | 1 << 31) + block
    return out + bytes(4)


def zstd_unsized(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def zstd_streamed(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


FLAVOURS: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    "gzip": {
        "plain": lambda data: gzip.compress(data, mtime=0),
        "members": halves(gzip.compress),
        "stored": lambda data: gzip.compress(data, 0),
        "padded": lambda data: gzip.compress(data) + bytes(7),
    },
    "snappy": {
        "plain": xerial(32 << 10),
        "1 KiB": xerial(1 << 10),
        "tiny": xerial(3),
        "streams": halves(xerial(32 << 10)),
        "raw": lambda data: bytes(snappy.compress(data)),
    },
    "lz4": {
        "plain": lz4_frame(),
        "v0": lz4_of_magic_0,
        "checksums": lz4_frame(block_checksum=True, content_checksum=True),
        "sized": lz4_frame(store_size=True),
        "linked": lz4_frame(block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB),
        "4 MiB": lz4_frame(block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        "stored": lz4_stored,
        "frames": halves(lz4_frame()),
    },
    "zstd": {
        "plain": lambda data: zstandard.ZstdCompressor().compress(data),
        "unsized": zstd_unsized,
        "streamed": zstd_streamed,
        "frames": halves(zstd_unsized),
        "checksum": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
        "skippable": lambda data: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd_streamed(data),
    },
}
ZSTD_TOO_SMALL_FOREVER = bytes.fromhex(
    "28b52ffd6000009d010054021000ff887a0001010002040601"
    "0100b4070080808c89efa2ffff7f080101040001008e070004000ee3d4004fc0bb14ca11"
)
"""A frame with flipped bits."""
