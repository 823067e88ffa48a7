"""Magic 0 and 1: messages, wrappers, and what old brokers and producers did to them."""

from __future__ import annotations

import pytest

from tests.builders.batches import LOG_APPEND_TIME, T0, Rec, v2
from tests.builders.legacy import message, wrapper

from .rows import ALL, offsets, rows

LEGACY_CODECS = ["gzip", "snappy", "lz4"]


def read(impl, data: bytes, **how) -> list[dict]:
    decoded = impl.decode(data, ALL, **how)
    assert (decoded.status, decoded.position) == ("end", how.get("base_position", 0) + len(data)), decoded
    return rows(decoded.batch)


def damaged(impl, data: bytes, **how):
    decoded = impl.decode(data, ["offset", "value"], **how)
    assert decoded.status == "damaged", decoded
    assert (decoded.batch.num_rows, decoded.damage.position) == (0, 0)
    return decoded.damage


@pytest.mark.parametrize("magic", [0, 1])
def test_null_and_empty_differ(impl, magic: int) -> None:
    pairs = [(key, value) for key in (None, b"", b"k") for value in (None, b"", b"v")]
    actual = read(impl, b"".join(message(magic, i, *pair) for i, pair in enumerate(pairs)))
    assert [(row["key"], row["value"]) for row in actual] == pairs


@pytest.mark.parametrize("magic", [0, 1])
def test_what_the_formats_lack(impl, magic: int) -> None:
    (row,) = read(impl, message(magic, 5))
    assert (row["timestamp"], row["timestampType"]) == ((-1000, -1) if magic == 0 else (T0 * 1000, 0))
    assert (row["leaderEpoch"], row["producerId"], row["producerEpoch"], row["sequence"]) == (-1, -1, -1, -1)
    assert (row["headers"], row["isTransactional"], row["magic"], row["batchOffset"]) == (
        None,
        False,
        magic,
        5,
    )


def test_log_append_time(impl) -> None:
    (row,) = read(impl, message(1, attributes=LOG_APPEND_TIME))
    assert row["timestampType"] == 1


def test_no_timestamp(impl) -> None:
    (row,) = read(impl, message(1, timestamp=-1))
    assert (row["timestamp"], row["timestampType"]) == (-1000, 0)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_same_data_absolute_and_relative(impl, codec: str) -> None:
    """Magic 0 has absolute offsets within a wrapper, magic 1 relative ones (KIP-31)."""
    old = wrapper(0, [message(0, 50 + i) for i in range(4)], 53, codec)
    new = wrapper(1, [message(1, i) for i in range(4)], 53, codec)
    for data in (old, new):
        actual = read(impl, data, base_position=7)
        assert [row["offset"] for row in actual] == [50, 51, 52, 53]
        assert {(row["compression"], row["batchOffset"], row["position"]) for row in actual} == {
            (codec, 50, 7)
        }
        assert impl.decode(data, []).next_offset == 54


@pytest.mark.parametrize("inner", [[0, 1, 2], [5, 6, 7], [3, 9, 41], [1000, 1001, 1002]])
def test_only_distances_count_within_a_wrapper(impl, inner: list[int]) -> None:
    """After compaction the first one may be any, with gaps."""
    data = wrapper(1, [message(1, i) for i in inner], 2000, "gzip")
    assert [row["offset"] for row in read(impl, data)] == [2000 - inner[-1] + i for i in inner]


def test_gaps_in_a_wrapper_of_magic_0(impl) -> None:
    data = wrapper(0, [message(0, i) for i in (3, 9, 41)], 41, "gzip")
    assert [row["offset"] for row in read(impl, data)] == [3, 9, 41]


def test_wrapper_without_an_offset(impl) -> None:
    """Offset 0 is what some producers write, for the broker to set: offsets within are right as they are."""
    data = wrapper(1, [message(1, i) for i in range(3)], 0, "gzip")
    decoded = impl.decode(data, ["offset", "batchOffset"])
    assert offsets(decoded.batch) == [0, 1, 2]
    assert decoded.next_offset == 3
    assert offsets(impl.decode(data, ["offset"], start_offset=2).batch) == [2]


