"""Magic 2: what records and headers of batches may hold."""

from __future__ import annotations

import pytest

from tests.builders.batches import (
    CONTROL,
    HORIZON,
    LOG_APPEND_TIME,
    T0,
    TRANSACTIONAL,
    Rec,
    body,
    long_varint,
    marker,
    payload,
    v2,
    varint,
)
from tests.builders.codecs import FLAVOURS

from .rows import ALL, offsets, rows


def read(impl, data: bytes, **how) -> list[dict]:
    decoded = impl.decode(data, ALL, **how)
    assert (decoded.status, decoded.position) == ("end", how.get("base_position", 0) + len(data)), decoded
    return rows(decoded.batch)


def only(impl, data: bytes, **how) -> dict:
    (row,) = read(impl, data, **how)
    return row


def test_null_and_empty_differ(impl) -> None:
    recs = [Rec(key, value) for key in (None, b"", b"k") for value in (None, b"", b"v")]
    actual = read(impl, v2(recs))
    assert [(row["key"], row["value"]) for row in actual] == [(rec.key, rec.value) for rec in recs]


def test_headers(impl) -> None:
    several = ((b"a", b"1"), (b"a", None), (b"", b""), (b"a", b"1"), ("π✓😀".encode(), b"\xff"))
    actual = read(impl, v2([Rec(headers=several), Rec(), Rec(headers=((b"h", None),))]))
    assert [row["headers"] for row in actual] == [
        [(name.decode(), value) for name, value in several],
        None,
        [("h", None)],
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"\xff", "\ufffd"),
        (b"a\x80b", "a\ufffdb"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xe2\x82z", "\ufffdz"),
        (b"\xf0\x9f\x92", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf8\x88\x80\x80\x80", "\ufffd" * 5),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0\xbd\xed\xb8\x80!", "\ufffd\ufffd!"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0z", "\ufffdz"),
    ],
)
def test_header_names_are_read_as_java_reads_them(impl, name: bytes, text: str) -> None:
    assert only(impl, v2([Rec(headers=((name, b"v"),))]))["headers"] == [(text, b"v")]


def test_fields_of_the_batch(impl) -> None:
    batch = v2(
        [Rec(), Rec()],
        100,
        "lz4",
        leader_epoch=9,
        attributes=TRANSACTIONAL,
        producer_id=2**40,
        producer_epoch=5,
        base_sequence=7,
    )
    first, second = read(impl, batch, base_position=1000, topic="t", partition=3, segment="s.log")
    assert second == first | {"offset": 101, "sequence": 8}
    assert first == {
        "key": b"key",
        "value": b"value",
        "topic": "t",
        "partition": 3,
        "offset": 100,
        "timestamp": T0 * 1000,
        "timestampType": 0,
        "headers": None,
        "leaderEpoch": 9,
        "producerId": 2**40,
        "producerEpoch": 5,
        "sequence": 7,
        "isTransactional": True,
        "compression": "lz4",
        "magic": 2,
        "batchOffset": 100,
        "position": 1000,
        "segment": "s.log",
    }


def test_constants_default_to_null(impl) -> None:
    row = only(impl, v2())
    assert (row["topic"], row["partition"], row["segment"]) == (None, None, None)


@pytest.mark.parametrize("columns", [["offset"], ["value", "key"], ["segment", "headers", "topic"], []])
def test_requested_columns(impl, columns: list[str]) -> None:
    decoded = impl.decode(v2([Rec(), Rec()]), columns, topic="t")
    assert decoded.batch.schema.names == columns
    assert decoded.batch.num_rows == 2
    assert all(field.nullable for field in decoded.batch.schema)


def test_unknown_column(impl) -> None:
    with pytest.raises(ValueError, match="offfset"):
        impl.decode(v2(), ["offfset"])


def test_times(impl) -> None:
    recs = [Rec(timestamp=t) for t in (T0, T0 - 10**9, 0, -1, T0 + 10**9)]
    assert [row["timestamp"] for row in read(impl, v2(recs))] == [rec.timestamp * 1000 for rec in recs]
    assert [row["timestamp"] for row in read(impl, v2(recs, base_timestamp=-1))] == [
        rec.timestamp * 1000 for rec in recs
    ]


def test_max_timestamp_is_not_trusted_for_create_time(impl) -> None:
    assert only(impl, v2(max_timestamp=5))["timestamp"] == T0 * 1000


