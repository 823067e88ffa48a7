"""Batches without the records that do not survive: rule by rule."""

from __future__ import annotations

import pytest

from native_log.records.compaction import RewriteStats, Rewritten, Verdict
from native_log.records.schema import BATCH_SCHEMA
from tests.builders.batches import (
    CONTROL,
    HORIZON,
    LOG_APPEND_TIME,
    T0,
    TRANSACTIONAL,
    Rec,
    long_varint,
    marker,
    v2,
    varint,
    with_right_crc,
)
from tests.builders.codecs import FLAVOURS
from tests.builders.legacy import message, wrapper

from .rows import SEVEN, offsets, rows

NOW = T0 + 1000
LATER = T0 + 10**9
RECS = [Rec(b"k%d" % at, b"v" * at, timestamp=T0 + at) for at in range(5)]
TOMBSTONE = Rec(b"t", None)
CODECS = ["none", *FLAVOURS]


def rewrite(impl, data: bytes, survivors=(), **how) -> Rewritten:
    how = {"survivors_end": 1 << 40, "now_ms": NOW, "delete_horizon_ms": LATER} | how
    if "nulled" in how:
        how["nulled"] = impl.Survivors(how["nulled"])
    result = impl.rewrite(data, survivors=impl.Survivors(survivors), **how)
    scanned = impl.scan(bytes(result.data), check_crcs=True)
    assert scanned.status == "end"
    assert result.batches.equals(scanned.batches)
    assert result.batches.schema.equals(BATCH_SCHEMA)
    assert result.stats.bytes_kept == len(result.data)
    return result


def read(impl, result: Rewritten) -> list[dict]:
    return rows(impl.decode(bytes(result.data), SEVEN).batch)


# Magic 2
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_whole_batch_is_copied(impl, codec: str) -> None:
    for name, how in FLAVOURS.get(codec, {"": None}).items():
        if name == "v0":
            continue
        data = v2(RECS, 10, codec, compress=how)
        result = rewrite(impl, data, range(10, 15))
        assert (result.data, result.stats.batches_copied, result.next_offset) == (data, 1, 15)
        assert rewrite(impl, data, survivors_end=10).data == data


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_dropped(impl, codec: str) -> None:
    data = v2(RECS, 10, codec, leader_epoch=3, producer_id=7, producer_epoch=2, base_sequence=40)
    result = rewrite(impl, data, [11, 13])
    kept = [rec._replace(offset_delta=at) for at, rec in ((1, RECS[1]), (3, RECS[3]))]
    expected = v2(
        kept,
        10,
        codec,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
        last_offset_delta=4,
        base_timestamp=T0 + 1,
        max_timestamp=T0 + 3,
    )
    if codec == "none":
        assert result.data == expected
    same = [name for name in BATCH_SCHEMA.names if name not in ("sizeInBytes", "crc", "isValid")]
    assert result.batches.select(same).equals(impl.scan(expected).batches.select(same))
    assert read(impl, result) == rows(impl.decode(expected, SEVEN).batch)
    assert result.stats == RewriteStats(
        batches_read=1,
        batches_kept=1,
        records_read=5,
        records_kept=2,
        bytes_read=len(data),
        bytes_kept=len(result.data),
    )


def test_records_from_the_end_of_the_map_on_are_kept(impl) -> None:
    data = v2([*RECS, Rec(None, b"no key"), TOMBSTONE], 10)
    result = rewrite(impl, data, [11], survivors_end=14, delete_horizon_ms=None)
    assert offsets(impl.decode(bytes(result.data), ["offset"]).batch) == [11, 14, 15, 16]
    data = v2([RECS[0], TOMBSTONE], 10, attributes=HORIZON)
    assert len(rewrite(impl, data, survivors_end=11, now_ms=LATER).data) > 61


