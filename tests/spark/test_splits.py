"""Dividing ranges. The numbers in the tables are from Spark's own tests and from recordings of Spark."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_spark.errors import OptionError
from kafkalog_spark.read.offsets import OffsetRange
from kafkalog_spark.read.splits import cut, divide, divide_ranges, needs_division, pack, target_bytes

MIB = 1 << 20


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", i, 0, size) for i, size in enumerate(sizes)]


def sizes(divided: list[OffsetRange]) -> list[list[int]]:
    by_partition: dict[int, list[int]] = {}
    for r in divided:
        by_partition.setdefault(r.partition, []).append(r.size)
    return [by_partition[p] for p in sorted(by_partition)]


@pytest.mark.parametrize(
    ("size", "parts", "expected"),
    [(10, 3, [3, 3, 4]), (49, 3, [16, 16, 17]), (3, 100, [1, 1, 1]), (5, 1, [5]), (0, 3, [])],
)
def test_divide(size: int, parts: int, expected: list[int]) -> None:
    assert [r.size for r in divide(OffsetRange("t", 0, 0, size), parts)] == expected


@pytest.mark.parametrize(
    ("min_partitions", "max_records", "message"),
    [
        (None, 5, "maxRecordsPerPartition=5 makes 439804651112 tasks"),
        (2**40, None, "minPartitions=1099511627776 makes 1099511627776 tasks"),
    ],
)
def test_too_many_tasks(min_partitions: int | None, max_records: int | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        divide_ranges(ranges(2**40, 2**40), min_partitions, max_records)


@pytest.mark.parametrize(
    ("given_sizes", "min_partitions", "max_records", "expected"),
    [
        ([500, 12000, 15001], 6, None, [[500], [6000, 6000], [5000, 5000, 5001]]),
        ([1, 1, 10000], 6, None, [[1], [1], [2500] * 4]),
        ([5], None, 4, [[2, 3]]),
        ([39], 4, 20, [[9, 10, 10, 10]]),
        ([10, 20], 2, None, [[10], [20]]),
        ([0, 20, -5], 2, None, [[10, 10]]),
        ([1500, 30, 3, 0], 100, None, [[15] * 52 + [16] * 45, [15, 15], [3]]),
    ],
)
def test_divide_ranges(
    given_sizes: list[int], min_partitions: int | None, max_records: int | None, expected: list[list[int]]
) -> None:
    divided = sizes(divide_ranges(ranges(*given_sizes), min_partitions, max_records))
    assert divided == expected


def test_halves_are_rounded_up() -> None:
    # The shares are 2.5 and 1.5. Java rounds them to 3 and 2; rounding half to even would give 2 and 2.
    assert sizes(divide_ranges(ranges(50, 30), 4, None)) == [[16, 17, 17], [15, 15]]


def test_needs_division() -> None:
    assert needs_division(ranges(5, 5), 3, None)
    assert not needs_division(ranges(5, 5), 2, None)
    assert needs_division(ranges(5, 6), None, 5)
    assert not needs_division(ranges(5, 5), None, 5)


some_ranges = st.lists(
    st.builds(lambda start, size: (start, start + size), st.integers(0, 2**60), st.integers(-3, 5000)),
    max_size=8,
).map(lambda pairs: [OffsetRange("t", i, start, end) for i, (start, end) in enumerate(pairs)])
limits = st.none() | st.integers(1, 200)


@given(some_ranges, limits, limits)
def test_parts_cover_the_ranges_without_overlap(
    whole: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    divided = divide_ranges(whole, min_partitions, max_records)
    for r in whole:
        parts = [part for part in divided if part.topic_partition == r.topic_partition]
        if r.size <= 0:
            assert not parts
            continue
        assert [part.start for part in parts] == [r.start, *(part.end for part in parts[:-1])]
        assert parts[-1].end == r.end
        assert all(part.size > 0 for part in parts)
        assert max_records is None or all(part.size <= max_records for part in parts)


@given(st.integers(0, 100), st.integers(0, 100), st.lists(st.integers(-10, 220)).map(sorted))
def test_cut(start: int, size: int, offsets: list[int]) -> None:
    parts = cut(OffsetRange("t", 0, start, start + size), dict.fromkeys(offsets))
    assert [part.start for part in parts] == [start, *(part.end for part in parts[:-1])]
    assert parts[-1].end == start + size
    assert {part.start for part in parts[1:]} == {o for o in offsets if start < o < start + size}


@given(st.lists(st.integers(0, 50)), st.integers(1, 60))
def test_pack(costs: list[int], max_cost: int) -> None:
    packed = pack(costs, lambda cost: cost, max_cost)
    assert [cost for group in packed for cost in group] == costs
    assert all(len(group) == 1 or sum(group) <= max_cost for group in packed)
    assert all(sum(group) + following[0] > max_cost for group, following in itertools.pairwise(packed))


@pytest.mark.parametrize(
    ("total", "cores", "expected"),
    [(1000 * MIB, 4, 128 * MIB), (256 * MIB, 4, 64 * MIB), (10 * MIB, 4, 16 * MIB), (1, 64, 16 * MIB)],
)
def test_target_bytes(total: int, cores: int, expected: int) -> None:
    assert target_bytes([total], 128 * MIB, cores) == expected


def test_target_bytes_is_never_above_the_limit() -> None:
    assert target_bytes([MIB], 1000, 4) == 1000
