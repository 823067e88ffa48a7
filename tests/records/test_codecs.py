"""The framing of compressed payloads that is read, and the one that is rejected."""

from __future__ import annotations

import struct
import zlib

import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard

from tests.builders.batches import Rec, payload, v2
from tests.builders.codecs import FLAVOURS, XERIAL, ZSTD_TOO_SMALL_FOREVER
from tests.builders.legacy import message, wrapper

from .rows import offsets, rows

RECS = [Rec(b"k%d" % i, bytes([i % 251]) * (i * 37 % 900), offset_delta=i) for i in range(400)]
BIG = [Rec(None, bytes(range(256)) * 700)]
FLAVOUR_IDS = [(codec, flavour) for codec, flavours in FLAVOURS.items() for flavour in flavours]


def values(impl, data: bytes, **how: int) -> list[bytes]:
    decoded = impl.decode(data, ["value"], **how)
    assert decoded.status == "end", decoded
    return [row["value"] for row in rows(decoded.batch)]


def damage(impl, data: bytes, **how: int):
    decoded = impl.decode(data, ["offset", "value"], **how)
    assert decoded.status == "damaged", decoded
    assert (decoded.position, decoded.damage.position, decoded.damage.size_bytes) == (0, 0, len(data))
    assert decoded.batch.num_rows == 0
    assert "\n" not in decoded.damage.message
    return decoded.damage


@pytest.mark.parametrize(("codec", "flavour"), [f for f in FLAVOUR_IDS if f != ("lz4", "v0")])
@pytest.mark.parametrize("recs", [RECS, BIG, [Rec(b"", b"")]], ids=["many", "big", "small"])
def test_v2(impl, codec: str, flavour: str, recs: list[Rec]) -> None:
    data = v2(recs, 5, codec, compress=FLAVOURS[codec][flavour])
    assert values(impl, data) == [rec.value for rec in recs]


@pytest.mark.parametrize(("codec", "flavour"), [f for f in FLAVOUR_IDS if f[0] != "zstd"])
@pytest.mark.parametrize("magic", [0, 1])
def test_legacy(impl, magic: int, codec: str, flavour: str) -> None:
    inner = [message(magic, i, None, rec.value) for i, rec in enumerate(RECS)]
    data = wrapper(magic, inner, len(RECS) - 1, codec, compress=FLAVOURS[codec][flavour])
    if (magic, flavour) == (1, "v0"):  # the wrong checksum of magic 0 is forgiven there only
        assert damage(impl, data).kind == "compression"
    else:
        assert values(impl, data) == [rec.value for rec in RECS]


def raw(impl, codec: str, stored: bytes, **how: int):
    return damage(impl, v2(RECS[:1], codec=codec, records=stored), **how)


PLAIN = payload(RECS)


@pytest.mark.parametrize(("codec", "flavour"), [f for f in FLAVOUR_IDS if f != ("lz4", "v0")])
def test_cut_short(impl, codec: str, flavour: str) -> None:
    stored = FLAVOURS[codec][flavour](payload(RECS[:3]))
    kept = {"padded": 7}.get(flavour, 0)
    for cut in range(len(stored) - kept):
        decoded = impl.decode(v2(RECS[:3], codec=codec, records=stored[:cut]), ["offset"])
        assert decoded.status == "damaged", cut
        # A cut between two streams leaves a whole one.
        assert decoded.damage.kind in ("compression", "records"), cut
        assert decoded.batch.num_rows == 0


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_trailing_garbage(impl, codec: str) -> None:
    stored = FLAVOURS[codec]["plain"](payload(RECS[:1])) + b"garbage"
    assert raw(impl, codec, stored).kind == "compression"