def test_a_batch_without_survivors_is_dropped(impl) -> None:
    data = v2(RECS, 10) + v2([], 15, last_offset_delta=3) + v2(RECS, 20)
    result = rewrite(impl, data, [22])
    assert result.data == rewrite(impl, v2(RECS, 20), [22]).data
    assert (result.stats.batches_read, result.stats.records_read, result.next_offset) == (3, 10, 25)


def test_survivors_outside_the_batch_do_not_matter(impl) -> None:
    assert len(rewrite(impl, v2(RECS, 10), [9, 15]).data) == 0
    assert len(rewrite(impl, v2(RECS, 65_534), [65_533, 65_539]).data) == 0
    assert len(rewrite(impl, v2(RECS, 65_534), [65_537]).data) > 0


EMPTY = (
    "0000000000000064000000310000000402090209f4000000000009ffffffffffffffff00000174876e8000"
    "000000000000000700030000001400000000"
)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("verdict", [Verdict.RETAIN_EMPTY, Verdict.RETAIN_EMPTY | Verdict.DISCARD])
def test_an_empty_batch_is_a_header(impl, codec: str, verdict: Verdict) -> None:
    how = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 20, "leader_epoch": 4}
    data = v2([Rec()] * 10, 100, codec, attributes=HORIZON, **how)
    survivors = [103] if verdict & Verdict.DISCARD else []
    result = rewrite(impl, data, survivors, verdicts=bytes([verdict]))
    assert result.data.hex() == EMPTY
    assert (result.stats.batches_emptied, result.stats.batches_kept, result.stats.records_read) == (1, 0, 10)
    # It stays what it is, as long as it is needed.
    assert rewrite(impl, bytes(result.data), verdicts=bytes([verdict])).data == result.data
    assert len(rewrite(impl, bytes(result.data)).data) == 0


def test_an_empty_batch_keeps_its_flags(impl) -> None:
    flags = LOG_APPEND_TIME | TRANSACTIONAL
    data = v2(RECS, 10, "lz4", attributes=flags, max_timestamp=T0 + 77)
    row = rewrite(impl, data, verdicts=bytes([Verdict.RETAIN_EMPTY])).batches.to_pylist()[0]
    assert (row["attributes"], row["maxTimestamp"], row["baseTimestamp"]) == (flags, T0 + 77, -1)


def test_a_batch_that_keeps_records_is_not_emptied(impl) -> None:
    data = v2(RECS, 10)
    assert rewrite(impl, data, range(10, 15), verdicts=bytes([Verdict.RETAIN_EMPTY])).data == data


def test_discarded_batches_are_not_read(impl) -> None:
    bad = bytearray(v2(RECS, 10))
    bad[-1] ^= 1
    result = rewrite(impl, bad + v2(RECS, 20), range(30), verdicts=bytes([Verdict.DISCARD, 0]))
    assert result.data == v2(RECS, 20)
    # But an empty header is not written over damage.
    result = rewrite(impl, bad, verdicts=bytes([Verdict.DISCARD | Verdict.RETAIN_EMPTY]))
    assert (result.status, result.damage.kind) == ("damaged", "crc")


def test_log_append_time(impl) -> None:
    data = v2(RECS, 10, attributes=LOG_APPEND_TIME, max_timestamp=T0 + 50)
    result = rewrite(impl, data, [10, 12])
    kept = [rec._replace(offset_delta=at, timestamp=T0 + 50) for at, rec in ((0, RECS[0]), (2, RECS[2]))]
    assert result.data == v2(
        kept, 10, attributes=LOG_APPEND_TIME, last_offset_delta=4, base_timestamp=T0 + 50
    )


def test_headers_and_long_varints_are_written_as_kafka_does(impl) -> None:
    fields = b"\1" + long_varint(3, 3) + varint(0) + long_varint(1, 2) + b"k" + varint(-1) + long_varint(1, 4)
    fields += long_varint(1, 2) + b"h" + varint(-1)
    odd = long_varint(len(fields), 3) + fields
    fields = b"\0" + varint(0) + varint(1) + varint(1) + b"k" + varint(1) + b"v" + varint(0)
    data = v2(records=odd + varint(len(fields)) + fields, record_count=2, last_offset_delta=1)
    assert rewrite(impl, data, [0, 1], delete_horizon_ms=None).data == data
    rec = Rec(b"k", None, ((b"h", None),), timestamp=T0 + 3)
    assert rewrite(impl, data, [0], delete_horizon_ms=None).data == v2(
        [rec], last_offset_delta=1, base_timestamp=T0 + 3
    )


