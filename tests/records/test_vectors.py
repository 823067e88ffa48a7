"""Batches written down byte by byte: what Kafka's own code makes of these records."""

from __future__ import annotations

import pytest

from tests.builders.batches import T0

from .rows import ALL, rows

V2_TEN = bytes.fromhex(
    "0000000000000000000000b3ffffffff020b669e6500000000000900000174876e800000000174876e8000"
    "ffffffffffffffffffffffffffff0000000a"
) + b"".join(bytes([0x18, 0, 0, 2 * i, 1, 0x0C]) + b"value%d" % i + b"\0" for i in range(10))
MARKER = (
    "000000000000002a00000042000000000 2{crc}00300000000000000174876e800000000174876e8000"
    "00000000000000070003ffffffff00000001{record}"
).replace(" ", "")
COMMIT = MARKER.format(crc="f16784c1", record="2000000008000000010c00000000000500")
ABORT = MARKER.format(crc="05595289", record="2000000008000000000c00000000000500")

PLAIN = {"timestamp": T0 * 1000, "timestampType": 0, "headers": None, "magic": 2, "leaderEpoch": -1}
VECTORS = {
    "v0": (
        "0000000000000000000000162356c1370000000000036b65790000000576616c7565",
        [{"key": b"key", "value": b"value", "timestamp": -1000, "timestampType": -1, "magic": 0}],
    ),
    "v0 null key": (
        "000000000000000000000013acc084000000ffffffff0000000576616c7565",
        [{"key": None, "value": b"value", "timestamp": -1000, "timestampType": -1, "magic": 0}],
    ),
    "v1": (
        "00000000000000000000001efa8f80f5010000000174876e8000000000036b65790000000576616c7565",
        [{"key": b"key", "value": b"value", "timestamp": T0 * 1000, "timestampType": 0, "magic": 1}],
    ),
    "v2": (
        (
            "000000000000000000000040ffffffff02c65781af00000000000000000174876e800000000174876e8000"
            "ffffffffffffffffffffffffffff000000011c000000066b65790a76616c756500"
        ),
        [PLAIN | {"key": b"key", "value": b"value", "offset": 0}],
    ),
    "v2 null key": (
        (
            "00000000000000000000003dffffffff025543e71a00000000000000000174876e800000000174876e8000"
            "ffffffffffffffffffffffffffff0000000116000000010a76616c756500"
        ),
        [PLAIN | {"key": None, "value": b"value"}],
    ),
    "v2 ten": (
        V2_TEN.hex(),
        [PLAIN | {"key": None, "value": b"value%d" % i, "offset": i, "sequence": -1} for i in range(10)],
    ),
    "horizon": (
        (
            "00000000000000640000003c0000000402a14a35f5004000000009000001748c94dc0000000174876e8000"
            "ffffffffffffffffffffffffffff000000011400ffefb25206026b0100"
        ),
        [PLAIN | {"offset": 103, "key": b"k", "value": None, "leaderEpoch": 4, "batchOffset": 100}],
    ),
    "headers": (
        (
            "00000000000000000000003fffffffff02c213b57c00000000000000000174876e800000000174876e8000"
            "ffffffffffffffffffffffffffff000000011a00000001010402680231026801"
        ),
        [PLAIN | {"key": None, "value": None, "headers": [("h", b"1"), ("h", None)]}],
    ),
    "empty": (
        "0000000000000064000000310000000402090209f4000000000009ffffffffffffffff00000174876e8000"
        "0000000000000007000300000014" + "00000000",
        [],
    ),
    "commit": (COMMIT, []),
    "abort": (ABORT, []),
}


@pytest.mark.parametrize("name", VECTORS)
def test_decode(impl, name: str) -> None:
    text, expected = VECTORS[name]
    data = bytes.fromhex(text)
    decoded = impl.decode(data, ALL)
    assert (decoded.status, decoded.position, decoded.damage) == ("end", len(data), None)
    actual = rows(decoded.batch)
    assert [
        {name: row[name] for name in want} for row, want in zip(actual, expected, strict=True)
    ] == expected


def test_control_records_on_request(impl) -> None:
    decoded = impl.decode(bytes.fromhex(COMMIT), ["offset", "key", "value", "isTransactional"], control=True)
    assert rows(decoded.batch) == [
        {
            "offset": 42,
            "key": bytes.fromhex("00000001"),
            "value": bytes.fromhex("000000000005"),
            "isTransactional": True,
        }
    ]
    assert decoded.next_offset == 43


def scanned(impl, name: str) -> dict:
    result = impl.scan(bytes.fromhex(VECTORS[name][0]), check_crcs=True)
    assert result.status == "end"
    (row,) = result.batches.to_pylist()
    assert row["isValid"] is True
    return row


@pytest.mark.parametrize(("name", "kind"), [("commit", 1), ("abort", 0)])
def test_scan_marker(impl, name: str, kind: int) -> None:
    row = scanned(impl, name)
    assert row["controlType"] == kind
    assert row["isControl"]
    assert row["isTransactional"]
    assert (row["producerId"], row["producerEpoch"], row["baseSequence"], row["lastSequence"]) == (
        7,
        3,
        -1,
        -1,
    )
    assert (row["baseOffset"], row["lastOffset"], row["sizeInBytes"], row["attributes"]) == (42, 42, 78, 0x30)


def test_scan_empty_batch(impl) -> None:
    row = scanned(impl, "empty")
    assert (row["baseOffset"], row["lastOffset"], row["recordCount"], row["leaderEpoch"]) == (100, 109, 0, 4)
    assert (row["baseSequence"], row["lastSequence"]) == (20, 29)
    assert (row["baseTimestamp"], row["maxTimestamp"]) == (-1, T0)
    assert row["controlType"] is None


def test_scan_delete_horizon(impl) -> None:
    row = scanned(impl, "horizon")
    assert (row["baseTimestamp"], row["deleteHorizonMs"], row["maxTimestamp"]) == (
        None,
        1_600_086_400_000,
        T0,
    )
    assert (row["recordCount"], row["lastOffset"]) == (1, 109)


def test_scan_legacy(impl) -> None:
    row = scanned(impl, "v1")
    assert row == row | {
        "position": 0,
        "sizeInBytes": 42,
        "magic": 1,
        "baseOffset": 0,
        "lastOffset": 0,
        "recordCount": 1,
        "compression": "none",
        "timestampType": 0,
        "baseTimestamp": None,
        "maxTimestamp": T0,
        "deleteHorizonMs": None,
        "leaderEpoch": -1,
        "producerId": -1,
        "producerEpoch": -1,
        "baseSequence": -1,
        "lastSequence": -1,
        "isTransactional": False,
        "isControl": False,
        "controlType": None,
        "attributes": 0,
        "crc": 0xFA8F80F5,
    }
    assert (scanned(impl, "v0")["timestampType"], scanned(impl, "v0")["maxTimestamp"]) == (-1, -1)
