"""Records as batches: their bytes, their sizes, and the records that are rejected."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from native_log.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError
from native_log.records.schema import BATCH_SCHEMA, HEADERS
from tests.builders.batches import T0, Rec, v2
from tests.builders.codecs import CODECS

from .conftest import KERNEL, needs_kernel
from .rows import SEVEN, rows

TIMES = pa.timestamp("ms", tz="UTC")


def batch(*recs: Rec) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "timestamp": pa.array([rec.timestamp for rec in recs], TIMES),
            "value": pa.array([rec.value for rec in recs], pa.binary()),
            "key": pa.array([rec.key for rec in recs], pa.binary()),
            "headers": pa.array(
                [
                    [{"key": key.decode(), "value": value} for key, value in rec.headers] or None
                    for rec in recs
                ],
                HEADERS,
            ),
        }
    )


def values(*sizes: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"v" * size for size in sizes], pa.binary())})


def counts(encoded: Any) -> list[int]:
    return encoded.batches.column("recordCount").to_pylist()


MIXED = (
    Rec(b"k", b"v", ((b"h", b"w"), (b"h", None), (b"", b""))),
    Rec(None, None, timestamp=T0 - 7),
    Rec(b"", b"", timestamp=T0 + 2**40),
    Rec(b"k" * 100, b"v" * 9000),
    Rec(None, b"v", ((b"n" * 70, b"w" * 200),) * 70, timestamp=-1),
)


def test_the_bytes_are_those_of_the_format(impl) -> None:
    assert bytes(impl.encode(batch(*MIXED), batch_size=1 << 20).data) == v2(MIXED, leader_epoch=-1)
    how: dict[str, Any] = {
        "batch_size": 1 << 20,
        "base_offset": 2**40,
        "leader_epoch": 4,
        "is_transactional": True,
    }
    producer = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 20}
    encoded = impl.encode(batch(*MIXED), **how, **producer)
    assert bytes(encoded.data) == v2(MIXED, 2**40, attributes=16, leader_epoch=4, **producer)


def test_log_append_time_is_the_batch_s_and_records_keep_theirs(impl) -> None:
    recs = (Rec(), Rec(timestamp=T0 - 5))
    encoded = impl.encode(batch(*recs), timestamp_type=1, append_time_ms=T0 + 99)
    assert bytes(encoded.data) == v2(recs, leader_epoch=-1, attributes=8, max_timestamp=T0 + 99)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_encoded_is_decoded_again(impl, codec: str) -> None:
    recs = [Rec(b"k%d" % i, b"some value %d" % i, timestamp=T0 + i) for i in range(5000)]
    encoded = impl.encode(batch(*recs), compression=codec, base_offset=100, base_position=1000)
    assert encoded.batches.num_rows > 1
    scanned = impl.scan(encoded.data, base_position=1000, check_crcs=True)
    assert scanned.batches.equals(encoded.batches)
    assert scanned.batches.schema.equals(BATCH_SCHEMA)
    assert set(scanned.batches.column("isValid").to_pylist()) == {True}
    assert set(scanned.batches.column("compression").to_pylist()) == {codec}
    decoded = impl.decode(encoded.data, ["offset", "key", "value", "timestamp"]).batch
    assert decoded.column("offset").to_pylist() == list(range(100, 5100))
    assert decoded.column("key").to_pylist() == [rec.key for rec in recs]
    assert decoded.column("value").to_pylist() == [rec.value for rec in recs]
    assert decoded.column("timestamp").cast(pa.int64()).to_pylist() == [rec.timestamp * 1000 for rec in recs]


@pytest.mark.parametrize(
    ("codec", "levels"),
    [("gzip", [-1, 1, 9]), ("lz4", [1, 9, 10, 17]), ("zstd", [-131072, -7, 3, 22])],
)
def test_levels(impl, codec: str, levels: list[int]) -> None:
    records = pa.record_batch({"value": [f"{i * i % 7919}" * 5 for i in range(3000)]})
    sizes = []
    for level in levels:
        encoded = impl.encode(records, compression=codec, level=level, batch_size=1 << 20)
        decoded = impl.decode(encoded.data, ["value"]).batch
        assert decoded["value"].cast("string").equals(records["value"])
        sizes.append(len(encoded.data))
    assert len(set(sizes)) > 1, sizes
    default = {"gzip": -1, "lz4": 9, "zstd": 3}[codec]
    data = [impl.encode(records, compression=codec, level=level).data for level in (None, default)]
    assert data[0] == data[1]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary(2)]
)
def test_types_of_keys_and_values(impl, kind: pa.DataType) -> None:
    given = pa.array([b"ab", None, b"cd"], pa.binary()).cast(kind)
    expected = bytes(impl.encode(batch(*(Rec(data, data) for data in (b"ab", None, b"cd"))), now_ms=T0).data)
    records = pa.record_batch({"ignored": [1, 2, 3], "key": given, "value": given})
    assert bytes(impl.encode(records, now_ms=T0).data) == expected
    sliced = pa.concat_arrays([given, given, given]).slice(3, 3)
    records = pa.record_batch({"value": sliced, "key": sliced})
    assert bytes(impl.encode(records, now_ms=T0).data) == expected


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.binary_view()])
def test_other_types_are_cast(impl, kind: pa.DataType) -> None:
    given = pa.array(["ab", None, "ab"]).cast(kind)
    expected = impl.encode(batch(*(Rec(None, data) for data in (b"ab", None, b"ab"))), now_ms=T0)
    assert impl.encode(pa.record_batch({"value": given}), now_ms=T0).data == expected.data


def test_null_columns_and_missing_ones_are_null(impl) -> None:
    expected = v2([Rec(None, None), Rec(None, None)], leader_epoch=-1)
    nulls = pa.nulls(2)
    assert bytes(impl.encode(pa.record_batch({"value": nulls}), now_ms=T0).data) == expected
    everything = pa.record_batch({"headers": nulls, "key": nulls, "value": nulls, "timestamp": nulls})
    assert bytes(impl.encode(everything, now_ms=T0).data) == expected


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (pa.int64(), [T0, None, -1], [T0, T0 + 1, -1]),
        (pa.timestamp("s"), [1, None, 0], [1000, T0 + 1, 0]),
        (pa.timestamp("ms", "Europe/Berlin"), [1, None, T0], [1, T0 + 1, T0]),
        (pa.timestamp("us", "UTC"), [1999, None, 999], [1, T0 + 1, 0]),
        (pa.timestamp("ns"), [1_999_999, None, 999_999], [1, T0 + 1, 0]),
        (pa.int32(), [5, None, 7], [5, T0 + 1, 7]),
    ],
)
def test_types_of_timestamps(impl, kind: pa.DataType, given: list[int | None], expected: list[int]) -> None:
    records = pa.record_batch({"value": [b"v"] * 3, "timestamp": pa.array(given, kind)})
    decoded = impl.decode(impl.encode(records, now_ms=T0 + 1).data, ["timestamp"]).batch
    assert decoded.column("timestamp").cast(pa.int64()).to_pylist() == [time * 1000 for time in expected]


@pytest.mark.parametrize("names", [pa.string(), pa.binary(), pa.large_string()])
def test_types_of_headers(impl, names: pa.DataType) -> None:
    kind = pa.list_(pa.struct([("key", names), ("value", pa.binary())]))
    given = [[{"key": "h", "value": b"w"}], None, [], [{"key": "ä", "value": None}]]
    records = pa.record_batch({"value": [b"v"] * 5, "headers": pa.array([None, *given], kind)}).slice(1)
    decoded = rows(impl.decode(impl.encode(records).data, SEVEN).batch)
    assert [row["headers"] for row in decoded] == [[("h", b"w")], None, None, [("ä", None)]]
    as_large = records["headers"].cast(pa.large_list(kind.value_type))
    again = pa.record_batch({"value": records["value"], "headers": as_large})
    assert impl.encode(again).data == impl.encode(records).data


@pytest.mark.parametrize("list_of", [pa.list_view, pa.large_list_view, lambda entry: pa.list_(entry, 1)])
def test_headers_in_lists_of_other_kinds(impl, list_of: Any) -> None:
    given = [
        [{"key": "a", "value": b"1"}],
        None,
        [{"key": "b", "value": None}],
        [{"key": "c", "value": b"3"}],
    ]
    headers = pa.array(given, list_of(HEADERS.value_type))
    for some in (headers, headers[1:], headers[2:3], headers[:0]):
        encoded = impl.encode(pa.record_batch({"value": [b"v"] * len(some), "headers": some}))
        assert impl.decode(encoded.data, ["headers"]).batch["headers"].to_pylist() == some.to_pylist()


def test_a_batch_takes_records_up_to_its_size(impl) -> None:
    # 100 bytes and 9 of lengths and deltas; from the 65th on the offset delta takes one more.
    assert counts(impl.encode(values(*[100] * 4), batch_size=61 + 2 * 109)) == [2, 2]
    assert counts(impl.encode(values(*[100] * 4), batch_size=61 + 2 * 109 - 1)) == [1] * 4
    assert counts(impl.encode(values(*[100] * 70), batch_size=61 + 70 * 109 + 5)) == [69, 1]
    assert counts(impl.encode(values(*[100] * 70), batch_size=61 + 70 * 109 + 6)) == [70]
    assert counts(impl.encode(values(5, 5, 100), batch_size=100)) == [2, 1]
    assert counts(impl.encode(values())) == []
    assert counts(impl.encode(values(1, 1), batch_size=2**70, max_message_bytes=2**70)) == [2]
    assert sum(counts(impl.encode(values(*[100] * 1000)))) == 1000


def test_small_records_share_the_batch_of_a_large_record(impl) -> None:
    # It has room for 21 bytes beside its content, and takes 4 of them; a record with 10 bytes takes 17.
    assert counts(impl.encode(values(20, 11, 20), batch_size=0)) == [1, 1, 1]
    assert counts(impl.encode(values(20, 10, 20), batch_size=0)) == [2, 1]
    assert counts(impl.encode(values(0, 0, 0, 0), batch_size=0)) == [3, 1]
    assert counts(impl.encode(values(5, 500, 5, 5), batch_size=100)) == [1, 2, 1]
    assert counts(impl.encode(values(500, 5), batch_size=100, max_message_bytes=61 + 509)) == [1, 1]


def test_compressed_batches_grow_with_the_observed_ratio(impl) -> None:
    encoded = impl.encode(values(*[1000] * 4000), compression="zstd", batch_size=16384)
    rows_of_batches = counts(encoded)
    assert rows_of_batches[0] == 15  # at first they are taken to be compressed not at all, and by 5 % badly
    assert rows_of_batches[:-1] == sorted(rows_of_batches[:-1])
    assert rows_of_batches[-2] > 20


def test_encoding_continues_with_the_estimated_ratio(impl) -> None:
    given = values(*[1000] * 4000)
    whole = impl.encode(given, compression="zstd")
    end = sum(counts(whole)[:10])
    first = impl.encode(given.slice(0, end), compression="zstd")
    assert counts(first) == counts(whole)[:10]
    assert 0.9 < first.estimated_ratio < 1
    rest = impl.encode(given.slice(end), compression="zstd", estimated_ratio=first.estimated_ratio)
    assert counts(rest) == counts(whole)[10:]
    assert rest.estimated_ratio == whole.estimated_ratio
    assert impl.encode(given, estimated_ratio=0.5).estimated_ratio == 0.5


def test_sequences_continue_and_wrap(impl) -> None:
    encoded = impl.encode(
        values(*[100] * 4), batch_size=0, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2
    )
    assert encoded.batches.column("baseSequence").to_pylist() == [2**31 - 2, 2**31 - 1, 0, 1]


def test_a_too_large_batch_is_rejected_with_its_rows(impl) -> None:
    with pytest.raises(RecordTooLargeError, match=r"rows 1 to 2: .* at most 279 bytes .* found 280"):
        impl.encode(values(180, 100, 101), max_message_bytes=279, batch_size=280)
    with pytest.raises(RecordTooLargeError, match=r"row 1: .* found 1070"):
        impl.encode(values(10, 1000), max_message_bytes=1000, batch_size=100)
    with pytest.raises(RecordTooLargeError, match=r"rows 41 to 42: .* found 280"):
        impl.encode(values(180, 100, 101), max_message_bytes=279, batch_size=280, first_row=40)
    assert counts(impl.encode(values(1000), max_message_bytes=1070)) == [1]


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        ({"timestamp": [1, -2]}, InvalidTimestampError, "row 1: .* found -2"),
        (
            {"headers": pa.array([[], [{"key": None, "value": b"v"}]], HEADERS)},
            InvalidRecordError,
            "row 1: .*key",
        ),
        ({"timestamp": ["a", "b"]}, ValueError, "column timestamp: .*string"),
        ({"key": [1, 2]}, ValueError, "column key: .*int64"),
        ({"headers": [1, 2]}, ValueError, "column headers: .*int64"),
        # A cast would make null of what has another name.
        ({"headers": [[{"key": "k", "val": b"v"}], None]}, ValueError, "column headers: expected a list of"),
        (
            {"headers": [[{"name": "k", "value": b"v"}], None]},
            ValueError,
            "column headers: expected a list of",
        ),
    ],
)
def test_invalid_records(impl, column: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        impl.encode(pa.record_batch({"value": [b"v", b"v"], **column}))


@pytest.mark.parametrize("rows", [pa.array([0], pa.int64()), pa.array([None], pa.uint32())])
def test_row_numbers_are_uint32(impl, rows: pa.Array) -> None:
    with pytest.raises(ValueError, match="expected row numbers of type uint32 without nulls"):
        impl.encode([(pa.record_batch({"value": ["a"]}), rows)])


def test_a_row_number_out_of_range(impl) -> None:
    with pytest.raises((ValueError, IndexError)):
        impl.encode([(pa.record_batch({"value": ["a"]}), pa.array([1], pa.uint32()))])


def test_the_column_value_is_required(impl) -> None:
    with pytest.raises(ValueError, match="expected a column value, found key"):
        impl.encode(pa.record_batch({"key": [b"k"]}))
    with pytest.raises(ValueError, match="expected one column value, found 2"):
        impl.encode(pa.RecordBatch.from_arrays([pa.array([b"v"])] * 2, ["value", "value"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compression": "brotli"}, "none, gzip, snappy, lz4, zstd, found 'brotli'"),
        ({"compression": "gzip", "level": 0}, "gzip -1 or a number from 1 to 9, found 0"),
        ({"compression": "gzip", "level": 10}, "from 1 to 9"),
        ({"compression": "lz4", "level": 18}, "from 1 to 17"),
        ({"compression": "zstd", "level": 23}, "from -131072 to 22"),
        ({"compression": "snappy", "level": 1}, "snappy has none"),
        ({"level": 1}, "compression none has none"),
        ({"magic": 3}, "0, 1 or 2, found 3"),
        ({"magic": 1, "compression": "zstd"}, "magic 2, which zstd needs"),
        ({"base_offset": 2**63 - 2}, "base_offset"),
        ({"base_offset": -1}, "base_offset"),
        ({"batch_size": -1}, "batch_size"),
        ({"estimated_ratio": 0.0}, "estimated_ratio"),
        ({"estimated_ratio": float("nan")}, "estimated_ratio"),
        ({"timestamp_type": 2}, "timestamp_type"),
        ({"leader_epoch": 2**31}, "leader_epoch"),
        ({"max_message_bytes": -1}, "max_message_bytes"),
        ({"producer_id": 2**63}, "producer_id"),
        ({"producer_id": -2}, "producer_id"),
        ({"base_sequence": 2**31}, "base_sequence"),
        ({"is_transactional": True}, "producer_id"),
        ({"producer_id": 1, "base_sequence": 0}, "producer_epoch"),
        ({"producer_id": 1, "producer_epoch": 0}, "base_sequence"),
        ({"producer_id": 1, "producer_epoch": 2**15, "base_sequence": 0}, "producer_epoch"),
    ],
)
def test_invalid_options(impl, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        impl.encode(values(1, 1), **settings)


def test_the_codec_is_in_the_attributes(impl) -> None:
    for codec, number in CODECS.items():
        data = bytes(impl.encode(values(100), compression=codec).data)
        assert struct.unpack_from(">h", data, 21) == (number,)


@needs_kernel
@pytest.mark.parametrize("offsets", [[0, 100, 1], [0, -1, 1], [0, 1, 0]])
def test_the_kernel_rejects_invalid_arrays(offsets: list[int]) -> None:
    """Offsets that do not fit the data: pyarrow looks at the first and the last only, unless asked to."""
    lying = pa.py_buffer(struct.pack("3i", *offsets))
    column = pa.Array.from_buffers(pa.binary(), 2, [None, lying, pa.py_buffer(b"abc")])
    with pytest.raises(ValueError, match="column value: its offsets do not fit its data"):
        KERNEL.encode(pa.record_batch({"value": column}))
    entries = pa.array([{"key": "k", "value": b"v"}], HEADERS.value_type)
    lists = pa.Array.from_buffers(HEADERS, 2, [None, lying], children=[entries])
    with pytest.raises(ValueError, match="column headers: its offsets do not fit its data"):
        KERNEL.encode(pa.record_batch({"value": [b"", b""], "headers": lists}))


def test_the_offsets_of_an_empty_array_are_not_read(impl) -> None:
    """Arrow Java, and so Spark 4.0, leaves it as the memory was: here below headers that are all null."""
    garbage = pa.py_buffer(struct.pack("i", 12345))
    nothing = [
        pa.Array.from_buffers(kind, 0, [None, garbage, pa.py_buffer(b"")])
        for kind in (pa.string(), pa.binary())
    ]
    entries = pa.StructArray.from_arrays(nothing, fields=list(HEADERS.value_type))
    offsets, validity = pa.py_buffer(struct.pack("3i", 0, 0, 0)), pa.py_buffer(b"\0")
    headers = pa.Array.from_buffers(HEADERS, 2, [validity, offsets], children=[entries])
    encoded = impl.encode(pa.record_batch({"value": [b"a", b"b"], "headers": headers}))
    assert impl.decode(encoded.data, ["value", "headers"]).batch.to_pydict() == {
        "value": [b"a", b"b"],
        "headers": [None, None],
    }