def test_long_records(impl) -> None:
    recs = [Rec(b"k" * 200, b"v" * 3_000_000, ((b"h" * 100, b"w" * 100),)), Rec(b"x" * 70_000, b"v"), Rec()]
    result = rewrite(impl, v2(recs, 5), [5, 6])
    assert result.data == v2(recs[:2], 5, last_offset_delta=2)


# Tombstones, horizons, markers
# ----------------------------------------------------------------------------------------------------


def test_a_tombstone_gives_its_batch_a_horizon(impl) -> None:
    tombstone = (
        "00000000000000640000003c0000000402a14a35f5004000000009000001748c94dc0000000174876e8000"
        "ffffffffffffffffffffffffffff000000011400ffefb25206026b0100"
    )
    recs = [*([Rec()] * 3), Rec(b"k", None), *([Rec()] * 6)]
    result = rewrite(impl, v2(recs, 100, leader_epoch=4), [103], delete_horizon_ms=T0 + 86_400_000)
    assert result.data.hex() == tombstone
    assert (result.stats.horizons_set, result.stats.tombstones_kept) == (1, 1)
    row = result.batches.to_pylist()[0]
    assert (row["deleteHorizonMs"], row["baseTimestamp"]) == (T0 + 86_400_000, None)
    # Not without need, and only once.
    assert rewrite(impl, v2(recs, 100), range(100, 103)).stats.horizons_set == 0
    assert rewrite(impl, v2(recs, 100), [103], delete_horizon_ms=None).stats.horizons_set == 0
    again = rewrite(impl, bytes(result.data), [103], now_ms=T0)
    assert again.data == result.data
    assert again.stats.horizons_set == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_whole_batch_that_gets_a_horizon(impl, codec: str) -> None:
    data = v2([RECS[0], TOMBSTONE, RECS[2]], 10, codec)
    result = rewrite(impl, data, range(10, 13))
    assert read(impl, result) == rows(impl.decode(data, SEVEN).batch)
    assert result.batches.column("deleteHorizonMs").to_pylist() == [LATER]
    assert (result.stats.batches_copied, result.stats.horizons_set) == (0, 1)


def test_tombstones_go_when_the_horizon_is_reached(impl) -> None:
    data = v2([RECS[0], TOMBSTONE, RECS[2]], 10, attributes=HORIZON, base_timestamp=NOW)
    assert rewrite(impl, data, range(10, 13), now_ms=NOW - 1).data == data
    result = rewrite(impl, data, range(10, 13), now_ms=NOW)
    recs = [RECS[0], RECS[2]._replace(offset_delta=2)]
    assert result.data == v2(
        recs, 10, attributes=HORIZON, base_timestamp=NOW, last_offset_delta=2, max_timestamp=T0 + 2
    )
    assert result.stats.tombstones_dropped == 1
    # A tombstone that is not the newest record of its key is not counted as dropped.
    assert rewrite(impl, data, [10], now_ms=NOW).stats.tombstones_dropped == 0
    assert len(rewrite(impl, data, [11], now_ms=NOW).data) == 0


def test_an_empty_value_is_no_tombstone(impl) -> None:
    data = v2([Rec(b"k", b"")], attributes=HORIZON, base_timestamp=T0)
    assert rewrite(impl, data, [0], now_ms=LATER).data == data


def test_control_batches_are_always_kept(impl) -> None:
    data = marker(5, 7) + v2([Rec(b"\0\0\0\2", b"")] * 2, 6, attributes=CONTROL)
    assert rewrite(impl, data).data == data
    assert len(rewrite(impl, data, verdicts=bytes([Verdict.DISCARD] * 2)).data) == 0


