"""Batches that are built record by record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native_log.codecs import CODECS
from native_log.errors import RecordTooLargeError
from native_log.records import RECORD_SCHEMA, EncodeOptions

from .conftest import KERNEL, REFERENCE, needs_kernel

NAMES = ["value", "key", "headers", "timestamp"]
SCHEMA = pa.schema([RECORD_SCHEMA.field(name) for name in NAMES[:3]] + [("timestamp", pa.int64())])

binary = st.none() | st.binary(max_size=80)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), binary), max_size=3)
rows = st.lists(st.tuples(binary, binary, headers, st.integers(0, 2**40)), min_size=1, max_size=30)


def build(impl: Any, records: list[Any], limit: int, ratio: float | None = None) -> list[Any]:
    """Return builders, each with as many records as it takes."""
    builders = [impl.BatchBuilder(limit, ratio)]
    for record in records:
        if not builders[-1].append(*record):
            builders.append(impl.BatchBuilder(limit, ratio))
            assert builders[-1].append(*record)
    return builders


def table(records: list[Any]) -> pa.RecordBatch:
    def row(record: Any) -> dict[str, Any]:
        pairs = [{"key": name, "value": value} for name, value in record[2] or ()]
        return dict(zip(NAMES, (*record[:2], pairs, record[3]), strict=True))

    return pa.RecordBatch.from_pylist([row(record) for record in records], SCHEMA)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows, st.sampled_from(list(CODECS)), st.integers(100, 600))
def test_batches_are_those_of_encode(impl: Any, records: list[Any], codec: str, limit: int) -> None:
    largest = max(len(value or b"") + len(key or b"") for value, key, _, _ in records)
    limit = max(limit, largest + 600)  # a larger record raises the limit: the caller's task
    fields: dict[str, Any] = {
        "batch_size": limit,
        "compression": codec,
        "producer_id": 7,
        "producer_epoch": 1,
    }
    ratio = None if codec == "none" else 1.0
    expected = impl.encode(table(records), **fields, base_offset=5, base_sequence=2**31 - 2)
    builders = build(impl, records, limit, ratio)
    if codec != "none" and len(builders) > 1:
        return  # `encode` updates the ratio after each batch
    built = impl.encode_builders(builders, EncodeOptions(**fields), base_offset=5, base_sequence=2**31 - 2)
    assert bytes(built.data) == bytes(expected.data)
    assert built.batches.equals(expected.batches)
    assert built.rows == len(records)


@needs_kernel
@given(rows, st.integers(0, 300), st.none() | st.floats(0.125, 2, width=32))
def test_the_kernel_builds_as_the_reference(records: list[Any], limit: int, ratio: float | None) -> None:
    ours, theirs = (build(impl, records, limit, ratio) for impl in (KERNEL, REFERENCE))
    names = ("limit_bytes", "record_count", "plain_bytes", "estimated_bytes", "is_full", "min_timestamp",
             "max_timestamp", "first_null_key")  # fmt: skip
    for name in names:
        assert [getattr(builder, name) for builder in ours] == [
            getattr(builder, name) for builder in theirs
        ], name
    encoded = [
        impl.encode_builders(them, EncodeOptions()) for impl, them in ((KERNEL, ours), (REFERENCE, theirs))
    ]
    assert bytes(encoded[0].data) == bytes(encoded[1].data)


def test_a_closed_builder_takes_no_records(impl: Any) -> None:
    builder = impl.BatchBuilder(100)
    assert builder.append(b"v", None, None, 5) == 1 and not builder.is_closed
    builder.close()
    assert builder.append(b"v", None, [("h", None)], 5) == 0 and builder.append(b"v", None, None, 5) == 0
    assert builder.is_closed and builder.record_count == 1 and not builder.is_full


def test_a_renewed_builder_is_like_a_new_one(impl: Any) -> None:
    old = impl.BatchBuilder(100)
    assert old.append(b"v" * 500, None, [("h", None)], 5) == -1 and old.is_full
    assert old.append(b"", None, None, 5) == 0
    builder = old.renew(200, 0.5)
    assert old.append(b"", None, None, 5) == 0 and (old.record_count, old.plain_bytes) == (0, 0)
    assert (builder.record_count, builder.limit_bytes, builder.first_null_key) == (0, 200, -1)
    assert builder.append(b"v", b"k", (), 7) == 1 and not builder.is_full
    fresh = impl.BatchBuilder(200, 0.5)
    fresh.append(b"v", b"k", None, 7)
    first, second = (bytes(impl.encode_builders([each], EncodeOptions()).data) for each in (builder, fresh))
    assert first == second
    assert (builder.min_timestamp, builder.max_timestamp) == (7, 7)


@needs_kernel
def test_an_append_while_another_thread_encodes_is_rejected_without_an_error() -> None:
    builder = KERNEL.BatchBuilder(1 << 30)
    builder.append(b"v" * 1_000_000, None, None, 1)
    counts = []
    with ThreadPoolExecutor() as pool:
        encoded = pool.submit(KERNEL.encode_builders, [builder], EncodeOptions(compression="gzip"))
        while not encoded.done():
            counts.append(builder.append(b"v", None, None, 1))
    appended = [count for count in counts if count]
    assert appended == list(range(2, len(appended) + 2))


def test_a_batch_that_is_too_large_is_rejected(impl: Any) -> None:
    builders = build(impl, [(b"v" * 40, None, None, 1)] * 4, 160)
    assert [builder.record_count for builder in builders] == [2, 2]
    with pytest.raises(RecordTooLargeError, match="rows 0 to 1: expected a batch of at most 100 bytes"):
        impl.encode_builders(builders, EncodeOptions(max_message_bytes=100))


def test_a_builder_without_records_is_rejected(impl: Any) -> None:
    with pytest.raises(ValueError, match="expected builders with records"):
        impl.encode_builders([impl.BatchBuilder(100)], EncodeOptions())


@pytest.mark.parametrize("header", [("h", "text"), (b"h", b"v"), ("h",), "header"])
def test_headers_of_other_types_are_rejected(impl: Any, header: Any) -> None:
    builder = impl.BatchBuilder(100)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        builder.append(b"v", None, [header], 1)
    assert builder.record_count == 0


def test_the_partition_of_one_key(impl: Any) -> None:
    assert [impl.partition_of_key(key, 10) for key in (b"", b"a", b"ab", b"key")] == [1, 4, 4, 1]
    with pytest.raises(ValueError, match="partitions"):
        impl.partition_of_key(b"", 0)
