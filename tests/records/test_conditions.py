"""Conditions on records: what is left are the records that meet them, whoever drops the others."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.records import Pattern, RecordConditions
from tests.builders.batches import LOG_APPEND_TIME, T0, Rec, v2
from tests.builders.strategies import PRODUCERS, Batch, logs, mutations

from .conftest import KERNEL, REFERENCE, needs_kernel
from .rows import ALL, rows
from .test_properties import joined, outcome, quick

keys = st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"k0", b"k1", b"k2"]))
fields = st.lists(st.sampled_from(["key", "value", "headers"]), min_size=1, unique=True).map(tuple)
patterns = st.builds(
    Pattern,
    kind=st.sampled_from(["contains", "prefix"]),
    text=st.one_of(st.binary(max_size=2), st.sampled_from([b"v", b"k", b"\n", b"."])),
    fields=fields,
) | st.builds(
    Pattern,
    kind=st.just("regex"),
    text=st.sampled_from([rb"^k[01]$", rb"v+", rb"(?i)H", rb"\d"]),
    fields=fields,
)
times = st.one_of(st.none(), st.integers(T0 - 5, T0 + 50), st.sampled_from([-1, 0, -(2**63), 2**63 - 1]))
conditions = st.builds(
    RecordConditions,
    min_timestamp_ms=times,
    max_timestamp_ms=times,
    producer_ids=st.none() | st.lists(st.sampled_from([-1, *PRODUCERS]), max_size=2).map(tuple),
    keys=st.none() | st.lists(keys, max_size=3).map(tuple),
    patterns=st.lists(patterns, max_size=2).map(tuple),
)


def meets(row: dict[str, Any], wanted: RecordConditions) -> bool:
    """Say it once more, by the rows of an unconditional decode."""
    lowest, highest = wanted.min_timestamp_ms, wanted.max_timestamp_ms
    if lowest is not None and row["timestamp"] < max(lowest * 1000, -(2**63)):
        return False
    if highest is not None and row["timestamp"] > min(highest * 1000, 2**63 - 1):
        return False
    if wanted.producer_ids is not None and row["producerId"] not in wanted.producer_ids:
        return False
    if wanted.keys is not None and row["key"] not in wanted.keys:
        return False
    return all(any(found(pattern, text) for text in texts(row, pattern)) for pattern in wanted.patterns)


def is_too_old(batch: Batch, wanted: RecordConditions) -> bool:
    """Return whether a batch is skipped by the largest timestamp in its header, even if a record has more."""
    (max_timestamp,) = struct.unpack_from(">q", batch.data.ljust(43), 35)
    lowest = wanted.min_timestamp_ms
    return batch.data[16] == 2 and lowest is not None and max_timestamp < lowest


def texts(row: dict[str, Any], pattern: Pattern) -> list[bytes]:
    in_headers = [part for key, content in row["headers"] or () for part in (key.encode(), content)]
    by_field = {"key": [row["key"]], "value": [row["value"]], "headers": in_headers}
    return [text for name in pattern.fields for text in by_field[name] if text is not None]


def found(pattern: Pattern, text: bytes) -> bool:
    if pattern.kind == "regex":
        return re.search(pattern.text, text) is not None
    return text.startswith(pattern.text) if pattern.kind == "prefix" else pattern.text in text


@given(log=logs(), wanted=conditions)
@quick
def test_the_rows_that_meet_them(impl, log: list[Batch], wanted: RecordConditions) -> None:
    data = joined(log)
    everything = impl.decode(data, ALL)
    some = impl.decode(data, ALL, conditions=impl.Conditions(wanted))
    skipped = {row["offset"] for batch in log if is_too_old(batch, wanted) for row in batch.rows}
    expected = [row for row in rows(everything.batch) if row["offset"] not in skipped and meets(row, wanted)]
    assert outcome(some) == outcome(everything)
    assert rows(some.batch) == expected


@needs_kernel
@given(data=logs(3).map(joined).flatmap(mutations), wanted=conditions, check_crcs=st.booleans())
@quick
def test_both_implementations_on_damaged_logs(
    data: bytes, wanted: RecordConditions, check_crcs: bool
) -> None:
    def decoded(wanted: RecordConditions) -> list[Any]:
        return [
            impl.decode(data, ALL, conditions=impl.Conditions(wanted), check_crcs=check_crcs)
            for impl in (KERNEL, REFERENCE)
        ]

    kernel, reference = decoded(replace(wanted, patterns=()))
    assert outcome(kernel) == outcome(reference)
    assert rows(kernel.batch) == rows(reference.batch)
    kernel, reference = decoded(wanted)
    if wanted.patterns and outcome(kernel) != outcome(reference):
        # The kernel does not parse the records of an uncompressed batch in which no pattern matches anywhere.
        assert reference.damage.kind == "records"
        assert kernel.damage is None or kernel.damage.position > reference.damage.position
        assert rows(kernel.batch)[: reference.batch.num_rows] == rows(reference.batch)
    else:
        assert outcome(kernel) == outcome(reference)
        assert rows(kernel.batch) == rows(reference.batch)


def test_a_batch_without_such_records_is_not_decompressed(impl) -> None:
    """Its records are not a gzip stream, but its checksum is right."""
    batch = v2([Rec(b"k", b"v")], 0, "gzip", compress=lambda _: b"no gzip stream")
    conditions = impl.Conditions(RecordConditions(min_timestamp_ms=T0 + 10_000))
    decoded = impl.decode(batch, ALL, conditions=conditions)
    assert (decoded.status, decoded.next_offset, decoded.batch.num_rows) == ("end", 1, 0)
    assert impl.decode(batch, ALL).status == "damaged"


def test_the_checksum_of_a_skipped_batch_is_checked(impl) -> None:
    batch = bytearray(v2([Rec(b"k", b"v")], 0))
    batch[-1] ^= 1
    conditions = impl.Conditions(RecordConditions(min_timestamp_ms=T0 + 10_000))
    assert impl.decode(bytes(batch), ALL, conditions=conditions).damage.kind == "crc"
    assert impl.decode(bytes(batch), ALL, conditions=conditions, check_crcs=False).status == "end"


def test_append_time_is_the_time_of_all_records(impl) -> None:
    batch = v2(
        [Rec(b"k", b"v")] * 3, 0, "gzip", attributes=LOG_APPEND_TIME, compress=lambda _: b"no gzip stream"
    )
    conditions = impl.Conditions(RecordConditions(max_timestamp_ms=T0 - 10_000))
    assert impl.decode(batch, ALL, conditions=conditions).status == "end"


def test_invalid_regular_expression(impl) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        impl.Conditions(RecordConditions(patterns=(Pattern("regex", b"(", ("value",)),)))