def test_a_marker_gets_a_horizon(impl) -> None:
    data = marker(5, 7, timestamp=T0)
    result = rewrite(impl, data, verdicts=bytes([Verdict.SET_HORIZON]))
    row, before = result.batches.to_pylist()[0], impl.scan(data).batches.to_pylist()[0]
    assert row["deleteHorizonMs"] == LATER
    for name in ("controlType", "maxTimestamp", "producerId", "producerEpoch", "lastOffset", "isControl"):
        assert row[name] == before[name]
    timestamps = impl.decode(bytes(result.data), ["timestamp"], control=True).batch.column(0).cast("int64")
    assert timestamps.to_pylist() == [T0 * 1000]
    assert rewrite(impl, bytes(result.data), verdicts=bytes([Verdict.SET_HORIZON])).data == result.data
    assert rewrite(impl, data, verdicts=bytes([Verdict.FILTER])).data == data


def test_a_negative_horizon_is_rejected(impl) -> None:
    with pytest.raises(ValueError, match="horizon"):
        rewrite(impl, b"", delete_horizon_ms=-1)


# Magic 0 and 1
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_copied_or_dropped(impl, magic: int) -> None:
    data = [message(magic, at, b"k%d" % at, b"v" if at % 2 else None) for at in range(4)]
    log = b"".join(data)
    assert rewrite(impl, log, [1, 2]).data == data[1] + data[2]
    assert rewrite(impl, log, [1, 2], legacy_tombstones_kept=False).data == data[1]
    assert rewrite(impl, log, [1, 2], survivors_end=3).data == b"".join(data[1:])
    result = rewrite(impl, log, [1], verdicts=bytes([Verdict.RETAIN_EMPTY] * 4))
    assert (result.data, result.stats.records_read, result.stats.batches_copied) == (data[1], 4, 1)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("append_time", [False, True])
def test_wrappers_are_rebuilt(impl, magic: int, codec: str, append_time: bool) -> None:
    flags = LOG_APPEND_TIME if append_time and magic else 0
    within = range(10, 15) if magic == 0 else range(5)
    recs = [Rec(b"k%d" % at, b"v" * at, timestamp=T0 + at) for at in range(5)]
    inner = [
        message(magic, at, rec.key, rec.value, timestamp=rec.timestamp)
        for at, rec in zip(within, recs, strict=True)
    ]
    data = wrapper(magic, inner, 14, codec, attributes=flags, timestamp=T0 + 9)
    assert rewrite(impl, data, range(10, 15)).data == data
    result = rewrite(impl, data, [11, 13])
    row = result.batches.to_pylist()[0]
    expected = (13, codec, -1 if magic == 0 else T0 + (9 if append_time else 3), flags)
    assert (row["lastOffset"], row["compression"], row["maxTimestamp"], row["attributes"] & 8) == expected
    kept = [row for row in rows(impl.decode(data, SEVEN).batch) if row["offset"] in (11, 13)]
    assert read(impl, result) == kept
    assert len(rewrite(impl, data, verdicts=bytes([Verdict.RETAIN_EMPTY])).data) == 0
    assert len(rewrite(impl, data, [11], verdicts=bytes([Verdict.DISCARD])).data) == 0


def test_inner_messages_of_another_magic_are_converted(impl) -> None:
    data = wrapper(1, [message(0, 0, b"a"), message(1, 1, b"b")], 5, "gzip")
    result = rewrite(impl, data, [4, 5])
    assert result.stats.batches_copied == 0
    assert result.stats.records_kept == 2
    assert [row["offset"] for row in read(impl, result)] == [4, 5]
    assert rewrite(impl, bytes(result.data), [4, 5]).stats.batches_copied == 1


