"""The order of offsets: a batch that is there twice, or whose base offset was altered, is damaged."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.records import OffsetOrder
from tests.builders.batches import Rec, v2
from tests.builders.legacy import message, wrapper
from tests.builders.strategies import logs, mutations
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .keywords import mark, put_batches
from .rows import offsets
from .test_properties import joined, outcome, quick

NO_END = 2**63 - 1


def batch(offset: int, count: int = 3) -> bytes:
    return v2([Rec(value=b"%d" % offset)] * count, offset)


def at(data: bytes, offset: int) -> bytes:
    """The same batch with another base offset, which its CRC does not tell."""
    return offset.to_bytes(8, "big", signed=True) + data[8:]


def wrapped(first: int, last: int) -> bytes:
    inner = [message(1, delta) for delta in range(last - first + 1)]
    return wrapper(1, inner, last, "gzip")


def calls(impl: Any, data: bytes, end: int | None, order: tuple[int, int], **how: Any) -> list[Any]:
    """Return the result of each function for the bytes up to `end`, in a file with all of `data`."""
    end = len(data) if end is None else end
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        known = OffsetOrder(*order, file.fileno())
        return [
            impl.scan(data[:end], order=known, **how),
            impl.scan_headers(file.fileno(), 0, end, max_rows=1000, order=known, **how),
            impl.decode(data[:end], ["offset"], order=known, **how),
            impl.decode_file(file.fileno(), 0, end, ["offset"], order=known, **how),
            put_batches(impl.OffsetMap(1 << 20), data[:end], order=known, **how),
            mark(impl.OffsetMap(1 << 20), data[:end], impl.Survivors(), order=known, **how),
            put_batches(impl.KeyBuckets(2, 1 << 20, dirty=True), data[:end], order=known, **how),
        ]


def stops(impl: Any, parts: list[bytes], end: int = NO_END, start: int = 0) -> int | None:
    """Which of `parts` is not in order, as all functions say; None: all are."""
    data = b"".join(parts)
    places = {
        None if result.damage is None else (result.damage.kind, result.position)
        for result in calls(impl, data, None, (start, end))
    }
    assert len(places) == 1
    (stop,) = places
    if stop is None:
        return None
    kind, position = stop
    assert kind == "order"
    begins = [sum(map(len, parts[:i])) for i in range(len(parts))]
    return begins.index(position)


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ([batch(0), batch(3), batch(6)], None),
        ([batch(0), batch(50), batch(53), batch(900)], None),  # as compaction leaves it
        ([batch(0), batch(0), batch(3)], 1),
        ([batch(0), batch(3), batch(0), batch(3), batch(6)], 2),
        ([batch(0), batch(3), batch(5), batch(8)], 2),  # overlaps by one
        ([batch(0), at(batch(3), 1003), batch(6), batch(9)], 1),
        ([batch(0), at(batch(3), 5), batch(6), batch(9)], 1),
        ([batch(0), at(batch(3), 1003), batch(6)], 1),
        ([batch(0), at(batch(3), 1003)], None),  # nothing shows it
        ([batch(0), batch(50), at(batch(53), 20), batch(56)], 2),  # lowered into a gap
        ([batch(0), at(batch(50), 70), batch(53), batch(56)], 1),
        ([batch(0), batch(3), at(batch(6), -9), batch(9)], 2),
        ([batch(0), batch(3), b"\0" * 500], None),
        ([batch(0), batch(30), b"\x07" * 500], None),
        ([message(1, 0), message(1, 1), message(1, 1), message(1, 2)], 2),
        ([message(0, 0), message(0, 9), message(0, 1), message(0, 2)], 1),
        ([wrapped(0, 2), wrapped(3, 5)], None),
        ([at(wrapped(0, 2), 9), message(1, 3), message(1, 4)], 0),
        ([wrapped(0, 2), wrapped(0, 2)], 1),
    ],
)
def test_what_is_not_in_order(impl: Any, parts: list[bytes], wrong: int | None) -> None:
    data = b"".join(parts)
    if wrong is None and parts[-1][16:17] not in (b"\1", b"\2"):
        results = calls(impl, data, None, (0, NO_END))
        assert all(result.damage is None or result.damage.kind != "order" for result in results)
    else:
        assert stops(impl, parts) == wrong


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ([wrapped(0, 4), wrapped(3, 8)], 1),
        ([batch(0), wrapped(2, 8)], 1),
        ([wrapped(0, 4), message(1, 5), wrapped(6, 8)], None),
        ([wrapped(0, 4), wrapped(20, 30)], None),
    ],
)
def test_the_records_of_a_wrapper_are_in_order_too(impl: Any, parts: list[bytes], wrong: int | None) -> None:
    """The header of a wrapper has its last offset only, so this is found only by reading the records."""
    position = None if wrong is None else sum(map(len, parts[:wrong]))
    scan, scan_headers, *others = calls(impl, b"".join(parts), None, (0, NO_END))
    assert scan.damage is scan_headers.damage is None
    for result in others:
        assert (None if result.damage is None else result.damage.position) == position
        assert result.damage is None or result.damage.kind == "order"


@pytest.mark.parametrize("inner", [(0, 2, 1), (0, 1, 1)])
def test_offsets_within_a_wrapper_increase(impl: Any, inner: tuple[int, ...]) -> None:
    data = wrapper(1, [message(1, offset) for offset in inner], 2, "gzip")
    decoded = impl.decode(data, ["offset"])
    assert decoded.damage.kind == "records"
    assert decoded.damage.message == "expected increasing offsets in a compressed message, found others"


@pytest.mark.parametrize("wrong", [at(batch(3), NO_END - 1), v2([Rec()], 3, last_offset_delta=-2)])
def test_the_last_offset_is_not_below_the_first(impl: Any, wrong: bytes) -> None:
    """Be it that it is beyond the greatest number."""
    assert stops(impl, [batch(0), wrong]) == 1


def test_the_bounds(impl: Any) -> None:
    parts = [batch(10), batch(13), batch(16)]
    assert stops(impl, parts, start=10, end=19) is None
    assert stops(impl, parts, start=11) == 0
    assert stops(impl, parts, end=18) == 2
    assert stops(impl, parts, end=13) == 1


def test_an_unset_offset_is_not_checked(impl: Any) -> None:
    unset = wrapper(1, [message(1, offset) for offset in (3, 4)], 0, "gzip")
    assert stops(impl, [batch(0), unset, batch(5)]) is None
    scanned, of_headers, decoded, of_file, *_ = calls(impl, batch(0) + unset, None, (0, NO_END))
    assert (scanned.next_offset, of_headers.next_offset) == (3, 3)
    assert (decoded.next_offset, of_file.next_offset) == (5, 5)


@pytest.mark.parametrize("large", [False, True])
def test_the_header_after_the_buffer_is_read_from_the_file(impl: Any, large: bool) -> None:
    """However a file is cut into calls, the same batch is damaged."""
    filler = v2([Rec(value=bytes(range(256)) * 1200)], 2) if large else batch(0, 3)
    parts = [filler, at(batch(3), 1003), batch(6), batch(9)]
    data, begin = b"".join(parts), len(filler)
    for result in calls(impl, data, begin + len(parts[1]), (0, NO_END)):
        assert (result.status, result.position, result.damage.kind) == ("damaged", begin, "order")
        assert "from 3 to before 6" in result.damage.message


def test_skipped_batches_are_checked_too(impl: Any) -> None:
    data = b"".join([batch(0), at(batch(3), 1003), batch(6)])
    for how in ({"end_offset": 100}, {"start_offset": 5000}):
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            order = OffsetOrder(0, NO_END, file.fileno())
            for result in (
                impl.decode(data, ["offset"], order=order, **how),
                put_batches(impl.OffsetMap(1000), data, order=order, **how),
            ):
                assert (result.status, result.position) == ("damaged", len(batch(0)))


def test_a_batch_with_a_wrong_crc_does_not_change_the_order(impl: Any) -> None:
    """Its last offset may be wrong: the caller continues after it with what was known before."""
    lying = bytearray(batch(3))
    lying[23:27] = (5000).to_bytes(4, "big")  # last offset delta
    data = b"".join([batch(0), bytes(lying), batch(6)])
    *_, decoded, _, _, _, _ = calls(impl, data, None, (0, NO_END))
    assert (decoded.damage.kind, decoded.position, decoded.next_offset) == ("crc", len(batch(0)), 3)


def test_without_an_order_all_batches_are_read(impl: Any) -> None:
    data = b"".join([batch(3), batch(3), at(batch(6), 1006), batch(9)])
    assert impl.scan(data).batches.column("baseOffset").to_pylist() == [3, 3, 1006, 9]
    assert offsets(impl.decode(data, ["offset"]).batch) == [*range(3, 6)] * 2 + [1006, 1007, 1008, 9, 10, 11]


@st.composite
def shuffled_logs(draw: st.DrawFn) -> bytes:
    parts = [part.data for part in draw(logs(5))]
    for _ in range(draw(st.integers(0, 3))):
        if parts:
            index = draw(st.integers(0, len(parts) - 1))
            what = draw(st.sampled_from(["twice", "moved", "gone"]))
            if what == "twice":
                parts.insert(draw(st.integers(0, len(parts))), parts[index])
            elif what == "moved":
                parts[index] = at(parts[index], draw(st.integers(-5, 60)))
            else:
                parts.pop(index)
    return b"".join(parts)


@needs_kernel
@settings(quick, max_examples=examples(100))
@given(
    st.one_of(shuffled_logs(), logs(4).map(joined).flatmap(mutations)),
    st.integers(-3, 30),
    st.integers(0, 100),
    st.integers(0, 90),
)
def test_both_implementations_agree(data: bytes, start: int, end: int, torn: int) -> None:
    stop, how = max(0, len(data) - torn), {"max_batch_bytes": 5000}
    both = zip(*(calls(impl, data, stop, (start, end), **how) for impl in (KERNEL, REFERENCE)), strict=True)
    for ours, theirs in both:
        assert outcome(ours) == outcome(theirs)
