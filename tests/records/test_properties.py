"""Laws that hold for any log and any bytes; above all: the kernel and the reference are one."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from native_log.records.schema import BATCH_SCHEMA, RECORD_SCHEMA
from tests.builders.batches import T0, Rec, v2
from tests.builders.strategies import PRODUCERS, Batch, logs, mutations
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .rows import ALL, offsets, rows

quick = settings(
    max_examples=examples(50),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
small_offsets = st.one_of(st.none(), st.integers(-1, 40), st.integers(2**53, 2**53 + 40))
columns = st.one_of(st.just(ALL), st.lists(st.sampled_from(ALL), unique=True, max_size=4))


@st.composite
def aborted_ranges(draw: st.DrawFn) -> bytes:
    triples = []
    for producer_id in draw(st.sets(st.sampled_from(PRODUCERS))):
        bounds = sorted(draw(st.sets(st.integers(0, 40), max_size=6)))
        triples += [(producer_id, *pair) for pair in zip(bounds[::2], bounds[1::2], strict=False)]
    return b"".join(struct.pack("=qqq", *triple) for triple in sorted(triples))


selections = st.fixed_dictionaries(
    {},
    optional={
        "start_offset": small_offsets,
        "end_offset": small_offsets,
        "aborted": aborted_ranges(),
        "control": st.booleans(),
        "check_crcs": st.booleans(),
        "max_rows": st.one_of(st.none(), st.integers(0, 12)),
        "max_batch_bytes": st.sampled_from([60, 100, 1000, 10_000, 1 << 28]),
        "base_position": st.sampled_from([0, 1, 2**40]),
        "topic": st.sampled_from([None, "t"]),
        "partition": st.sampled_from([None, 3]),
        "segment": st.sampled_from([None, "00000000000000000000.log"]),
    },
)


def joined(log: list[Batch]) -> bytes:
    return b"".join(batch.data for batch in log)


def outcome(result: Any, how: dict[str, Any] | None = None) -> tuple[Any, ...]:
    damage = result.damage
    if damage and damage.kind == "compression" and (how or {}).get("max_batch_bytes", 1 << 28) < 1 << 28:
        # A damaged stream that would also grow above the ceiling: which is met first is the library's affair.
        damage = replace(damage, kind="too-large")
    return (
        result.status,
        result.position,
        result.next_offset,
        result.needed_bytes,
        damage and (damage.kind, damage.position, damage.size_bytes, damage.offset),
    )


def assert_same(data: bytes, names: list[str], how: dict[str, Any]) -> None:
    kernel, reference = (impl.decode(data, names, **how) for impl in (KERNEL, REFERENCE))
    assert outcome(kernel, how) == outcome(reference, how), (kernel.damage, reference.damage)
    assert kernel.batch.schema.equals(reference.batch.schema)
    assert kernel.batch.schema.equals(RECORD_SCHEMA.empty_table().select(names).schema)
    assert kernel.batch.num_rows == reference.batch.num_rows
    assert rows(kernel.batch) == rows(reference.batch)
    if kernel.damage:
        assert kernel.damage.message
        assert "\n" not in kernel.damage.message


def assert_same_scan(data: bytes, **how: Any) -> None:
    kernel, reference = (impl.scan(data, **how) for impl in (KERNEL, REFERENCE))
    assert outcome(kernel) == outcome(reference), (kernel.damage, reference.damage)
    kernel.batches.validate(full=True)
    assert kernel.batches.schema.equals(BATCH_SCHEMA)
    assert kernel.batches.to_pylist() == reference.batches.to_pylist()


@quick
@given(log=logs())
def test_a_log_is_read_as_it_was_written(impl, log: list[Batch]) -> None:
    decoded = impl.decode(
        joined(log), ["offset", "timestamp", "timestampType", "key", "value", "headers", "sequence"]
    )
    expected = [
        row | {"timestamp": max(-(2**63), min(row["timestamp"] * 1000, 2**63 - 1))}
        for batch in log
        for row in batch.rows
    ]
    assert rows(decoded.batch) == expected
    assert decoded.status == "end"
    assert decoded.next_offset == (log[-1].next_offset if log else None)
    scanned = impl.scan(joined(log), check_crcs=True)
    assert all(scanned.batches.column("isValid").to_pylist())
    assert [o + 1 for o in scanned.batches.column("lastOffset").to_pylist()] == [
        batch.next_offset for batch in log
    ]


@needs_kernel
@quick
@given(log=logs(), names=columns, how=selections)
def test_decode_is_the_same(log: list[Batch], names: list[str], how: dict[str, Any]) -> None:
    assert_same(joined(log), names, how)


@needs_kernel
@settings(quick, max_examples=examples(150))
@given(data=logs(3).map(joined).flatmap(mutations), names=columns, how=selections)
@example(data=v2([Rec()], attributes=0x20, crc=1), names=["offset"], how={})
@example(data=v2([Rec()], record_count=0, crc=1), names=["offset"], how={"start_offset": 0})
@example(data=v2([Rec(timestamp=T0)], base_timestamp=2**63 - 1), names=["timestamp"], how={})
def test_decode_of_damaged_bytes_is_the_same(data: bytes, names: list[str], how: dict[str, Any]) -> None:
    assert_same(data, names, how)


@needs_kernel
@settings(quick, max_examples=examples(150))
@given(data=logs(3).map(joined).flatmap(mutations), names=columns, how=selections)
def test_decode_of_damaged_records_is_the_same(data: bytes, names: list[str], how: dict[str, Any]) -> None:
    """Without CRC checks, so that the records themselves are read."""
    assert_same(data, names, how | {"check_crcs": False})


@needs_kernel
@settings(quick, max_examples=examples(100))
@given(data=st.one_of(logs(4).map(joined), logs(4).map(joined).flatmap(mutations)), check=st.booleans())
def test_scan_is_the_same(data: bytes, check: bool) -> None:
    assert_same_scan(data, check_crcs=check, base_position=11)
    assert_same_scan(data, check_crcs=check, max_batch_bytes=200)


@needs_kernel
@settings(quick, max_examples=examples(100))
@given(
    before=st.one_of(st.binary(max_size=50), logs(1).map(joined).flatmap(mutations)),
    log=logs(2).map(joined),
    start=st.integers(0, 100),
    bounds=st.one_of(
        st.just({}),
        st.fixed_dictionaries({"min_offset": st.integers(-5, 40), "max_offset": st.integers(0, 99)}),
        st.fixed_dictionaries({"max_batch_bytes": st.sampled_from([61, 200, 1 << 20, 1 << 31])}),
    ),
    torn=st.integers(0, 90),
)
def test_find_batch_is_the_same(
    before: bytes, log: bytes, start: int, bounds: dict[str, int], torn: int
) -> None:
    data = (before + log)[: len(before) + max(0, len(log) - torn)]
    kernel, reference = (
        impl.find_batch(data, start, base_position=5, **bounds) for impl in (KERNEL, REFERENCE)
    )
    assert kernel == reference


@quick
@given(log=logs(4).filter(bool), data=st.data())
def test_a_buffer_may_end_anywhere(impl, log: list[Batch], data: st.DataObject) -> None:
    """Cut the log in two, read the first part, go on where that stopped: the same rows."""
    whole = joined(log)
    cut = data.draw(st.integers(0, len(whole)))
    first = impl.decode(whole[:cut], ALL)
    rest = impl.decode(whole[first.position :], ALL, base_position=first.position)
    assert first.position <= cut or first.status == "end"
    if first.status == "partial":
        assert cut - first.position < first.needed_bytes <= len(whole) - first.position
    assert rows(first.batch) + rows(rest.batch) == rows(impl.decode(whole, ALL).batch)
    assert rest.next_offset is not None or first.next_offset is not None


@quick
@given(log=logs(4), start=small_offsets, end=small_offsets)
def test_a_range_is_a_filter(impl, log: list[Batch], start: int | None, end: int | None) -> None:
    every = offsets(impl.decode(joined(log), ["offset"]).batch)
    actual = offsets(impl.decode(joined(log), ["offset"], start_offset=start, end_offset=end).batch)
    assert actual == [o for o in every if (start is None or o >= start) and (end is None or o < end)]


@quick
@given(log=logs(4), names=columns)
def test_columns_are_independent(impl, log: list[Batch], names: list[str]) -> None:
    every = rows(impl.decode(joined(log), ALL).batch)
    decoded = impl.decode(joined(log), names)
    assert decoded.batch.num_rows == len(every)
    if names:
        assert rows(decoded.batch) == [{name: row[name] for name in names} for row in every]


@quick
@given(log=logs(5), limits=st.tuples(st.integers(0, 8), st.integers(0, 4000)))
def test_limits_only_cut(impl, log: list[Batch], limits: tuple[int, int]) -> None:
    whole, read, at = joined(log), [], 0
    while True:
        decoded = impl.decode(whole[at:], ALL, base_position=at, max_rows=limits[0], max_bytes=limits[1])
        read += rows(decoded.batch)
        if decoded.status != "limit":
            break
        assert decoded.position > at
        at = decoded.position
    assert read == rows(impl.decode(whole, ALL).batch)


@quick
@given(log=logs(3).filter(bool), garbage=st.binary(min_size=1, max_size=80))
def test_find_batch_after_garbage(impl, log: list[Batch], garbage: bytes) -> None:
    at = impl.find_batch(garbage + joined(log), 0)
    assert at is not None
    assert at <= len(garbage)


@pytest.mark.parametrize("names", [ALL, ["offset"]])
def test_damage_does_not_depend_on_columns(impl, names: list[str]) -> None:
    log = v2([Rec()], 1) + v2([Rec(headers=((b"h", b"v"),))], 2, records=b"\x0a\0\0\0\1\1\2")
    assert impl.decode(log, names).damage.kind == "records"
