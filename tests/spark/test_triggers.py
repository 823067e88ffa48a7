"""How far a trigger reads: Spark's formulas, and the limit by bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_spark.options.offset_json import TopicPartition
from kafkalog_spark.read.stream_offsets import from_json, to_json
from kafkalog_spark.read.triggers import delays_trigger, limit_bytes, limit_offsets

PLAIN = (120, 80, 200, 40)


def offsets(*numbers: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", partition): offset for partition, offset in enumerate(numbers)}


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (440, (119, 80, 200, 40)),  # the share is a double: 440 * (120 / 440) is less than 120
        (439, (119, 79, 199, 39)),
        (300, (81, 54, 136, 27)),
        (33, (9, 6, 15, 3)),
        (1, (1, 1, 1, 1)),  # no partition is starved
        (2**63 - 1, PLAIN),
        (0, (0, 0, 0, 0)),
        (-5, (-1, 0, -2, 0)),
    ],
)
def test_limit_offsets(limit: int, expected: tuple[int, ...]) -> None:
    assert limit_offsets(offsets(0, 0, 0, 0), offsets(*PLAIN), limit) == offsets(*expected)


def test_limit_offsets_of_partitions_without_backlog() -> None:
    starts, ends = offsets(10, 20, 30), offsets(10, 40, 25)
    assert limit_offsets(starts, ends, 5) == offsets(10, 25, 25)
    assert limit_offsets(starts, offsets(10, 20, 30), 5) == starts


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8),
    st.integers(1, 3000),
)
def test_limit_offsets_makes_progress(ranges: list[tuple[int, int]], limit: int) -> None:
    starts = offsets(*(start for start, _ in ranges))
    ends = offsets(*(start + size for start, size in ranges))
    limited = limit_offsets(starts, ends, limit)
    for tp, end in ends.items():
        assert starts[tp] <= limited[tp] <= end
        assert (limited[tp] > starts[tp]) == (end > starts[tp])
    assert sum(limited.values()) - sum(starts.values()) <= limit + len(ranges)


@pytest.mark.parametrize(
    ("starts", "ends", "least", "expected"),
    [
        ((0, 0), (50, 49), 100, True),
        ((0, 0), (50, 50), 100, False),
        ((0,), (50, 60), 100, False),  # a new partition counts from 0
        ((100,), (50,), 1, True),
    ],
)
def test_delays_trigger(starts: tuple[int, ...], ends: tuple[int, ...], least: int, expected: bool) -> None:
    assert delays_trigger(offsets(*starts), offsets(*ends), least) is expected


@dataclass(frozen=True)
class Batches:
    """A backlog whose batches have one record and the given sizes."""

    start_offset: int
    sizes: tuple[int, ...]

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.sizes)

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes)

    def first_batches(self, max_bytes: int) -> Batches:
        count = sum(total <= max_bytes for total in accumulate(self.sizes))
        return replace(self, sizes=self.sizes[: max(1, count)])


@pytest.mark.parametrize(
    ("backlogs", "limit", "expected"),
    [
        ([(10, 10), (10, 10)], 40, (2, 2)),
        ([(10, 10), (10, 10)], 20, (1, 1)),
        ([(10, 10), (10, 10)], 39, (1, 1)),
        ([(10, 10), (10, 10)], 10, (1, 0)),  # no part has a batch: partitions get one while bytes are left
        ([(100,), (30, 30)], 1, (0, 1)),  # nothing fits: a single batch, the smallest
        ([(100,), (10, 10, 10, 10)], 70, (0, 2)),
        ([(), (10, 10)], 10, (0, 1)),
    ],
)
def test_limit_bytes(backlogs: list[tuple[int, ...]], limit: int, expected: tuple[int, ...]) -> None:
    logs = {TopicPartition("t", i): Batches(0, sizes) for i, sizes in enumerate(backlogs)}
    assert limit_bytes(logs, limit) == offsets(*expected)


@given(
    st.lists(st.lists(st.integers(1, 50), max_size=8).map(tuple), min_size=1, max_size=6),
    st.integers(1, 300),
)
def test_limit_bytes_reads_all_in_the_end(backlogs: list[tuple[int, ...]], limit: int) -> None:
    logs = {TopicPartition("t", i): Batches(0, sizes) for i, sizes in enumerate(backlogs)}
    while any(log.sizes for log in logs.values()):
        ends = limit_bytes(logs, limit)
        read = [size for tp, log in logs.items() for size in log.sizes[: ends[tp] - log.start_offset]]
        assert read
        assert sum(read) <= limit or len(read) == 1
        logs = {tp: Batches(ends[tp], log.sizes[ends[tp] - log.start_offset :]) for tp, log in logs.items()}


def test_offsets_as_json_have_one_order() -> None:
    tree = {"b": {"10": 1, "9": 2}, "a": {"0": 3}}
    assert list(to_json(from_json(tree))) == ["a", "b"]
    assert list(to_json(from_json(tree))["b"]) == ["9", "10"]
    assert from_json(to_json(from_json(tree))) == from_json(tree)
