"""Compress payloads with the framing of Kafka's Java client."""

from __future__ import annotations

import gzip
import struct

import lz4.block
import snappy
import zstandard

from native_log.codecs import CODECS_BY_ID
from native_log.records.reference.codec.xxhash import xxh32

LZ4_FAST_LEVEL = 9
"""Kafka uses lz4's fast compressor at this level, and its high-compression one at every other."""
XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def compress(codec: int, magic: int, payload: bytes, level: int | None = None) -> bytes:
    """Compress with the codec of this id. `level`: None is Kafka's default of the codec."""
    if level is None:
        level = CODECS_BY_ID[codec].default_level or 0
    match CODECS_BY_ID[codec].name:
        case "none":
            return payload
        case "gzip":
            return gzip.compress(payload, 6 if level == -1 else level, mtime=0)
        case "snappy":
            blocks = [
                bytes(snappy.compress(payload[at : at + (32 << 10)]))
                for at in range(0, len(payload), 32 << 10)
            ]
            return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        case "lz4":
            return lz4_frame(payload, magic, level)
        case _:
            return zstandard.ZstdCompressor(level=level, write_content_size=False).compress(payload)


def lz4_frame(payload: bytes, magic: int, level: int = LZ4_FAST_LEVEL) -> bytes:
    descriptor = b"\x60\x40"
    # KAFKA-3160: with magic 0 the checksum is over the frame's magic too.
    checked = (b"\x04\x22\x4d\x18" if magic == 0 else b"") + descriptor
    frame = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(memoryview(checked)) >> 8 & 0xFF])
    for at in range(0, len(payload), 1 << 16):
        block = payload[at : at + (1 << 16)]
        mode = "default" if level == LZ4_FAST_LEVEL else "high_compression"
        packed = lz4.block.compress(block, mode=mode, compression=level, store_size=False)
        if len(packed) < len(block):
            frame += struct.pack("<I", len(packed)) + packed
        else:
            frame += struct.pack("<I", len(block) | 1 << 31) + block
    return frame + bytes(4)
