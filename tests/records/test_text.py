"""format_batches prints what kafka-dump-log prints; the kernel and the reference print the same.

tests/cli/test_dump_log.py compares whole files with the output of Kafka's tool.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.batches import CONTROL, LOG_APPEND_TIME, T0, Rec, marker, v2
from tests.builders.legacy import message
from tests.builders.strategies import Batch, logs, mutations
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .test_properties import joined, outcome, quick

options = st.fixed_dictionaries(
    {},
    optional={
        "records": st.booleans(),
        "record_metadata": st.booleans(),
        "contents": st.booleans(),
        "max_batch_bytes": st.sampled_from([60, 100, 1000, 1 << 28]),
        "base_position": st.sampled_from([0, 1, 2**40]),
    },
)
# Java replaces a surrogate by one U+FFFD, and other bytes that are not UTF-8 as Python does.
texts = st.lists(
    st.sampled_from(
        [b"a", "\u00e9".encode(), b"\xed\xa0\x80", b"\xed\xbf", b"\xff", b"\xe2\x82", b"\n", b"\0"]
    )
).map(b"".join)


def lines(formatted: Any) -> list[str]:
    return bytes(formatted.text).decode().splitlines()


def assert_same(data: bytes, how: dict[str, Any]) -> None:
    kernel, reference = (impl.format_batches(data, **how) for impl in (KERNEL, REFERENCE))
    assert bytes(kernel.text) == bytes(reference.text)
    assert outcome(kernel, how) == outcome(reference, how)
    offsets = [
        (formatted.first_offset, formatted.last_offset, formatted.gaps) for formatted in (kernel, reference)
    ]
    assert offsets[0] == offsets[1]


@needs_kernel
@quick
@given(log=logs(), how=options)
def test_kernel_and_reference_print_the_same(log: list[Batch], how: dict[str, Any]) -> None:
    assert_same(joined(log), how)


@needs_kernel
@settings(quick, max_examples=examples(150))
@given(data=logs(3).map(joined).flatmap(mutations), how=options)
@example(data=v2([Rec()], record_count=2), how={})
@example(data=v2([Rec()], attributes=5), how={})
@example(data=v2([Rec(timestamp=T0)], base_timestamp=2**63 - 1), how={})
@example(data=v2([Rec()], offset=2**63 - 1) + v2([Rec()], offset=-(2**63)), how={})
def test_kernel_and_reference_print_the_same_of_damaged_bytes(data: bytes, how: dict[str, Any]) -> None:
    assert_same(data, how)


@needs_kernel
@quick
@given(contents=st.lists(st.tuples(texts, texts)), name=texts)
def test_kernel_and_reference_replace_the_same_bytes(
    contents: list[tuple[bytes, bytes]], name: bytes
) -> None:
    assert_same(v2([Rec(key, value, ((name, None),)) for key, value in contents]), {})


def test_lines(impl) -> None:
    recs = [
        Rec(b"k", b"v", ((b"a", b"1"), (b"b", None)), T0 + 5),
        Rec(None, b"\xed\xa0\x80\xff", offset_delta=3),
        Rec(b"", None, offset_delta=4),
    ]
    data = v2(recs, 10, producer_id=9, producer_epoch=1, base_sequence=2)
    formatted = impl.format_batches(data, base_position=100)
    batch, *records = lines(formatted)
    assert batch.startswith(
        "baseOffset: 10 lastOffset: 14 count: 3 baseSequence: 2 lastSequence: 6 producerId: 9 "
        "producerEpoch: 1 partitionLeaderEpoch: 0 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: 100 CreateTime: {T0 + 5} size: {len(data)} magic: 2 "
        "compresscodec: none crc: "
    )
    assert batch.endswith(" isvalid: true")
    first, second, third = records
    assert first == (
        f"| offset: 10 CreateTime: {T0 + 5} keySize: 1 valueSize: 1 sequence: 2 headerKeys: [a,b] "
        "key: k payload: v"
    )
    assert second == (
        f"| offset: 13 CreateTime: {T0} keySize: -1 valueSize: 4 sequence: 5 headerKeys: [] "
        "payload: \ufffd\ufffd"
    )
    assert third == (
        f"| offset: 14 CreateTime: {T0} keySize: 0 valueSize: -1 sequence: 6 headerKeys: [] key: "
    )
    assert (formatted.first_offset, formatted.last_offset, formatted.gaps) == (10, 14, [(10, 13)])
    assert (formatted.status, formatted.position, formatted.next_offset) == ("end", 100 + len(data), 15)


def test_options(impl) -> None:
    records = [Rec(b"k", b"v"), Rec(None, None), Rec(None, b"v"), Rec(b"k", None)]
    data = v2(records, attributes=LOG_APPEND_TIME, max_timestamp=7)
    both = lines(impl.format_batches(data))
    assert lines(impl.format_batches(data, records=False)) == both[:1]
    assert lines(impl.format_batches(data, contents=False))[1:] == [
        "| offset: 0 LogAppendTime: 7 keySize: 1 valueSize: 1 sequence: -1 headerKeys: []",
        "| offset: 1 LogAppendTime: 7 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
        "| offset: 2 LogAppendTime: 7 keySize: -1 valueSize: 1 sequence: -1 headerKeys: []",
        "| offset: 3 LogAppendTime: 7 keySize: 1 valueSize: -1 sequence: -1 headerKeys: []",
    ]
    assert lines(impl.format_batches(data, record_metadata=False))[1:] == [
        "| key: k payload: v",
        "",
        " payload: v",
        "| key: k",
    ]


@pytest.mark.parametrize("following", [message(1, 3), marker(3, 7), v2([], 3, attributes=CONTROL)])
def test_stops_before_a_batch_that_it_does_not_print(impl, following: bytes) -> None:
    data = v2([Rec()] * 3)
    formatted = impl.format_batches(data + following)
    assert (formatted.status, formatted.position, formatted.next_offset) == ("limit", len(data), 3)
    assert len(lines(formatted)) == 4


def test_of_a_damaged_batch_the_records_before_the_damage_are_printed(impl) -> None:
    whole, damaged = v2([Rec()]), v2([Rec(), Rec()], 5, record_count=3)
    formatted = impl.format_batches(whole + damaged)
    assert [line.split()[:3] for line in lines(formatted)[3:]] == [
        ["|", "offset:", "5"],
        ["|", "offset:", "6"],
    ]
    assert formatted.status == "damaged"
    assert (formatted.damage.kind, formatted.damage.position) == ("records", len(whole))
    assert (formatted.first_offset, formatted.last_offset, formatted.gaps) == (0, 6, [(0, 5)])


def test_a_wrong_crc_is_printed(impl) -> None:
    assert lines(impl.format_batches(v2([Rec()], crc=1)))[0].endswith(" crc: 1 isvalid: false")