def test_a_wrapper_of_magic_0_has_its_offset_even_if_that_is_0(impl) -> None:
    data = wrapper(0, [b"nothing to decompress"], 0, "gzip", compress=bytes)
    decoded = impl.decode(data, ["offset"], start_offset=1)
    assert (decoded.status, decoded.batch.num_rows, decoded.next_offset) == ("end", 0, 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_with_its_offset_below_the_last_one(impl, magic: int) -> None:
    data = wrapper(magic, [message(magic, i) for i in range(3)], 1, "gzip")
    assert damaged(impl, data).kind == "records"


def test_log_append_time_of_a_wrapper_decides(impl) -> None:
    inner = [message(1, i, timestamp=T0 - i) for i in range(3)]
    data = wrapper(1, inner, 2, "lz4", attributes=LOG_APPEND_TIME, timestamp=T0 + 99)
    assert [(row["timestamp"], row["timestampType"]) for row in read(impl, data)] == [
        ((T0 + 99) * 1000, 1)
    ] * 3


def test_create_time_is_that_of_each_message(impl) -> None:
    inner = [message(1, i, timestamp=T0 - i, attributes=LOG_APPEND_TIME) for i in range(3)]
    data = wrapper(1, inner, 2, "lz4", timestamp=T0 + 99)
    assert [(row["timestamp"], row["timestampType"]) for row in read(impl, data)] == [
        ((T0 - i) * 1000, 0) for i in range(3)
    ]


def test_messages_of_another_magic_than_their_wrapper(impl) -> None:
    """KAFKA-4298: each is read by its own magic, offsets by the wrapper's."""
    data = wrapper(1, [message(0, 0), message(1, 1)], 11, "gzip")
    assert [
        (row["offset"], row["timestamp"], row["timestampType"], row["magic"]) for row in read(impl, data)
    ] == [
        (10, -1000, 0, 1),
        (11, T0 * 1000, 0, 1),
    ]
    data = wrapper(0, [message(1, 10), message(0, 11)], 11, "gzip")
    assert [
        (row["offset"], row["timestamp"], row["timestampType"], row["magic"]) for row in read(impl, data)
    ] == [
        (10, T0 * 1000, -1, 0),
        (11, -1000, -1, 0),
    ]


def test_a_message_cut_short_ends_a_wrapper(impl) -> None:
    inner = b"".join(message(1, i) for i in range(3))
    for cut in (1, 20, 41):
        data = wrapper(1, [inner[:-cut]], 9, "gzip")
        assert [row["offset"] for row in read(impl, data)] == [8, 9]


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_the_crc_of_a_wrapper_is_a_matter_of_scan(impl, magic: int, codec: str) -> None:
    """Consumers serve the messages of a wrapper with a wrong CRC; recovery drops it."""
    data = wrapper(magic, [message(magic)], 0, codec, crc=1)
    assert len(read(impl, data)) == 1
    assert impl.scan(data, check_crcs=True).batches.column("isValid").to_pylist() == [False]


@pytest.mark.parametrize("magic", [0, 1])
def test_crcs_of_messages(impl, magic: int) -> None:
    for data in (
        message(magic, crc=1),
        wrapper(magic, [message(magic), message(magic, 1, crc=1)], 1, "gzip"),
    ):
        assert damaged(impl, data).kind == "crc"
        assert read(impl, data, check_crcs=False)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    "lie",
    [
        {"key_length": 4},
        {"key_length": 2},
        {"key_length": 2**31 - 1},
        {"value_length": 6},
        {"value_length": 4},
        {"value_length": -1},
        {"value_length": 2**31 - 1},
    ],
    ids=str,
)
def test_lengths_must_fit(impl, magic: int, within: bool, lie: dict[str, int]) -> None:
    data = message(magic, 0, **lie)
    if within:
        data = wrapper(magic, [data], 0, "gzip")
    assert damaged(impl, data).kind == "records"


def test_null_is_any_negative_length(impl) -> None:
    (row,) = read(impl, message(1, 0, None, None, key_length=-2, value_length=-(2**31)))
    assert (row["key"], row["value"]) == (None, None)


@pytest.mark.parametrize("magic", [0, 1])
def test_nonsense_within_wrappers(impl, magic: int) -> None:
    inner = [message(magic, 0)]
    assert damaged(impl, message(magic, 0, None, None, attributes=1)).kind == "records"  # null value
    assert damaged(impl, message(magic, 0, None, b"", attributes=1)).kind == "compression"
    assert damaged(impl, wrapper(magic, [], 0, "gzip")).kind == "records"  # no messages
    assert damaged(impl, wrapper(magic, [b"\0" * 11], 0, "gzip")).kind == "records"
    assert (
        damaged(impl, wrapper(magic, [wrapper(magic, inner, 0, "gzip")], 0, "gzip")).kind == "records"
    )  # nested
    assert damaged(impl, wrapper(magic, [*inner, v2([Rec()], 1)], 1, "gzip")).kind == "records"
    assert damaged(impl, wrapper(magic, [*inner, message(magic, 1, size=13)], 1, "gzip")).kind == "records"
    assert damaged(impl, wrapper(magic, [*inner, message(magic, 1, size=-1)], 1, "gzip")).kind == "records"
    assert damaged(impl, message(magic, 0, None, b"no gzip", attributes=1)).kind == "compression"


@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_ranges_cut_through_wrappers(impl, codec: str) -> None:
    log = b"".join(wrapper(1, [message(1, i) for i in range(5)], 5 * n + 4, codec) for n in range(4))
    for start in range(21):
        for end in range(start, 21):
            decoded = impl.decode(log, ["offset"], start_offset=start, end_offset=end)
            assert offsets(decoded.batch) == list(range(start, end))
            assert decoded.next_offset == 20


def test_scan_of_wrappers(impl) -> None:
    data = wrapper(1, [message(1, i) for i in range(3)], 12, "snappy", timestamp=T0 + 2)
    (row,) = impl.scan(data, base_position=5).batches.to_pylist()
    assert row == row | {
        "position": 5,
        "sizeInBytes": len(data),
        "baseOffset": None,
        "lastOffset": 12,
        "recordCount": None,
        "compression": "snappy",
        "maxTimestamp": T0 + 2,
        "baseTimestamp": None,
        "isValid": None,
    }