def test_log_append_time(impl) -> None:
    actual = read(impl, v2([Rec(), Rec(timestamp=7)], attributes=LOG_APPEND_TIME, max_timestamp=T0 + 5))
    assert [(row["timestamp"], row["timestampType"]) for row in actual] == [((T0 + 5) * 1000, 1)] * 2


@pytest.mark.parametrize(("ms", "us"), [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (2**53, 2**53 * 1000)])
def test_times_saturate(impl, ms: int, us: int) -> None:
    assert only(impl, v2([Rec(timestamp=ms)], base_timestamp=ms, max_timestamp=ms))["timestamp"] == us


def test_delete_horizon(impl) -> None:
    batch = v2([Rec(b"k", None)], attributes=HORIZON, base_timestamp=T0 + 86_400_000)
    assert only(impl, batch)["timestamp"] == T0 * 1000
    (row,) = impl.scan(batch).batches.to_pylist()
    assert (row["baseTimestamp"], row["deleteHorizonMs"]) == (None, T0 + 86_400_000)


def test_what_compaction_leaves(impl) -> None:
    """Offsets are not dense, and the next offset follows the batch, not its last record."""
    batch = v2([Rec(offset_delta=3), Rec(offset_delta=7)], 100, last_offset_delta=9, base_sequence=20)
    decoded = impl.decode(batch, ["offset", "sequence"])
    assert rows(decoded.batch) == [{"offset": 103, "sequence": 23}, {"offset": 107, "sequence": 27}]
    assert decoded.next_offset == 110


def test_sequences_wrap(impl) -> None:
    batch = v2([Rec()] * 5, base_sequence=2**31 - 2)
    assert [row["sequence"] for row in read(impl, batch)] == [2**31 - 2, 2**31 - 1, 0, 1, 2]
    assert impl.scan(batch).batches.column("lastSequence").to_pylist() == [2]


def test_large_offsets(impl) -> None:
    decoded = impl.decode(v2([Rec()] * 2, 2**62) + v2([Rec()], 2**63 - 2), ["offset"])
    assert offsets(decoded.batch) == [2**62, 2**62 + 1, 2**63 - 2]
    assert decoded.next_offset == 2**63 - 1


def test_control_and_empty_batches_advance_the_next_offset(impl) -> None:
    empty = v2([], 20, last_offset_delta=9, base_timestamp=-1, producer_id=7)
    log = v2([Rec()], 10) + empty + v2([Rec()], 30) + marker(31, 7) + v2([], 32, last_offset_delta=4)
    decoded = impl.decode(log, ["offset"])
    assert offsets(decoded.batch) == [10, 30]
    assert (decoded.status, decoded.position, decoded.next_offset) == ("end", len(log), 37)


def test_control_records(impl) -> None:
    log = v2([Rec()], 10) + marker(11, 7) + v2([Rec()], 12)
    assert offsets(impl.decode(log, ["offset"], control=True).batch) == [10, 11, 12]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (bytes.fromhex("00000000"), 0),
        (bytes.fromhex("00000001"), 1),
        (bytes.fromhex("00000002"), 2),
        (bytes.fromhex("00000006"), 6),
        (bytes.fromhex("00000063"), 99),
        (bytes.fromhex("00090001"), 1),  # a later version is read as 0
        (bytes.fromhex("0000000100ff"), 1),  # more bytes are ignored
        (bytes.fromhex("ffff0001"), None),
        (bytes.fromhex("000001"), None),
        (b"", None),
        (None, None),
    ],
)
def test_control_types(impl, key: bytes | None, kind: int | None) -> None:
    batch = v2([Rec(key, b"v" * 100)], attributes=CONTROL)
    scanned = impl.scan(batch)
    assert scanned.batches.column("controlType").to_pylist() == [kind]
    assert impl.scan(batch[: 61 + 32]).batches.equals(scanned.batches)


def test_control_batch_without_records(impl) -> None:
    batch = v2([], attributes=CONTROL)
    assert impl.scan(batch).batches.column("controlType").to_pylist() == [None]
    assert impl.decode(batch, ["offset"], control=True).next_offset == 1


