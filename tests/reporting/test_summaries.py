"""Sums by topic, by size and over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.reporting.partitions import Limits, every_nth, with_next_times
from native_log.reporting.summaries import by_topic, size_classes, split_top, time_bins
from tests.reporting.examples import DAY_MS, HOUR_MS, NOW_MS, partition


def test_topics_are_sorted_by_size() -> None:
    topics = by_topic(
        [
            partition("a", 0, size_bytes=10),
            partition("b", 0, size_bytes=100, first_timestamp_ms=5),
            partition("b", 1, size_bytes=500, last_timestamp_ms=None, segment_sizes=(), segment_times_ms=()),
        ]
    )
    assert [(topic.topic, topic.sizes, topic.offsets) for topic in topics] == [
        ("b", (100, 500), 200),
        ("a", (10,), 100),
    ]
    assert topics[0].first_timestamp_ms == 5
    assert topics[0].skew == pytest.approx(500 / 300)
    assert topics[0].median_bytes == 300


def test_an_empty_topic_has_no_skew() -> None:
    assert by_topic([partition(size_bytes=0)])[0].skew == 1.0


@pytest.mark.parametrize(
    ("number", "shown"), [(0, 0), (5, 5), (6, 6), (7, 5)], ids=["none", "limit", "one more", "two more"]
)
def test_one_other_is_shown(number: int, shown: int) -> None:
    first, others = split_top(range(number), 5)
    assert (len(first), len(others)) == (shown, number - shown)


@given(st.lists(st.integers(0, 2**45), min_size=1))
def test_each_size_is_in_one_class(sizes: list[int]) -> None:
    classes = size_classes(sizes)
    assert sum(count for *_, count in classes) == len(sizes)
    assert classes[0][2] > 0 and classes[-1][2] > 0
    assert len(classes) <= 25
    for low, high, count in classes:
        assert count == sum(low <= size < high for size in sizes)


def test_no_partitions_have_no_classes() -> None:
    assert size_classes([]) == []


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 4 * 10**12) | st.none()), max_size=30))
def test_each_byte_has_one_place_in_time(segments: list[tuple[int, int | None]]) -> None:
    sizes, times = tuple(size for size, _ in segments), tuple(time for _, time in segments)
    bins = time_bins([partition(segment_sizes=sizes, segment_times_ms=times)], NOW_MS)
    assert sum(bins.sizes) + bins.undated_bytes + bins.future_bytes == sum(size for size, _ in segments)
    assert len(bins.sizes) <= 60
    for start, size_bytes in zip(bins.starts_ms, bins.sizes, strict=True):
        expected = (
            size for size, time in segments if time is not None and start <= time < start + bins.width_ms
        )
        assert size_bytes == sum(expected)


def test_times_in_the_future_are_apart() -> None:
    times = NOW_MS + 2 * DAY_MS, NOW_MS, None
    bins = time_bins([partition(segment_sizes=(1, 2, 4), segment_times_ms=times)], NOW_MS)
    assert (bins.sizes, bins.future_bytes, bins.undated_bytes) == ((2,), 1, 4)


@given(st.integers(0, 500), st.integers(1, 100))
def test_indexes_are_read_at_equal_distances(count: int, at_most: int) -> None:
    chosen = every_nth(count, at_most)
    assert len(chosen) <= at_most
    assert not count or chosen[-1] == count - 1
    assert count > at_most or list(chosen) == list(range(count))


def test_effort_is_divided_among_partitions() -> None:
    few, many = Limits.for_partitions(10), Limits.for_partitions(10_000)
    assert few.indexes > 1000 > many.indexes >= 2
    assert few.transaction_bytes > many.transaction_bytes > 0


def test_an_unknown_time_is_that_of_the_next_segment() -> None:
    assert with_next_times([None, 3, None, None, 7, None]) == [3, 3, 7, 7, 7, None]


def test_bins_are_as_fine_as_the_time_range_allows() -> None:
    times = NOW_MS - 2 * HOUR_MS, NOW_MS
    bins = time_bins([partition(segment_sizes=(1, 1), segment_times_ms=times)], NOW_MS)
    assert bins.width_ms == 5 * 60_000
