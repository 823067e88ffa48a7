"""The kernel and the reference encode alike, and decoding returns any encoded records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native_log.errors import KafkaLogError
from native_log.records.schema import HEADERS
from tests.builders.batches import T0
from tests.builders.codecs import CODECS

from .conftest import KERNEL, REFERENCE, needs_kernel
from .rows import rows

lawful = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)

contents = st.none() | st.binary(max_size=20) | st.integers(0, 20_000).map(lambda size: b"ab" * size)
texts = st.none() | st.text(max_size=10)
header_lists = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=5)}),
    max_size=3,
)
times = st.none() | st.sampled_from([T0, T0 + 1, T0 - 1, -1, 0, 2**62, 2**63 - 1]) | st.integers(0, 2**63 - 1)


@st.composite
def records(draw: st.DrawFn) -> pa.RecordBatch:
    """Any columns, any rows, a slice of them."""
    size = draw(st.integers(0, 12)) * draw(st.sampled_from([1, 1, 1, 30]))

    def column(of: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array:
        some = draw(st.lists(of, min_size=1, max_size=min(size, 12) or 1))
        return pa.array((some * (size // len(some) + 1))[:size], kind)

    binary = draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    text = draw(st.sampled_from([pa.string(), pa.large_string()]))
    columns = {"value": column(contents, binary)}
    if draw(st.booleans()):
        columns["key"] = column(texts, text)
    if draw(st.booleans()):
        columns["headers"] = column(header_lists, HEADERS)
    if draw(st.booleans()):
        columns["timestamp"] = column(times, pa.int64())
    start = draw(st.integers(0, size))
    return pa.record_batch(columns).slice(start, draw(st.integers(0, size - start)))


how = st.fixed_dictionaries(
    {},
    optional={
        "compression": st.sampled_from(list(CODECS)),
        "batch_size": st.sampled_from([0, 1, 100, 1000, 2**31 - 1, 2**40]),
        "max_message_bytes": st.integers(60, 200) | st.just(1 << 20),
        "base_offset": st.integers(0, 2**62),
        "leader_epoch": st.integers(-1, 2**31 - 1),
        "timestamp_type": st.sampled_from([0, 1]),
        "append_time_ms": st.integers(-1, 2**62),
        "now_ms": st.integers(-1, 2**62),
        "base_position": st.integers(0, 2**40),
    },
)
producers = st.just({}) | st.fixed_dictionaries(
    {
        "producer_id": st.integers(0, 2**63 - 1),
        "producer_epoch": st.integers(0, 2**15 - 1),
        "base_sequence": st.integers(0, 10) | st.integers(2**31 - 10, 2**31 - 1),
        "is_transactional": st.booleans(),
    }
)


legacy = st.fixed_dictionaries(
    {"magic": st.sampled_from([0, 1])},
    optional={
        "compression": st.sampled_from(["none", "gzip", "snappy", "lz4"]),
        "batch_size": st.sampled_from([0, 100, 1000, 2**31 - 1]),
        "max_message_bytes": st.integers(20, 200) | st.just(1 << 20),
        "base_offset": st.integers(0, 2**62),
        "timestamp_type": st.sampled_from([0, 1]),
        "append_time_ms": st.integers(-1, 2**62),
        "now_ms": st.integers(-1, 2**62),
        "base_position": st.integers(0, 2**40),
    },
)


def outcome(impl: Any, given: pa.RecordBatch, **how: Any) -> Any:
    try:
        return impl.encode(given, **how)
    except KafkaLogError as error:
        return error


def assert_same(given_records: pa.RecordBatch, **how: Any) -> None:
    """Without a codec to the byte; with one, two libraries have two results, and so other batches."""
    kernel, reference = (outcome(impl, given_records, **how) for impl in (KERNEL, REFERENCE))
    if how.get("compression", "none") == "none":
        if isinstance(reference, KafkaLogError):
            assert isinstance(kernel, KafkaLogError)  # which of several reasons comes first is open
            return
        assert bytes(kernel.data) == bytes(reference.data)
        assert kernel.batches.equals(reference.batches)
    elif not isinstance(kernel, KafkaLogError) and not isinstance(reference, KafkaLogError):
        names = ["offset", "timestamp", "timestampType", "key", "value", "headers", "sequence"]
        again = [rows(KERNEL.decode(encoded.data, names).batch) for encoded in (kernel, reference)]
        assert again[0] == again[1]


@needs_kernel
@lawful
@given(records(), how, producers)
def test_the_kernel_encodes_as_the_reference(given_records, how, producer) -> None:
    assert_same(given_records, **how, **producer)


@needs_kernel
@lawful
@given(records(), legacy)
def test_the_kernel_encodes_as_the_reference_in_the_old_formats(given_records, how) -> None:
    assert_same(given_records, **how)


@lawful
@given(records(), how, producers)
def test_what_is_encoded_is_decoded_again(impl, given_records, how, producer) -> None:
    how = {name: value for name, value in how.items() if name != "max_message_bytes"}
    encoded = impl.encode(given_records, **how, **producer)
    scanned = impl.scan(encoded.data, base_position=how.get("base_position", 0), check_crcs=True)
    assert scanned.batches.equals(encoded.batches)
    assert scanned.status == "end"
    assert set(scanned.batches.column("isValid").to_pylist()) <= {True}
    decoded = rows(impl.decode(encoded.data, ["offset", "key", "value", "headers", "timestamp"]).batch)
    first = how.get("base_offset", 0)
    assert [row["offset"] for row in decoded] == list(range(first, first + given_records.num_rows))
    expected = given_records.to_pylist()
    for row, record in zip(decoded, expected, strict=True):
        assert row["value"] == record["value"]
        key = record.get("key")
        assert row["key"] == (None if key is None else key.encode())
        headers = [(header["key"], header["value"]) for header in record.get("headers") or []]
        assert row["headers"] == (headers or None)
        if not how.get("timestamp_type"):
            time = record.get("timestamp")
            time = how.get("now_ms", -1) if time is None else time
            assert row["timestamp"] == min(time * 1000, 2**63 - 1)


@lawful
@given(st.data(), st.lists(records(), max_size=3), how | legacy)
def test_rows_of_several_batches_are_encoded_as_one_batch_of_them(impl, data, given_records, how) -> None:
    parts: list[tuple[pa.RecordBatch, pa.Array | None]] = []
    chosen = []
    for batch in given_records:
        number = st.integers(0, batch.num_rows - 1)
        numbers = data.draw(st.none() | st.lists(number, max_size=20)) if batch.num_rows else None
        rows_of_it = None if numbers is None else pa.array(numbers, pa.uint32())
        parts.append((batch, rows_of_it))
        chosen += (batch if rows_of_it is None else batch.take(rows_of_it)).to_pylist()
    schema = pa.schema(
        [("key", pa.string()), ("value", pa.binary()), ("headers", HEADERS), ("timestamp", pa.int64())]
    )
    expected = outcome(impl, pa.RecordBatch.from_pylist(chosen, schema), **how)
    actual = outcome(impl, parts, **how)
    if isinstance(expected, KafkaLogError):
        assert (type(actual), actual.message) == (type(expected), expected.message)
    else:
        assert bytes(actual.data) == bytes(expected.data)
        assert (actual.rows, actual.estimated_ratio) == (len(chosen), expected.estimated_ratio)


@lawful
@given(records(), st.integers(0, 12), how, producers)
def test_unfinished_batches_continue_in_the_next_call(impl, given_records, cut: int, how, producer) -> None:
    how = {name: value for name, value in how.items() if name != "max_message_bytes"} | producer
    expected = impl.encode(given_records, **how)
    rows, ratio, position = 0, 1.0, how.pop("base_position", 0)
    offset, sequence = how.pop("base_offset", 0), how.pop("base_sequence", -1)
    data = b""
    for end, finish in ((cut, False), (given_records.num_rows, True)):
        encoded = impl.encode(
            given_records.slice(rows, max(0, end - rows)),
            **how,
            base_position=position + len(data),
            base_offset=offset + rows,
            base_sequence=sequence if sequence < 0 else (sequence + rows) % 2**31,
            estimated_ratio=ratio,
            finish=finish,
        )
        data, rows, ratio = data + bytes(encoded.data), rows + encoded.rows, encoded.estimated_ratio
    assert rows == given_records.num_rows
    assert data == bytes(expected.data)


@lawful
@given(records(), legacy)
def test_what_is_encoded_in_the_old_formats_is_decoded_again(impl, given_records, how) -> None:
    how = {name: value for name, value in how.items() if name != "max_message_bytes"}
    given_records = given_records.select([n for n in given_records.schema.names if n != "headers"])
    encoded = impl.encode(given_records, **how)
    scanned = impl.scan(encoded.data, base_position=how.get("base_position", 0), check_crcs=True)
    assert scanned.batches.equals(encoded.batches)
    assert (scanned.status, set(scanned.batches["isValid"].to_pylist()) <= {True}) == ("end", True)
    decoded = rows(impl.decode(encoded.data, ["offset", "key", "value", "timestamp", "timestampType"]).batch)
    first = how.get("base_offset", 0)
    assert [row["offset"] for row in decoded] == list(range(first, first + given_records.num_rows))
    for row, record in zip(decoded, given_records.to_pylist(), strict=True):
        key, time = record.get("key"), record.get("timestamp")
        assert (row["key"], row["value"]) == (None if key is None else key.encode(), record["value"])
        time = how.get("now_ms", -1) if time is None else time
        time = how.get("append_time_ms", -1) if how.get("timestamp_type") else time
        expected = (-1000, -1) if how["magic"] == 0 else (time * 1000, how.get("timestamp_type", 0))
        assert (row["timestamp"], row["timestampType"]) == (min(expected[0], 2**63 - 1), expected[1])
