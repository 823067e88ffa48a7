"""Builds batches of magic 0, 1 and 2 for tests, byte by byte and independently of what is tested. Every field
can be made to lie."""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

import crc32c
import lz4.block
import lz4.frame
import snappy
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T0 = 1_600_000_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Rec(NamedTuple):
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp: int = T0
    offset_delta: int | None = None
    """None: its place in the batch."""


# Magic 2
# --------------------------------------------------------------------------------------------------------


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def long_varint(value: int, size: int) -> bytes:
    """The same in `size` bytes, more than it needs."""
    short = varint(value)
    return bytes(b | 0x80 for b in short) + b"\x80" * (size - len(short) - 1) + b"\x00"


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def body(rec: Rec, delta: int, base_timestamp: int) -> bytes:
    out = b"\0" + varint(rec.timestamp - base_timestamp) + varint(delta) + sized(rec.key) + sized(rec.value)
    out += varint(len(rec.headers))
    for key, value in rec.headers:
        out += sized(key) + sized(value)
    return out


def payload(recs: Sequence[Rec], base_timestamp: int = T0) -> bytes:
    out = b""
    for i, rec in enumerate(recs):
        record = body(rec, i if rec.offset_delta is None else rec.offset_delta, base_timestamp)
        out += varint(len(record)) + record
    return out


def v2(
    recs: Sequence[Rec] = (Rec(),),
    offset: int = 0,
    codec: str | int = "none",
    *,
    compress: Callable[[bytes], bytes] | None = None,
    records: bytes | None = None,
    size: int | None = None,
    leader_epoch: int = 0,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = T0,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int | None = None,
) -> bytes:
    """`records`: the payload as stored; `attributes`: further bits; `compress`: a flavour of the codec."""
    number = CODECS[codec] if isinstance(codec, str) else codec
    if records is None:
        records = payload(recs, base_timestamp)
        if number:
            records = (compress or FLAVOURS[str(codec)]["plain"])(records)
    if last_offset_delta is None:
        last = recs[-1].offset_delta if recs else 0
        last_offset_delta = max(len(recs) - 1, 0) if last is None else last
    if max_timestamp is None:
        max_timestamp = max((rec.timestamp for rec in recs), default=-1)
    checked = struct.pack(
        ">hiqqqhii",
        number | attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(recs) if record_count is None else record_count,
    )
    checked += records
    crc = crc32c.crc32c(checked) if crc is None else crc
    size = 9 + len(checked) if size is None else size
    return struct.pack(">qiibI", offset, size, leader_epoch, magic, crc) + checked


LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, HORIZON = 8, 16, 32, 64
ABORT, COMMIT = 0, 1


def marker(offset: int, producer_id: int, kind: int = COMMIT, epoch: int = 0, timestamp: int = T0) -> bytes:
    """The control batch that ends a transaction."""
    rec = Rec(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 5), timestamp=timestamp)
    return v2(
        [rec],
        offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_timestamp=timestamp,
    )


def with_right_crc(batch: bytes) -> bytes:
    """The batch of magic 2, its CRC made to fit again after a field was changed."""
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


# Magic 0 and 1
# ----------------------------------------------------------------------------------------------------


def message(
    magic: int,
    offset: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    *,
    timestamp: int = T0,
    attributes: int = 0,
    crc: int | None = None,
    size: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
) -> bytes:
    def sized(data: bytes | None, lie: int | None) -> bytes:
        length = -1 if data is None else len(data)
        return struct.pack(">i", length if lie is None else lie) + (data or b"")

    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic == 1 else b"")
    checked += sized(key, key_length) + sized(value, value_length)
    crc = zlib.crc32(checked) if crc is None else crc
    size = 4 + len(checked) if size is None else size
    return struct.pack(">qiI", offset, size, crc) + checked


def wrapper(
    magic: int,
    inner: Sequence[bytes],
    offset: int,
    codec: str | int,
    *,
    compress: Callable[[bytes], bytes] | None = None,
    attributes: int = 0,
    **fields: int | None,
) -> bytes:
    number = CODECS[codec] if isinstance(codec, str) else codec
    compressed = (compress or FLAVOURS[str(codec)]["v0" if magic == 0 and codec == "lz4" else "plain"])(
        b"".join(inner)
    )
    return message(magic, offset, None, compressed, attributes=number | attributes, **fields)  # type: ignore[arg-type]


# Codecs
# -----------------------------------------------------------------------------------------------------------

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