def test_a_wrapper_that_lacks_its_offset(impl) -> None:
    data = wrapper(1, [message(1, 0, b"a"), message(1, 1, b"b"), message(1, 2, b"c")], 0, "gzip")
    result = rewrite(impl, data, [1])
    assert ([row["offset"] for row in read(impl, result)], result.next_offset) == ([1], 3)


# Erasure
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_nulled_records(impl, codec: str) -> None:
    recs = [RECS[0], Rec(b"k", b"v", ((b"h", b"w"),)), Rec(b"t", None, ((b"h", b"w"),)), TOMBSTONE]
    result = rewrite(impl, v2(recs, 10, codec), range(10, 14), nulled=[11, 12, 13], delete_horizon_ms=None)
    kept = [RECS[0], Rec(b"k", None), Rec(b"t", None), TOMBSTONE]
    assert read(impl, result) == rows(impl.decode(v2(kept, 10), SEVEN).batch)
    assert (result.stats.tombstones_kept, result.stats.batches_copied) == (3, 0)
    tombstone = v2([TOMBSTONE], 10, codec)
    assert rewrite(impl, tombstone, [10], nulled=[10], delete_horizon_ms=None).data == tombstone


def test_nulled_messages(impl) -> None:
    data = message(1, 4, b"k", b"v") + wrapper(1, [message(1, 0, b"a"), message(1, 1, b"b")], 6, "gzip")
    result = rewrite(impl, data, range(10), nulled=[4, 5])
    assert [(row["offset"], row["value"]) for row in read(impl, result)] == [
        (4, None),
        (5, None),
        (6, b"value"),
    ]


# How a call ends
# ---------------------------------------------------------------------------------------------------


def test_verdicts_bound_a_call(impl) -> None:
    data = v2(RECS, 10) + v2(RECS, 20)
    result = rewrite(impl, data, range(30), verdicts=bytes(1), base_position=100)
    assert (result.status, result.position, result.next_offset) == ("limit", 100 + len(data) // 2, 15)
    assert rewrite(impl, data, range(30), verdicts=bytes(2)).status == "end"
    assert rewrite(impl, data + bytes(20), range(30), verdicts=bytes(2)).status == "zeros"


def test_a_batch_dropped_by_its_header_need_not_be_in_the_buffer(impl) -> None:
    data = v2(RECS, 10)
    result = rewrite(impl, data[:61])
    assert (result.status, result.position, result.next_offset) == ("end", len(data), 15)
    result = rewrite(impl, data[:61], [12])
    assert (result.status, result.position, result.needed_bytes) == ("partial", 0, len(data))
    assert rewrite(impl, data[:40]).needed_bytes == 61


def test_damage_stops(impl) -> None:
    good, bad = v2(RECS, 10), bytearray(v2(RECS, 20))
    bad[70] ^= 1
    result = rewrite(impl, good + bad, range(30), base_position=7)
    assert (result.status, result.damage.kind, result.damage.offset) == ("damaged", "crc", 20)
    assert result.damage.position == result.position == 7 + len(good)
    assert (result.data, result.next_offset) == (good, 15)
    assert result.batches.column("position").to_pylist() == [0]
    claims = with_right_crc(v2(RECS, 20, record_count=9))
    assert rewrite(impl, claims, [22]).damage.kind == "records"
    assert rewrite(impl, v2(RECS, 20, 6, compress=bytes), [22]).damage.kind == "codec"
    assert rewrite(impl, v2(RECS, 20, "lz4", compress=bytes), [22]).damage.kind == "compression"
    assert rewrite(impl, v2(RECS, 20), [22], max_batch_bytes=70).damage.kind == "too-large"
    assert rewrite(impl, message(1, 5, crc=1), [5]).damage.kind == "crc"


def test_stats_can_be_added(impl) -> None:
    first, second = rewrite(impl, v2(RECS, 10), [11]).stats, rewrite(impl, v2(RECS, 20), [22]).stats
    assert first + second == rewrite(impl, v2(RECS, 10) + v2(RECS, 20), [11, 22]).stats
