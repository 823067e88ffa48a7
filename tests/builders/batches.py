"""Build batches of magic 2 byte by byte, independently of what is tested. Every field can be made to lie."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import crc32c

from .codecs import CODECS, FLAVOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T0 = 1_600_000_000_000


class Rec(NamedTuple):
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp: int = T0
    offset_delta: int | None = None
    """None: its place in the batch."""


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


def batch(offset: int, count: int = 3, size: int = 20, **fields: Any) -> bytes:
    """Return a batch of magic 2 with `count` records. Each value has `size` bytes and contains its offset."""
    values = [str(offset + i).encode().rjust(size, b".") for i in range(count)]
    return v2([Rec(b"k", value) for value in values], offset, **fields)
