"""Offset maps and survivors: rule by rule."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from native_log.records.compaction import KEY_OVERHEAD_BYTES
from tests.builders.batches import CONTROL, TRANSACTIONAL, Rec, marker, v2, with_right_crc
from tests.builders.codecs import FLAVOURS
from tests.builders.legacy import message, wrapper

from .keywords import mark, put_batches

ROOM = 1 << 20


def keyed(*keys: bytes | None, value: bytes | None = b"v") -> list[Rec]:
    return [Rec(key, value) for key in keys]


def mapped(impl, data: bytes, **how) -> dict[bytes, int]:
    offsets = impl.OffsetMap(ROOM)
    progress = put_batches(offsets, data, **how)
    assert progress.status == "end"
    newest = {key: offsets.get(key) for key in (b"a", b"b", b"c", b"") if offsets.get(key) is not None}
    assert len(offsets) == len(newest)
    assert sorted(offsets.survivors()) == sorted(newest.values())
    assert offsets.size_bytes == sum(KEY_OVERHEAD_BYTES + len(key) for key in newest)
    return newest


# OffsetMap
# ------------------------------------------------------------------------------------------------------


def test_the_greatest_offset_of_each_key(impl) -> None:
    data = v2(keyed(b"a", b"b", b"a")) + v2(keyed(b"b", b"", None), 3)
    assert mapped(impl, data) == {b"a": 2, b"b": 3, b"": 4}


def test_only_offsets_of_the_dirty_part(impl) -> None:
    data = v2(keyed(b"a", b"b", b"a")) + v2(keyed(b"b", b"c", b"a"), 3)
    assert mapped(impl, data, start_offset=1, end_offset=4) == {b"a": 2, b"b": 3}
    offsets = impl.OffsetMap(ROOM)
    assert put_batches(offsets, data, start_offset=1, end_offset=4).next_offset == 4
    assert put_batches(offsets, data, end_offset=2).next_offset == 2


def test_control_and_aborted_batches_are_not_put(impl) -> None:
    aborted = struct.pack("=qqq", 7, 0, 3)
    txn = {"attributes": TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0}
    data = v2(keyed(b"a"), 0, producer_id=7, **txn) + v2(keyed(b"b"), 1, producer_id=8, **txn)
    data += marker(2, 8) + marker(3, 7, 0) + v2(keyed(b"c"), 4, attributes=CONTROL)
    assert mapped(impl, data, aborted=aborted) == {b"b": 1}
    assert mapped(impl, data) == {b"a": 0, b"b": 1}
    progress = put_batches(impl.OffsetMap(ROOM), data, aborted=aborted)
    assert (progress.records, progress.next_offset) == (1, 5)


def test_null_keys_are_counted(impl) -> None:
    progress = put_batches(impl.OffsetMap(ROOM), v2(keyed(None, b"a", None)), start_offset=1)
    assert (progress.records, progress.null_keys, progress.next_offset) == (2, 1, 3)


@pytest.mark.parametrize("codec", ["none", *FLAVOURS])
def test_all_formats_and_codecs(impl, codec: str) -> None:
    assert mapped(impl, v2(keyed(b"a", b"b", b"a"), 5, codec)) == {b"a": 7, b"b": 6}
    if codec not in ("none", "zstd"):
        for magic, within in ((0, [5, 7]), (1, [0, 2])):
            inner = [message(magic, at, key) for at, key in zip(within, (b"a", b"b"), strict=True)]
            assert mapped(impl, wrapper(magic, inner, 7, codec)) == {b"a": 5, b"b": 7}
    assert mapped(impl, message(0, 1, b"a") + message(1, 2, b"b")) == {b"a": 1, b"b": 2}


def test_a_full_map_stops_in_the_middle_of_a_batch(impl) -> None:
    data = v2(keyed(b"a")) + v2(keyed(b"b", b"a", b"c", b"a"), 1) + v2(keyed(b"a"), 5)
    offsets = impl.OffsetMap(2 * (KEY_OVERHEAD_BYTES + 1))
    progress = put_batches(offsets, data, base_position=100)
    assert (progress.status, progress.position) == ("full", 100 + len(v2(keyed(b"a"))))
    assert (progress.next_offset, progress.records) == (3, 3)
    assert sorted(offsets.survivors()) == [1, 2]
    # Known keys still move on, and another map takes up where this one stopped.
    assert put_batches(offsets, v2(keyed(b"a"), 9)).status == "end"
    assert offsets.get(b"a") == 9
    other = impl.OffsetMap(ROOM)
    progress = put_batches(other, data[progress.position - 100 :], start_offset=3)
    assert (progress.status, progress.next_offset) == ("end", 6)
    assert (other.get(b"c"), other.get(b"a"), len(other)) == (3, 5, 2)


def test_a_key_larger_than_the_map(impl) -> None:
    offsets = impl.OffsetMap(100)
    progress = put_batches(offsets, v2(keyed(b"k" * 100), 7))
    assert (progress.status, progress.position, progress.next_offset, len(offsets)) == ("full", 0, 7, 0)


def test_damage_is_named_and_nothing_of_the_batch_is_put(impl) -> None:
    good, bad = v2(keyed(b"a")), bytearray(v2(keyed(b"b", b"c"), 1))
    bad[-1] ^= 1
    offsets = impl.OffsetMap(ROOM)
    progress = put_batches(offsets, good + bad, base_position=10)
    assert (progress.status, progress.damage.kind) == ("damaged", "crc")
    assert progress.damage.position == progress.position == 10 + len(good)
    assert (progress.next_offset, len(offsets)) == (1, 1)
    progress = put_batches(offsets, with_right_crc(bytes(bad)), check_crcs=False)
    assert (progress.damage.kind, len(offsets)) == ("records", 1)


def test_partial_and_zeros(impl) -> None:
    data = v2(keyed(b"a"))
    progress = put_batches(impl.OffsetMap(ROOM), data + data[:-1])
    assert (progress.status, progress.position, progress.needed_bytes) == ("partial", len(data), len(data))
    assert put_batches(impl.OffsetMap(ROOM), data + bytes(50)).status == "zeros"


def test_mark_adds_what_the_dirty_part_does_not_shadow(impl) -> None:
    clean = v2(keyed(b"a", b"b", b"c", b"c", None))
    offsets = impl.OffsetMap(ROOM)
    put_batches(offsets, v2(keyed(b"a", b"x"), 5))
    survivors = offsets.survivors()
    progress = mark(offsets, clean, survivors, end_offset=5)
    assert (progress.status, progress.next_offset, progress.null_keys) == ("end", 5, 1)
    assert list(survivors) == [1, 2, 3, 5, 6]
    # A record that has just the map's offset is the newest itself.
    again = impl.Survivors()
    mark(offsets, clean + v2(keyed(b"a", b"x"), 5), again)
    assert list(again) == [1, 2, 3, 5, 6]


# Packs
# ----------------------------------------------------------------------------------------------------------


def merged(impl, *packs) -> list[int]:
    return list(impl.merge(zip(*packs, strict=True)))


def put(offsets, data: bytes, **how):
    assert put_batches(offsets, data, **how).status == "end"
    return offsets


def test_merged_packs_of_splits(impl) -> None:
    clean = put(impl.KeyBuckets(3, ROOM, dirty=False), v2(keyed(b"a", b"b", b"c", b"c", None)))
    assert len(clean) == 4
    first = put(impl.KeyBuckets(3, ROOM, dirty=True), v2(keyed(b"a", b"d"), 5)).take()
    second = put(impl.KeyBuckets(3, ROOM, dirty=True), v2(keyed(b"d", b"e"), 7)).take()
    clean = clean.take()
    assert merged(impl, clean, first, second) == merged(impl, second, clean, first) == [1, 2, 3, 5, 7, 8]
    assert merged(impl, first) == [5, 6]
    assert merged(impl, impl.KeyBuckets(3, ROOM, dirty=True).take()) == []


def test_the_format_of_a_pack(impl) -> None:
    dirty = impl.KeyBuckets(1, ROOM, dirty=True)
    long, far = b"k" * 255, 300 + 2**32
    put(dirty, v2(keyed(b"a", long), 300) + v2(keyed(b"key", b""), far - 1) + v2(keyed(b"b"), 5))
    assert (len(dirty), dirty.size_bytes) == (5, 18 + 6 + 13 + 255 + 8 + 13 + 14)
    (pack,) = dirty.take()
    header = "0200" + "0500000000000000" + "2c01000000000000"
    entries = ["01" + "00000000" + "61", "ff" + "ff000000" + "2d01000000000000" + long.hex()]
    entries += ["03" + "ffffffff" + b"key".hex(), "ff" + "00000000" + far.to_bytes(8, "little").hex()]
    entries += ["ff" + "01000000" + "0500000000000000" + "62"]
    assert bytes(pack).hex() == header + "".join(entries)
    assert (len(dirty), dirty.size_bytes, bytes(dirty.take()[0])) == (0, 0, b"")
    # Packs that were taken do not change.
    put(dirty, v2(keyed(b"other"), 7))
    assert bytes(dirty.take()[0])[10:] == struct.pack("<qBI", 7, 5, 0) + b"other"
    assert bytes(pack).hex() == header + "".join(entries)


def test_the_bucket_of_a_key(impl) -> None:
    """It is the same in all processes and versions: packs lie in files between them."""
    keys = [b"", b"a", b"key-12", b"12345678", b"123456789", b"key-000017507604", bytes(range(100))]
    packs = put(impl.KeyBuckets(1 << 16, ROOM, dirty=False), v2(keyed(*keys))).take()
    expected = [0, 21709, 20016, 28084, 41684, 27642, 12232]
    assert [bucket for bucket, pack in enumerate(packs) if len(pack)] == sorted(expected)
    for key, bucket in zip(keys, expected, strict=True):
        assert bytes(packs[bucket]).endswith(key)
        assert len(packs[bucket]) == len(packs[0]) + len(key)


def test_invalid_packs(impl) -> None:
    (pack,) = put(impl.KeyBuckets(1, ROOM, dirty=True), v2(keyed(b"a", b"other"), 300)).take()
    for end in range(1, len(pack)):
        with pytest.raises(ValueError, match="bucket 2: pack 1"):
            impl.merge([[], [pack], [pack, pack[:end]]])
    assert list(impl.merge([[b"", pack, b""]])) == [300, 301]
    assert list(impl.merge([])) == []
    for at, byte in [(0, 1), (1, 2), (2, 1), (2, 3), (9, 0x80), (18, 0xFF), (18, 0xFE), (24, 6)]:
        bad = bytearray(pack)
        bad[at] = byte
        with pytest.raises(ValueError, match="pack 0"):
            impl.merge([[bad]])
    beyond = bytearray(pack)
    beyond[10:18] = (2**63 - 1).to_bytes(8, "little")
    with pytest.raises(ValueError, match="pack 0"):
        impl.merge([[beyond]])


def test_memory_is_reused(impl) -> None:
    """Buckets come and go, with their packs still held or not: nothing is seen of what was there before."""
    held = []
    for number, (count, keys, room) in enumerate(
        [(3, 50, ROOM), (3, 9, ROOM), (5, 40, 900), (2, 30, 700), (3, 1, ROOM), (3, 50, 1500), (3, 20, ROOM)]
    ):
        buckets = impl.KeyBuckets(count, room, dirty=number % 2 == 0)
        put_batches(buckets, v2(keyed(*(b"%d-%d" % (number, key) * 4 for key in range(keys))), 7))
        entries = len(buckets)
        packs = buckets.take()
        del buckets
        assert entries == keys or room < ROOM
        assert list(impl.merge([pack] for pack in packs)) == list(range(7, 7 + entries))
        held += [(pack, bytes(pack)) for pack in packs[: number % 3]]
    assert all(bytes(pack) == copy for pack, copy in held)


@pytest.mark.parametrize("count", [-1, 0, (1 << 16) + 1])
def test_number_of_buckets_out_of_range(impl, count: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        impl.KeyBuckets(count, ROOM, dirty=True)


def test_buckets_are_bounded(impl) -> None:
    buckets = impl.KeyBuckets(1, 18 + 6 + 6, dirty=False)
    data = v2(keyed(b"a", b"a", b"a"), 5)
    progress = put_batches(buckets, data)
    assert (progress.status, progress.next_offset, len(buckets), buckets.size_bytes) == ("full", 7, 2, 30)
    first = buckets.take()
    assert put_batches(buckets, data, start_offset=7).status == "end"
    assert merged(impl, first) == [5, 6]
    assert merged(impl, first, buckets.take()) == [5, 6, 7]
    progress = put_batches(impl.KeyBuckets(3, 23, dirty=True), v2(keyed(b"a"), 5))
    assert (progress.status, progress.next_offset) == ("full", 5)


def test_duplicate_keys_make_room_for_others(impl) -> None:
    buckets = impl.KeyBuckets(1, 18 + 4 * 6, dirty=True)
    keys = [b"a", b"b", b"a", b"b", b"a", b"b", b"c", b"d", b"e"]
    progress = put_batches(buckets, v2(keyed(*keys), 5))
    # Where it would not leave at most half of them, it is full.
    assert (progress.status, progress.next_offset) == ("full", 13)
    assert len(buckets) == 4
    assert merged(impl, buckets.take()) == [9, 10, 11, 12]
    # Of the clean part all offsets are needed.
    progress = put_batches(impl.KeyBuckets(1, 18 + 4 * 6, dirty=False), v2(keyed(*keys), 5))
    assert (progress.status, progress.next_offset) == ("full", 9)


def test_duplicate_keys_are_not_packed(impl) -> None:
    keys = [b"%d" % (number % 5) for number in range(100)]
    buckets = put(impl.KeyBuckets(2, ROOM, dirty=True), v2(keyed(*keys)))
    assert len(buckets) == 100
    packs = buckets.take()
    assert sum(map(len, packs)) == 2 * 18 + 5 * 6
    assert merged(impl, packs) == [95, 96, 97, 98, 99]


# Survivors
# ------------------------------------------------------------------------------------------------------

SETS = [
    [],
    [0],
    [5, 2**16, 2**32 + 7, 2**63 - 1],
    list(range(100_000)),
    list(range(3, 300_000, 7)),
    [2**53 + at * at for at in range(300)],
]


@pytest.mark.parametrize("offsets", SETS, ids=len)
def test_sets(impl, offsets: list[int]) -> None:
    survivors = impl.Survivors(reversed(offsets))
    assert len(survivors) == len(offsets)
    assert list(survivors) == offsets
    assert all(offset in survivors for offset in offsets)
    assert -1 not in survivors
    assert 2**63 not in survivors
    assert impl.Survivors.from_bytes(survivors.to_bytes()) == survivors
    half = impl.Survivors(offsets[::2])
    assert list(survivors.difference(half)) == offsets[1::2]
    assert half.union(survivors, impl.Survivors()) == survivors
    start, end = (offsets or [0])[len(offsets) // 3], (offsets or [0])[-1]
    assert list(survivors.between(start, end)) == [at for at in offsets if start <= at < end]
    assert list(half) == offsets[::2]


def test_adding_many_and_ranges(impl) -> None:
    survivors = impl.Survivors([5])
    survivors.add_many(pa.array([9, 1], pa.int64()).buffers()[1][:16])
    survivors.add_range(7, 9)
    survivors.add_range(9, 9)
    assert list(survivors) == [1, 5, 7, 8, 9]
    with pytest.raises(ValueError, match="expected offsets of 8 bytes"):
        survivors.add_many(bytes(9))
    with pytest.raises(ValueError, match="offset"):
        survivors.add_many(struct.pack("=qq", 3, -1))
    assert list(survivors) == [1, 5, 7, 8, 9]


PORTABLE = {
    # One upper half, one container of an array: 1, 5. And two halves.
    "01" + "00" * 7 + "00000000" + "3a300000" + "01000000" + "00000100" + "10000000" + "01000500": [1, 5],
    # A container of runs: 3 to 6.
    "01" + "00" * 7 + "01000000" + "3b300000" + "01" + "00000300" + "0100" + "03000300": [
        2**32 + at for at in range(3, 7)
    ],
}


@pytest.mark.parametrize(("data", "offsets"), PORTABLE.items(), ids=["array", "runs"])
def test_the_portable_format(impl, data: str, offsets: list[int]) -> None:
    assert list(impl.Survivors.from_bytes(bytes.fromhex(data))) == offsets


def test_invalid_bitmaps(impl) -> None:
    data = impl.Survivors([1, 5, 2**33]).to_bytes()
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            impl.Survivors.from_bytes(data[:end])
    with pytest.raises(ValueError, match="expected the end of the bitmap"):
        impl.Survivors.from_bytes(data + b"\0")
    with pytest.raises(ValueError, match=r"."):
        impl.Survivors.from_bytes(b"\x01" + bytes(7) + b"\xff" * 4 + data[12:])