def test_longer_varints_than_needed(impl) -> None:
    body = b"\0" + long_varint(5, 10) + long_varint(0, 5) + long_varint(1, 3) + b"k" + long_varint(-1, 5)
    body += long_varint(0, 5)
    row = only(impl, v2([Rec()], records=long_varint(len(body), 4) + body))
    assert (row["timestamp"], row["key"], row["value"], row["headers"]) == ((T0 + 5) * 1000, b"k", None, None)


GOOD = payload([Rec()])
BODY = body(Rec(), 0, T0)
START = b"\0" + varint(0) + varint(0)


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


DAMAGED = {
    "length one less": varint(len(BODY) - 1) + BODY,
    "length one more": varint(len(BODY) + 1) + BODY + b"\0",
    "length beyond the batch": varint(len(BODY) + 1) + BODY,
    "length 2 GiB": varint(2**31 - 1) + BODY,
    "length negative": varint(-1) + BODY,
    "length of 6 bytes": long_varint(len(BODY), 6) + BODY,
    "length that does not end": b"\xff\xff",
    "empty record": varint(0),
    "attributes only": record(b"\0"),
    "timestamp of 11 bytes": record(b"\0" + long_varint(0, 11) + BODY[2:]),
    "offset of 6 bytes": record(b"\0\0" + long_varint(0, 6) + BODY[3:]),
    "key longer than the record": record(START + varint(100) + b"k" * 50),
    "value longer than the record": record(START + varint(-1) + varint(2**31 - 1)),
    "no value": record(START + varint(-1)),
    "no header count": record(START + varint(-1) + varint(-1)),
    "header count negative": record(START + varint(-1) + varint(-1) + varint(-1)),
    "header count 2 Gi": record(START + varint(-1) + varint(-1) + varint(2**31 - 1)),
    "one header too many": record(START + varint(-1) + varint(-1) + varint(2) + b"\2h\2v"),
    "one header too few": record(START + varint(-1) + varint(-1) + varint(1) + b"\2h\2v\2h\2v"),
    "header key null": record(START + varint(-1) + varint(-1) + varint(1) + varint(-1) + b"\2v"),
    "header key too long": record(START + varint(-1) + varint(-1) + varint(1) + varint(9) + b"h"),
    "header value too long": record(START + varint(-1) + varint(-1) + varint(1) + b"\2h" + varint(9) + b"v"),
    "byte left in the record": record(BODY + b"\0"),
    "byte left in the batch": GOOD + b"\0",
    "record left in the batch": GOOD * 2,
    "no records": b"",
}


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("columns", [ALL, ["offset"], ["key"], []], ids=len)
def test_damaged_records(impl, name: str, codec: str, columns: list[str]) -> None:
    """No record of a damaged batch is returned, for any columns; the records before it are."""
    before = v2([Rec()] * 3, 10)
    stored = DAMAGED[name] if codec == "none" else FLAVOURS[codec]["plain"](DAMAGED[name])
    batch = v2([Rec()], 13, codec, records=stored)
    decoded = impl.decode(before + batch + before, columns)
    assert (decoded.status, decoded.position, decoded.next_offset) == ("damaged", len(before), 13)
    assert decoded.batch.num_rows == 3
    damage = decoded.damage
    assert (damage.kind, damage.position, damage.size_bytes, damage.offset) == (
        "records",
        len(before),
        len(batch),
        13,
    )
    assert damage.message
    assert "\n" not in damage.message


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 4, 100, 2**31 - 1])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_lying_record_counts(impl, count: int, codec: str) -> None:
    batch = v2([Rec()] * 3, 7, codec, record_count=count)
    decoded = impl.decode(batch, ["offset"])
    assert (decoded.status, decoded.batch.num_rows, decoded.damage.kind) == ("damaged", 0, "records")
    assert impl.scan(batch).batches.column("recordCount").to_pylist() == [count]


def test_negative_last_offset_delta_is_not_skipped(impl) -> None:
    """It would put the batch below the offsets asked for, and its records would be lost without a word."""
    decoded = impl.decode(v2([Rec()], 0, last_offset_delta=-(2**31)), ["offset"], start_offset=0)
    assert (decoded.status, decoded.damage.kind) == ("damaged", "records")


def test_null_is_any_negative_length(impl) -> None:
    """As in Kafka's reader."""
    row = only(impl, v2([Rec()], records=record(START + varint(-2) + varint(-(2**31)) + varint(0))))
    assert (row["key"], row["value"]) == (None, None)
