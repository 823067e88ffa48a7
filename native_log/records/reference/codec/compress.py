"""Payloads compressed as Kafka's Java client frames them, with each codec's default level."""

from __future__ import annotations

import gzip
import struct

import lz4.block
import snappy
import zstandard

from native_log.records.reference.codec import NAMES
from native_log.records.reference.codec.xxhash import xxh32

XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def compress(codec: int, magic: int, payload: bytes) -> bytes:
    match NAMES[codec]:
        case "none":
            return payload
        case "gzip":
            return gzip.compress(payload, 6, mtime=0)
        case "snappy":
            blocks = [
                bytes(snappy.compress(payload[at : at + (32 << 10)]))
                for at in range(0, len(payload), 32 << 10)
            ]
            return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        case "lz4":
            return lz4_frame(payload, magic)
        case _:
            return zstandard.ZstdCompressor(level=3, write_content_size=False).compress(payload)


def lz4_frame(payload: bytes, magic: int) -> bytes:
    descriptor = b"\x60\x40"
    # KAFKA-3160: with magic 0 the checksum is over the frame's magic too.
    checked = (b"\x04\x22\x4d\x18" if magic == 0 else b"") + descriptor
    frame = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(memoryview(checked)) >> 8 & 0xFF])
    for at in range(0, len(payload), 1 << 16):
        block = payload[at : at + (1 << 16)]
        packed = lz4.block.compress(block, store_size=False)
        if len(packed) < len(block):
            frame += struct.pack("<I", len(packed)) + packed
        else:
            frame += struct.pack("<I", len(block) | 1 << 31) + block
    return frame + bytes(4)
