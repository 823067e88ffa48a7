"""Resolving the starting and ending options, and the detection of lost data."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_spark.errors import DataLossError, OptionError
from kafkalog_spark.options.offset_json import TopicPartition
from kafkalog_spark.options.read import parse_read_options
from kafkalog_spark.read.offsets import (
    Earliest,
    GlobalTimestamp,
    Latest,
    Limit,
    OffsetRange,
    SpecificOffsets,
    SpecificTimestamps,
    check_data_loss,
    check_not_reversed,
    resolve,
)
from kafkalog_spark.read.plan import plan_splits
from native_log import LogDir, delete_records
from tests.builders.golden import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
AVAILABLE = {P0: OffsetRange("t", 0, 10, 100), P1: OffsetRange("t", 1, 0, 0)}
FROM_START, TO_END = Earliest(), Latest()


def lookup(times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    """Look up times. Offset n of partition 0 has the time 1000 n; partition 1 is empty."""
    return {
        tp: max(10, -(-time_ms // 1000)) if tp == P0 and time_ms <= 99_000 else None
        for tp, time_ms in times_ms.items()
    }


def resolve_pairs(
    start: Limit = FROM_START, end: Limit = TO_END, strategy: str = "latest"
) -> list[tuple[int, int]]:
    return [(r.start, r.end) for r in resolve(start, end, strategy, AVAILABLE, lookup)]  # type: ignore[arg-type]


def test_defaults() -> None:
    assert resolve_pairs() == [(10, 100), (0, 0)]


def test_specific_offsets() -> None:
    start, end = SpecificOffsets({P0: 5, P1: -2}), SpecificOffsets({P0: 500, P1: -1})
    assert resolve_pairs(start, end) == [(5, 500), (0, 0)]


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [(50_500, 51), (0, 10), (99_000, 99), (99_001, 100), (-1, 100), (-2, 10), (-4, 10), (-5, 100)],
)
def test_timestamps(timestamp_ms: int, offset: int) -> None:
    """If no record matches, an ending time is the end. With strategy "latest", so is a starting time."""
    assert resolve_pairs(GlobalTimestamp(timestamp_ms))[0] == (offset, 100)
    assert resolve_pairs(end=GlobalTimestamp(timestamp_ms))[0] == (10, offset)
    assert resolve_pairs(SpecificTimestamps({P0: timestamp_ms, P1: 0}))[0] == (offset, 100)


def test_the_timestamp_minus_3_is_the_newest_record() -> None:
    """The broker's ListOffsets finds that record for this timestamp. The log has later, older records."""
    options = {"path": str(DATA / "golden/kafka-4.1/timestamps/data"), "startingTimestamp": "-3"}
    ((split_range,),) = plan_splits(parse_read_options(options), None)
    assert (split_range.start_offset, split_range.end_offset) == (224, 247)