def test_xerial_ignores_a_cut_length(impl) -> None:
    stored = FLAVOURS["snappy"]["plain"](payload(RECS[:1])) + b"\0\0\0"
    assert values(impl, v2(RECS[:1], codec="snappy", records=stored)) == [RECS[0].value]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (XERIAL[:8] + struct.pack(">ii", 0, 1) + b"\0\0\0\1\0", "version 0"),
        (XERIAL + struct.pack(">i", 100) + b"\0", "a block runs over the end"),
        (XERIAL + struct.pack(">i", -5) + b"\0", "negative length"),
        (XERIAL + struct.pack(">i", 0), "an empty block lacks its length"),
        (XERIAL + XERIAL[:9], "second header cut"),
        (XERIAL + b"\x82SNAPPX\0" + bytes(8), "second header wrong"),
        (b"\x82SNAPPY", "shorter than a header: a raw block that is none"),
        (b"\xff\xff\xff\xff\x0f" + bytes(30), "claims 4 GiB"),
        (b"\xff\xff\xff\xff\xff\x01" + bytes(30), "length of 6 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_snappy_rejected(impl, stored: bytes, why: str) -> None:
    assert raw(impl, "snappy", stored).kind == "compression"


def test_xerial_of_a_later_version(impl) -> None:
    stored = FLAVOURS["snappy"]["plain"](payload(RECS[:1]))
    stored = stored[:8] + struct.pack(">ii", 7, 3) + stored[16:]
    assert values(impl, v2(RECS[:1], codec="snappy", records=stored)) == [RECS[0].value]


def test_raw_snappy_that_begins_like_xerial(impl) -> None:
    """0x82 is the first byte of a length too."""
    recs = [Rec(None, b"x" * n) for n in range(200)]
    for rec in recs:
        stored = snappy.compress(payload([rec]))
        assert values(impl, v2([rec], codec="snappy", records=stored)) == [rec.value]
    assert any(snappy.compress(payload([rec]))[0] == 0x82 for rec in recs)


def frame(
    flags: int = 0x60, block: int = 0x40, blocks: bytes | None = None, checksum: int | None = None
) -> bytes:
    """An LZ4 frame around one stored block, its header checksum right for what its flags are."""
    content = payload(RECS[:1])
    blocks = struct.pack("<I", len(content) | 1 << 31) + content if blocks is None else blocks
    right = HEADER_CHECKSUMS.get((flags, block), 0)
    return (
        b"\x04\x22\x4d\x18"
        + bytes([flags, block, right if checksum is None else checksum])
        + blocks
        + bytes(4)
    )


HEADER_CHECKSUMS = {(0x60, 0x40): 0x82, (0x64, 0x40): 0xA7, (0x70, 0x40): 0xAD}


def test_lz4_checksums_are_as_kafka_writes_them(impl) -> None:
    for flags, tail in ((0x60, b""), (0x64, b"\1\2\3\4")):  # the content checksum is not looked at
        assert values(impl, v2(RECS[:1], codec="lz4", records=frame(flags) + tail)) == [RECS[0].value]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (frame(checksum=0x81), "header checksum"),
        (frame(checksum=0x1A), "header checksum of magic 0"),
        (frame(0xA0), "version 2"),
        (frame(0x20), "version 0"),
        (frame(0x61), "reserved bit 0"),
        (frame(0x62), "reserved bit 1"),
        (frame(block=0x30), "block size 3"),
        (frame(block=0x41), "reserved bit of BD"),
        (frame(block=0xC0), "top bit of BD"),
        (frame()[:-4], "no end mark"),
        (frame(0x64), "content checksum missing"),
        (frame(0x70) + bytes(4), "block checksum wrong"),
        (frame(blocks=struct.pack("<I", 65537 | 1 << 31) + bytes(65537)), "block above 64 KiB"),
        (frame(blocks=struct.pack("<I", 0x7FFFFFFF)), "block claims 2 GiB"),
        (frame(blocks=struct.pack("<I", 3) + b"\xff\xff\xff"), "block that is none"),
        (b"\x02\x21\x4c\x18" + bytes(20), "legacy frame"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_lz4_rejected(impl, stored: bytes, why: str) -> None:
    assert raw(impl, "lz4", stored).kind == "compression"


def test_lz4_block_above_the_frames_size(impl) -> None:
    block = lz4.block.compress(bytes((1 << 16) + 1), store_size=False)
    assert raw(impl, "lz4", frame(blocks=struct.pack("<I", len(block)) + block)).kind == "compression"


def test_empty_streams_hold_no_records(impl) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert raw(impl, codec, FLAVOURS[codec]["plain"](b"")).kind == "records", codec
        assert raw(impl, codec, b"").kind == "compression", codec


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(impl, codec: int) -> None:
    actual = damage(impl, v2(RECS[:1], codec=codec, records=b"any bytes"))
    assert actual.kind == "codec"
    assert str(codec) in actual.message
    scanned = impl.scan(v2(RECS[:1], codec=codec, records=b"any bytes"), check_crcs=True)
    assert (scanned.status, scanned.batches.column("compression").to_pylist()) == (
        "end",
        [f"unknown({codec})"],
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_codecs_not_allowed_in_legacy_formats(impl, magic: int, codec: int) -> None:
    assert (
        damage(impl, wrapper(magic, [message(magic)], 0, codec, compress=zstandard.compress)).kind == "codec"
    )


@pytest.mark.parametrize(
    ("codec", "flavour"), [f for f in FLAVOUR_IDS if f not in (("lz4", "v0"), ("snappy", "tiny"))]
)
def test_bomb(impl, codec: str, flavour: str) -> None:
    """A small batch that would become 8 MiB is rejected at the limit; one that just fits is not."""
    recs = [Rec(None, bytes(8 << 20))]
    bomb = v2(recs, codec=codec, compress=FLAVOURS[codec][flavour])
    size = len(payload(recs))
    if flavour == "stored":
        assert len(bomb) > size  # no bomb, but it shows that the flavour is what it says
        return
    actual = damage(impl, bomb, max_batch_bytes=max(len(bomb), 1 << 20))
    assert actual.kind == "too-large"
    assert "max_batch_bytes" in actual.message
    assert damage(impl, bomb, max_batch_bytes=size - 1).kind == "too-large"
    assert values(impl, bomb, max_batch_bytes=size) == [recs[0].value]


def test_zstd_content_size_is_only_a_claim(impl) -> None:
    """A single segment of 1 TiB, a window of 1 KiB that is to hold 1 TiB: both with one block of 1 byte."""
    block = struct.pack("<I", 1 << 3 | 1)[:3] + b"x"
    for descriptor in (b"\xe0", b"\xc0\x00"):
        stored = b"\x28\xb5\x2f\xfd" + descriptor + struct.pack("<Q", 1 << 40) + block
        assert raw(impl, "zstd", stored).kind == "compression"


def test_zstd_damage_that_looks_like_a_small_buffer(impl) -> None:
    """libzstd says "destination too small" of this frame however large the destination is."""
    assert raw(impl, "zstd", ZSTD_TOO_SMALL_FOREVER).kind == "compression"


def test_zstd_window_above_128_mib(impl) -> None:
    # Not a single segment, window descriptor 1 GiB: rejected before anything is allocated.
    assert raw(impl, "zstd", b"\x28\xb5\x2f\xfd\x00" + bytes([20 << 3]) + b"\x01\0\0").kind == "compression"


def test_gzip_checks_itself(impl) -> None:
    stored = bytearray(FLAVOURS["gzip"]["plain"](payload(RECS[:1])))
    for at in (-8, -4):  # CRC-32, size
        wrong = bytearray(stored)
        wrong[at] ^= 1
        assert raw(impl, "gzip", bytes(wrong)).kind == "compression"
    assert raw(impl, "gzip", zlib.compress(payload(RECS[:1]))).kind == "compression"  # zlib is not gzip


def test_gzip_header_fields(impl) -> None:
    """Name, comment, extra field: RFC 1952 lets them be there."""
    content = payload(RECS[:1])
    deflate = zlib.compressobj(wbits=-15)
    stored = b"\x1f\x8b\x08" + bytes([4 | 8 | 16]) + bytes(6) + b"\x03\0abc" + b"name\0" + b"comment\0"
    stored += deflate.compress(content) + deflate.flush()
    stored += struct.pack("<II", zlib.crc32(content), len(content))
    assert values(impl, v2(RECS[:1], codec="gzip", records=stored)) == [RECS[0].value]


def test_batches_of_all_codecs_in_one_log(impl) -> None:
    log, offset = b"", 0
    for codec, flavours in FLAVOURS.items():
        for flavour, compress in flavours.items():
            if flavour != "v0":
                log += v2(RECS[:7], offset, codec, compress=compress)
                offset += 7
    decoded = impl.decode(log, ["offset", "compression"])
    assert offsets(decoded.batch) == list(range(offset))
    assert set(decoded.batch.column("compression").to_pylist()) == set(FLAVOURS)


@pytest.mark.parametrize("literals_after", [1, 2, 3, 4, 20])
def test_lz4_match_length_near_the_end_of_a_block(impl, literals_after: int) -> None:
    """liblz4 requires four bytes after a match length of several bytes, and lz4-java's reader is liblz4."""
    match_bytes = 4 + 15 + 3 * 255
    recs = [Rec(None, b"x" * (match_bytes + literals_after))]  # one byte, the match, and all but the last
    plain = payload(recs)
    first = plain[: plain.index(b"x") + 1]
    last = plain[len(first) + match_bytes :]
    assert len(last) == literals_after
    block = bytes([len(first) << 4 | 15]) + first + struct.pack("<H", 1) + b"\xff\xff\xff\x00"
    block += bytes([min(len(last), 15) << 4]) + (bytes([len(last) - 15]) if len(last) >= 15 else b"") + last
    stored = bytes.fromhex("04224d18604082") + struct.pack("<I", len(block)) + block + bytes(4)
    batch = v2(recs, codec="lz4", records=stored)
    if literals_after >= 3:
        assert values(impl, batch) == [recs[0].value]
    else:
        assert damage(impl, batch).kind == "compression"
