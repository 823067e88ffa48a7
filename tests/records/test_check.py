"""check_file: the result of a scan with CRCs, and which batches have invalid records."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from native_log.records import OffsetOrder
from tests.builders.batches import Rec, v2, with_right_crc
from tests.builders.legacy import message, wrapper
from tests.builders.strategies import Batch, logs, mutations
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .test_properties import joined, outcome, quick

if TYPE_CHECKING:
    from native_log.records.results import Checked

NO_END = 2**63 - 1
RECS = [Rec()] * 3


def with_magic(magic: int) -> bytes:
    """Return a batch of magic 2 with the offsets 3 to 5 and another magic, which no CRC covers."""
    batch = bytearray(v2(RECS, 3))
    batch[16] = magic
    return bytes(batch)


def checked(
    impl: Any,
    data: bytes,
    position: int = 0,
    end: int | None = None,
    next_offset: int | None = None,
    **how: Any,
) -> Checked:
    """Check these bytes as a file. `next_offset`: that of the order; None: check without an order."""
    limits = {"check_records": True, "max_rows": 1000, "max_bytes": 1 << 30}
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        order = None if next_offset is None else OffsetOrder(next_offset, NO_END, file.fileno())
        end = len(data) if end is None else end
        return impl.check_file(file.fileno(), position, end, **{**limits, "order": order, **how})


@quick
@given(log=logs())
def test_a_log_as_it_was_written_is_valid(impl, log: list[Batch]) -> None:
    data = joined(log)
    result = checked(impl, data, next_offset=0)
    assert (result.status, result.position, result.invalid_records) == ("end", len(data), [])
    assert result.batches.equals(impl.scan(data, check_crcs=True).batches)


@needs_kernel
@settings(quick, max_examples=examples(150))
@given(
    data=logs(4).map(joined).flatmap(mutations),
    torn=st.integers(0, 90),
    next_offset=st.sampled_from([None, 0, 5, 6, 2**62]),
    how=st.fixed_dictionaries(
        {},
        optional={
            "max_rows": st.integers(0, 4),
            "max_bytes": st.integers(0, 500),
            "max_batch_bytes": st.sampled_from([60, 1000, 5000]),
            "check_records": st.booleans(),
            "accept_newer": st.booleans(),
        },
    ),
)
@example(data=v2(RECS, offset=2**63 - 3) + v2(RECS, offset=2**63 - 1), torn=0, next_offset=None, how={})
@example(data=v2(RECS) + v2(RECS, offset=1), torn=0, next_offset=None, how={})
@example(data=v2(RECS) + with_magic(3), torn=0, next_offset=0, how={"accept_newer": True})
@example(data=v2(RECS) + with_magic(3), torn=9, next_offset=0, how={"accept_newer": True})
@example(data=with_magic(3), torn=0, next_offset=5, how={"accept_newer": True})
@example(data=with_magic(3), torn=0, next_offset=0, how={"accept_newer": True, "max_batch_bytes": 60})
def test_kernel_and_reference_are_the_same(
    data: bytes, torn: int, next_offset: int | None, how: dict[str, Any]
) -> None:
    arguments = {"end": max(0, len(data) - torn), "next_offset": next_offset, **how}
    kernel, reference = checked(KERNEL, data, **arguments), checked(REFERENCE, data, **arguments)
    assert outcome(kernel) == outcome(reference)
    assert kernel.batches.to_pylist() == reference.batches.to_pylist()
    assert kernel.invalid_records == reference.invalid_records


@quick
@given(log=logs(), data=st.data())
def test_the_limits_do_not_change_the_result(impl, log: list[Batch], data: st.DataObject) -> None:
    damaged = data.draw(mutations(joined(log)))
    whole = checked(impl, damaged, next_offset=0)
    limits = {"max_rows": data.draw(st.integers(1, 3)), "max_bytes": data.draw(st.integers(1, 300))}
    position, next_offset, rows, invalid = 0, 0, [], []
    while True:
        part = checked(impl, damaged, position, next_offset=next_offset, **limits)
        rows += part.batches.to_pylist()
        invalid += part.invalid_records
        is_wrong = bool(rows) and not rows[-1]["isValid"]
        position, next_offset = part.position, max(next_offset, part.next_offset or 0)
        if part.status != "limit" or is_wrong:
            break
        assert 1 <= part.batches.num_rows <= limits["max_rows"]
    assert rows == whole.batches.to_pylist()
    assert (part.status, part.position) == (whole.status, whole.position)
    # A wrapper of magic 1 without an offset ends at offset 0, before the batches that precede it.
    if not any(row["magic"] == 1 and row["lastOffset"] == 0 for row in rows):
        assert invalid == whole.invalid_records


@pytest.mark.parametrize(
    "invalid",
    [
        v2(RECS, 2),  # not after the batch before
        v2([Rec(), Rec(offset_delta=0)], 3, last_offset_delta=1),
        v2([Rec(), Rec(offset_delta=5)], 3, last_offset_delta=4),
        v2([Rec(offset_delta=-1), Rec(offset_delta=1)], 4),
        v2(RECS, 3, record_count=4),
        v2(RECS, 3, attributes=5),
        message(1, 2),
        wrapper(1, [message(1, 0), message(1, 0)], 4, "gzip"),
    ],
)
def test_invalid_records(impl, invalid: bytes) -> None:
    valid = v2(RECS)
    result = checked(impl, valid + invalid + v2(RECS, 10))
    assert result.invalid_records == [len(valid)]
    assert result.batches.column("isValid").to_pylist() == [True] * 3
    assert checked(impl, valid + invalid, check_records=False).invalid_records == []


def test_a_batch_of_a_newer_magic(impl) -> None:
    data = v2(RECS) + with_magic(3) + v2(RECS, 6)
    result = checked(impl, data, next_offset=0, accept_newer=True)
    assert (result.status, result.next_offset) == ("end", 9)
    assert result.batches.column("isValid").to_pylist() == [True] * 3
    assert result.invalid_records == [len(v2(RECS))]
    assert checked(impl, data, accept_newer=True, check_records=False).invalid_records == []
    assert checked(impl, data).damage.kind == "magic"


@pytest.mark.parametrize("batch", [with_magic(3)[:-1] + b"!", with_magic(127)[:-1] + b"!", with_magic(255)])
def test_a_batch_of_a_newer_magic_is_damaged_without_a_right_checksum(impl, batch: bytes) -> None:
    result = checked(impl, v2(RECS) + batch + v2(RECS, 6), accept_newer=True)
    assert (result.status, result.position, result.damage.kind) == ("damaged", len(v2(RECS)), "magic")


def test_a_batch_of_a_newer_magic_is_in_order(impl) -> None:
    result = checked(impl, v2(RECS, 6) + with_magic(3), next_offset=6, accept_newer=True)
    assert (result.position, result.damage.kind) == (len(v2(RECS)), "order")


def test_records_follow_those_before_the_call(impl) -> None:
    inner = wrapper(1, [message(1, 0), message(1, 1)], 6, "gzip")  # offsets 5 and 6
    assert checked(impl, inner, next_offset=5).invalid_records == []
    assert checked(impl, inner, next_offset=6).invalid_records == [0]


def test_it_ends_after_a_wrong_crc(impl) -> None:
    first, wrong = v2(RECS), bytearray(v2(RECS, 3))
    wrong[-1] ^= 1
    result = checked(impl, first + wrong + v2(RECS, 6))
    assert (result.status, result.position, result.next_offset) == ("limit", len(first + wrong), 6)
    assert result.batches.column("isValid").to_pylist() == [True, False]
    assert result.invalid_records == []
    assert checked(impl, first + wrong).status == "end"


def test_a_large_batch_is_read_as_a_whole(impl) -> None:
    small, large = v2(RECS), v2([Rec(value=b"v" * 3_000_000)], 3)
    data = small + large + v2(RECS, 4) * 2
    result = checked(impl, data, max_bytes=len(small) + 1)
    assert (result.status, result.position) == ("limit", len(small + large))
    assert checked(impl, data).invalid_records == [len(small + large + v2(RECS, 4))]
    torn = checked(impl, data, end=len(small) + 100)
    assert (torn.status, torn.position, torn.needed_bytes) == ("partial", len(small), len(large))


@pytest.mark.parametrize(
    ("data", "end", "status", "needed"),
    [
        (b"", 0, "end", 0),
        (bytes(500), 500, "zeros", 0),
        (bytes(93) + b"\1" * 50, 143, "zeros", 0),  # of no more bytes is this known
        (v2(RECS), 16, "partial", 17),
        (v2(RECS), 60, "partial", 61),
        (v2(RECS), 61, "partial", len(v2(RECS))),
        (with_right_crc(v2(RECS)[:16] + b"\7" + v2(RECS)[17:]), None, "damaged", 0),
    ],
)
def test_where_it_stops(impl, data: bytes, end: int | None, status: str, needed: int) -> None:
    result = checked(impl, data, end=end)
    assert (result.status, result.needed_bytes, result.position) == (status, needed, 0)
    assert result.batches.num_rows == 0


def test_a_file_that_ends_before_its_end(impl) -> None:
    with pytest.raises(EOFError):
        checked(impl, v2(RECS), end=len(v2(RECS)) + 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        impl.check_file(-1, 0, 100, check_records=True, max_rows=1, max_bytes=1)
