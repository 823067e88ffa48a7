"""divide_file: ranges of whole batches."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.batches import Rec, v2
from tests.builders.strategies import logs, mutations
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .test_properties import joined, outcome, quick

if TYPE_CHECKING:
    from native_log.records.results import Divided


def divided(
    impl: Any, data: bytes, range_bytes: int, end: int | None = None, max_rows: int = 1000, **how: Any
) -> Divided:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        end = len(data) if end is None else end
        return impl.divide_file(file.fileno(), 0, end, range_bytes=range_bytes, max_rows=max_rows, **how)


def batch(size_bytes: int) -> bytes:
    """A header with the offset 0, and zeros in the place of records, which are not read."""
    return bytes(8) + (size_bytes - 12).to_bytes(4, "big") + v2([Rec()])[12:61] + bytes(size_bytes - 61)


@pytest.mark.parametrize(
    ("sizes", "ranges"),
    [
        ([], []),
        ([100], [(0, 100)]),
        ([130], [(0, 130)]),  # larger than a range
        ([100, 100, 100], [(0, 100), (100, 200), (200, 300)]),
        ([80, 100, 80, 100], [(0, 180), (180, 360)]),
        ([80, 80, 129, 80], [(0, 160), (160, 289), (289, 369)]),
    ],
)
def test_ranges(impl, sizes: list[int], ranges: list[tuple[int, int]]) -> None:
    range_bytes = 120 if 80 not in sizes else 180
    result = divided(impl, b"".join(map(batch, sizes)), range_bytes)
    assert result.ranges == ranges
    assert (result.status, result.position) == ("end", sum(sizes))


def test_a_batch_that_ends_after_the_end_is_in_no_range(impl) -> None:
    data = batch(100) + batch(120)
    result = divided(impl, data, 1000, end=219)
    assert (result.ranges, result.status, result.position) == ([(0, 100)], "partial", 100)
    assert (result.needed_bytes, result.next_offset) == (120, 1)
    first = divided(impl, data, 1000, end=99)
    assert (first.ranges, first.status, first.position, first.next_offset) == ([], "partial", 0, None)


def test_it_ends_at_max_rows(impl) -> None:
    result = divided(impl, batch(100) * 5, 250, max_rows=3)
    assert (result.ranges, result.status, result.position) == ([(0, 200), (200, 300)], "limit", 300)


def test_large_and_small_batches(impl) -> None:
    """The kernel reads the headers of small batches together, and no bodies of large ones."""
    sizes = [100] * 200 + [50_000] * 3 + [100, 9000, 8192, 8191, 100]
    result = divided(impl, b"".join(map(batch, sizes)), 10_000)
    assert result.ranges[:2] == [(0, 10_000), (10_000, 20_000)]
    assert result.ranges[2:5] == [(20_000, 70_000), (70_000, 120_000), (120_000, 170_000)]
    assert result.ranges[-1][1] == result.position == sum(sizes)


def test_a_file_that_ends_before_its_end(impl) -> None:
    with pytest.raises(EOFError):
        divided(impl, batch(100), 1000, end=200)


@needs_kernel
@settings(quick, max_examples=examples(100))
@given(
    data=st.one_of(logs(4).map(joined), logs(4).map(joined).flatmap(mutations)),
    range_bytes=st.integers(0, 1000),
    max_rows=st.integers(0, 5),
    torn=st.integers(0, 90),
)
def test_kernel_and_reference_are_the_same(data: bytes, range_bytes: int, max_rows: int, torn: int) -> None:
    how = {"end": max(0, len(data) - torn), "max_rows": max_rows, "max_batch_bytes": 5000}
    kernel, reference = (
        divided(KERNEL, data, range_bytes, **how),
        divided(REFERENCE, data, range_bytes, **how),
    )
    assert outcome(kernel) == outcome(reference)
    assert kernel.ranges == reference.ranges