def test_no_match_is_an_error_for_the_start_only() -> None:
    with pytest.raises(OptionError, match="No offset matched for t-1 and timestamp 7"):
        resolve_pairs(GlobalTimestamp(7), strategy="error")
    assert resolve_pairs(end=GlobalTimestamp(99_001), strategy="error") == [(10, 100), (0, 0)]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"start": SpecificOffsets({P0: 1})}, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED.*missing: t-1"),
        ({"end": SpecificOffsets({})}, "KAFKA_END_OFFSET_DOES_NOT_MATCH_ASSIGNED.*missing: t-0, t-1"),
        (
            {"start": SpecificTimestamps({P0: 1, P1: 1, TopicPartition("u", 3): 1})},
            "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED.*not read: u-3",
        ),
    ],
)
def test_partitions_must_match(limits: dict[str, Limit], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        resolve_pairs(**limits)


def test_a_reversed_range_is_an_error() -> None:
    check_not_reversed([OffsetRange("t", 0, 5, 5)])
    with pytest.raises(
        OptionError, match="start offset 6 is greater than the end offset 5 for topic t partition 0"
    ):
        check_not_reversed([OffsetRange("t", 0, 6, 5)])


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A topic with 30 records in each of two partitions. Those before offset 20 of the first are deleted."""
    path = tmp_path_factory.mktemp("trimmed") / "logs"
    with LogDir.create(path) as logs:
        logs.create_topic("t", 2)
        for number in range(2):
            records = {"value": [b"v"] * 30, "timestamp": list(range(30))}
            logs.partition("t", number).append(pa.RecordBatch.from_pydict(records))
    delete_records(path, {("t", 0): 20})
    return str(path)


@pytest.mark.parametrize(
    ("options", "is_error"),
    [
        ({"endingOffsets": '{"t": {"0": 10, "1": 30}}'}, True),
        ({"endingOffsets": '{"t": {"0": 10, "1": 30}}', "minPartitions": "2"}, True),
        ({"endingOffsets": '{"t": {"0": 10, "1": 30}}', "minPartitions": "3"}, False),
        ({"endingOffsets": '{"t": {"0": 10, "1": 30}}', "maxRecordsPerPartition": "5"}, False),
        ({"endingOffsets": '{"t": {"0": 10, "1": 30}}', "maxRecordsPerPartition": "40"}, True),
        ({"startingOffsets": '{"t": {"0": 31, "1": 0}}'}, True),
        ({"startingOffsets": '{"t": {"0": 31, "1": 0}}', "minPartitions": "3"}, False),
        ({"startingOffsets": '{"t": {"0": 25, "1": 5}}', "endingTimestamp": "9", "minPartitions": "3"}, True),
        ({"startingTimestamp": "25", "endingOffsets": '{"t": {"0": 9, "1": 9}}', "minPartitions": "3"}, True),
    ],
)
def test_ranges_that_are_reversed_in_the_log(trimmed: str, options: dict[str, str], is_error: bool) -> None:
    """Spark drops them when it divides ranges, unless it knew both offsets before it looked at the log."""
    plan = partial(plan_splits, parse_read_options({"path": trimmed, **options}), None)
    if is_error:
        with pytest.raises(OptionError, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
            plan()
    else:
        assert {split_range.partition for ranges in plan() for split_range in ranges} == {1}


@pytest.mark.parametrize("requested", [(10, 100), (50, 51), (100, 100), (121, 121), (3, 3), (60, 50)])
def test_no_loss(requested: tuple[int, int]) -> None:
    check_data_loss(OffsetRange("t", 0, *requested), AVAILABLE[P0], fail=True)


@pytest.mark.parametrize(
    ("requested", "left", "lost"),
    [
        ((9, 100), (10, 100), 1),
        ((10, 101), (10, 100), 1),
        ((0, 5), None, 5),
        ((0, 10), None, 10),
        ((100, 101), None, 1),
        ((0, 200), (10, 100), 110),
    ],
)
def test_loss(
    requested: tuple[int, int],
    left: tuple[int, int] | None,
    lost: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    r = OffsetRange("t", 0, *requested)
    with pytest.raises(
        DataLossError, match=rf"KAFKA_DATA_LOSS.*\[{requested[0]}, {requested[1]}\) of t-0.*holds \[10, 100\)"
    ):
        check_data_loss(r, AVAILABLE[P0], fail=True, path="/logs/t-0")
    with caplog.at_level(logging.WARNING, "kafkalog"):
        check_data_loss(r, AVAILABLE[P0], fail=False)
    assert ("reading none of them" if left is None else f"reading [{left[0]}, {left[1]})") in caplog.text
    assert f" {lost} offset{'' if lost == 1 else 's'} lost; " in caplog.text
    part = r.intersection(AVAILABLE[P0])
    assert (part.start, part.end) == left if left else part.size == 0


@given(*[st.integers(0, 20)] * 4)
def test_intersection(a: int, b: int, c: int, d: int) -> None:
    requested, held = OffsetRange("t", 0, a, b), OffsetRange("t", 0, min(c, d), max(c, d))
    part = requested.intersection(held)
    assert set(range(part.start, part.end)) == set(range(a, b)) & set(range(held.start, held.end))
