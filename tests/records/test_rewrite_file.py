"""rewrite_file: what rewrite makes of the same bytes, up to what has to be judged."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.batches import COMMIT, Rec, marker, v2
from tests.builders.legacy import message
from tests.builders.strategies import Batch, logs, mutations

from .conftest import KERNEL, REFERENCE, needs_kernel
from .test_compaction_properties import filters, same_rewritten

if TYPE_CHECKING:
    from native_log.records import Rewritten

LARGE = b"v" * (70 << 10)
HOW: dict[str, Any] = {"now_ms": 0, "delete_horizon_ms": None}


def rewritten(
    impl: Any, data: bytes, survivors: range | set[int], position: int = 0, end: int | None = None, **how: Any
) -> Rewritten:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return impl.rewrite_file(
            file.fileno(),
            position,
            len(data) if end is None else end,
            survivors=impl.Survivors(survivors),
            **{"survivors_end": 1 << 40, **HOW, **how},
        )


def large(offset: int) -> bytes:
    return v2([Rec(value=LARGE), Rec(offset_delta=1, value=b"small")], offset)


@pytest.mark.parametrize(
    "survivors", [range(0), range(100), {0, 1}, {2}, {5, 40}, {6, 7}, {20, 33}, set(range(10, 60))]
)
def test_large_and_small_batches(impl, survivors: range | set[int]) -> None:
    small = b"".join(message(1, offset, value=b"v" * 100) for offset in range(8, 30))
    small += b"".join(v2([Rec(), Rec(offset_delta=1)], offset) for offset in range(30, 50, 2))
    data = large(0) + large(2) + large(4) + large(6) + small + large(60) + large(62)
    actual = rewritten(impl, data, survivors)
    expected = impl.rewrite(data, survivors=impl.Survivors(survivors), survivors_end=1 << 40, **HOW)
    assert actual == expected
    # From a batch on, and only up to a part of one: it is dropped by its header, or missed.
    position, end = len(large(0)), len(data) - 5
    part = rewritten(impl, data, survivors, position, end)
    again = impl.rewrite(
        data[position:end],
        base_position=position,
        survivors=impl.Survivors(survivors),
        survivors_end=1 << 40,
        **HOW,
    )
    assert part == again
    assert part.position == len(data) if part.status == "end" else part.needed_bytes == len(large(62))


def test_it_ends_before_a_batch_that_needs_a_verdict(impl) -> None:
    batches = [
        large(0),
        large(2),
        v2([Rec()], 4, producer_id=7, attributes=16),
        marker(5, 7, COMMIT),
        large(6),
    ]
    data = b"".join(batches)
    ends = [sum(map(len, batches[:count])) for count in range(6)]
    whole = rewritten(impl, data, range(100))
    assert (whole.status, whole.position, whole.next_offset) == ("end", ends[5], 8)
    result = rewritten(impl, data, range(100), judged=[])
    assert (result.status, result.position, result.next_offset, result.data) == (
        "limit",
        ends[2],
        4,
        data[: ends[2]],
    )
    result = rewritten(impl, data, {6}, judged=[0, 3, 9])  # 0 is not a last offset
    assert (result.status, result.position, bytes(result.data)) == ("limit", ends[1], b"")
    for start in ends[1:4]:
        result = rewritten(impl, data, range(100), start, judged=[3])
        assert (result.status, result.position, result.next_offset) == ("limit", start, None)
    assert rewritten(impl, data, range(100), ends[4], judged=[3]).data == batches[4]


def test_it_ends_before_too_many_bytes(impl) -> None:
    data = large(0) + large(2) + large(4)
    for max_bytes in (1, len(large(0))):
        result = rewritten(impl, data, range(100), max_bytes=max_bytes)
        assert (result.status, result.position, result.next_offset) == ("limit", len(large(0)), 2)
        assert result.data == large(0)
    assert rewritten(impl, data, {4}, max_bytes=1).status == "end"


def test_a_file_that_ends_too_early(impl) -> None:
    with pytest.raises(EOFError):
        rewritten(impl, large(0), range(100), end=2 * len(large(0)))
    with pytest.raises(OSError, match="Bad file descriptor"):
        impl.rewrite_file(-1, 0, 1, survivors=impl.Survivors(), survivors_end=0, **HOW)
    with pytest.raises(ValueError, match="expected a delete_horizon_ms of 0 or more, found -1"):
        rewritten(impl, large(0), range(0), delete_horizon_ms=-1)


@needs_kernel
@settings(deadline=None)
@given(logs(4), st.data())
def test_kernel_and_reference_agree(batches: list[Batch], data: st.DataObject) -> None:
    log = b"".join(batch.data for batch in batches)
    if data.draw(st.booleans()):
        log = data.draw(mutations(log))
    if data.draw(st.booleans()):  # what follows is not read with it
        log = large(0) + log
    how = data.draw(filters(batches))
    survivors = how.pop("survivors")
    for name in ("nulled", "verdicts", "base_position"):
        how.pop(name, None)
    how["judged"] = data.draw(st.none() | st.lists(st.integers(0, 20)).map(sorted))
    how["max_bytes"] = data.draw(st.sampled_from([1 << 30, 300]))
    same_rewritten(*(rewritten(impl, log, survivors, **how) for impl in (KERNEL, REFERENCE)))
