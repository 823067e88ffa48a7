"""Which part of a log brokers compact, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log.compaction.eligibility import (
    CleanableRange,
    SegmentSizes,
    cleanable_range,
    group_segments,
)
from native_log.compaction.rounds import find_cleanable_range
from native_log.config import LogConfig
from tests.builders.batches import T0, batch
from tests.builders.logs import write_log

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log import PartitionLog

MINUTE_MS = 60_000
SEGMENTS = [SegmentSizes(base, 100) for base in (0, 10, 20, 30)]
NOW_MS = 1000


def cleanable(config: dict[str, Any] | None = None, **options: Any) -> CleanableRange:
    """Return the range for a log with segments of 10 offsets. Segment i has timestamps i * 100 to i * 100 +
    50."""
    arguments: dict[str, Any] = {
        "checkpoint": None,
        "log_start_offset": 0,
        "log_end_offset": 40,
        "last_stable_offset": 40,
        "largest_timestamp_ms": lambda index: index * 100 + 50,
        "first_timestamp_ms": lambda index: index * 100,
    }
    arguments |= options
    return cleanable_range(SEGMENTS, config=LogConfig.parse(config or {}), now_ms=NOW_MS, **arguments)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_log_without_segments_is_skipped(tmp_path: Path, policy: str) -> None:
    """A broker creates a segment when it loads the log."""
    for name in ("t-0", "t-1"):
        write_log(tmp_path / name, {0: [batch(0)], 3: [batch(3)]})
    for path in (tmp_path / "t-0").glob("*.log"):
        path.unlink()
    config = {"cleanup.policy": policy, "min.cleanable.dirty.ratio": 0}
    empty, other = native_log.compact(tmp_path, config=config, now_ms=T0).to_pylist()
    assert empty["reason"].startswith("nothing to compact below the active segment")
    assert (empty["status"], other["status"]) == ("skipped", "cleaned")


@pytest.mark.parametrize(
    ("options", "first_dirty", "end", "sizes"),
    [
        ({}, 0, 30, (0, 300)),
        ({"checkpoint": 10}, 10, 30, (100, 200)),
        ({"checkpoint": 15}, 15, 30, (200, 200)),  # the segment that contains it counts in both
        ({"checkpoint": 30}, 30, 30, (300, 0)),
        ({"checkpoint": 40}, 40, 30, (400, 0)),
        ({"checkpoint": 41}, 0, 30, (0, 300)),  # after the end of the log
        ({"checkpoint": 5, "log_start_offset": 12}, 12, 30, (200, 200)),  # before the start of the log
        ({"last_stable_offset": 25}, 0, 20, (0, 200)),
        ({"last_stable_offset": 20}, 0, 20, (0, 200)),
        ({"last_stable_offset": 3}, 0, 0, (0, 0)),
        ({"checkpoint": 25, "last_stable_offset": 12}, 25, 20, (300, 0)),
    ],
)
def test_the_cleanable_range(
    options: dict[str, int], first_dirty: int, end: int, sizes: tuple[int, int]
) -> None:
    result = cleanable(**options)
    assert (result.first_dirty_offset, result.end_offset) == (first_dirty, end)
    assert (result.clean_bytes, result.cleanable_bytes) == sizes


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 30), (750, 30), (751, 20), (850, 20), (851, 10), (951, 0)])
def test_min_compaction_lag(lag_ms: int, end: int) -> None:
    assert cleanable({"min.compaction.lag.ms": lag_ms}).end_offset == end


@pytest.mark.parametrize(
    ("options", "lag_ms", "is_overdue"),
    [
        ({"checkpoint": 10}, 899, True),
        ({"checkpoint": 10}, 900, False),
        ({"checkpoint": 20}, 899, False),
        ({}, 899, True),  # a timestamp of 0 does not count, the next does
        ({"checkpoint": 30}, 1, False),  # only the active segment is dirty
        ({}, 2**63 - 1, False),
    ],
)
def test_max_compaction_lag(options: dict[str, int], lag_ms: int, is_overdue: bool) -> None:
    assert cleanable({"max.compaction.lag.ms": lag_ms}, **options).is_overdue == is_overdue


def test_the_dirty_ratio_must_be_exceeded() -> None:
    result = cleanable(checkpoint=20)
    assert result.dirty_ratio == 100 / 300
    assert result.is_candidate(LogConfig(min_cleanable_dirty_ratio=0.33))
    assert not result.is_candidate(LogConfig(min_cleanable_dirty_ratio=100 / 300))
    assert not cleanable(checkpoint=30).is_candidate(LogConfig(min_cleanable_dirty_ratio=0))


FAR = 2**31


@pytest.mark.parametrize(
    ("segments", "end_offset", "groups"),
    [
        ([(0, 50), (10, 50), (20, 1)], 30, [(0, 2), (2, 3)]),  # segment.bytes may be reached
        ([(0, 50), (10, 51)], 20, [(0, 1), (1, 2)]),
        ([(0, 200), (10, 1)], 20, [(0, 1), (1, 2)]),
        ([(0, 1, 8, 0), (10, 1, 8, 0), (20, 1, 8, 0)], 30, [(0, 2), (2, 3)]),  # and segment.index.bytes
        ([(0, 1, 0, 8), (10, 1, 0, 8), (20, 1, 0, 8)], 30, [(0, 2), (2, 3)]),
        ([(0, 1), (10, 1)], FAR, [(0, 2)]),  # offsets as far as an index entry can hold
        ([(0, 1), (10, 1)], FAR + 1, [(0, 1), (1, 2)]),
        ([(0, 1), (10, 0)], FAR + 1, [(0, 2)]),  # an empty segment has none
        ([(0, 1), (10, 1), (20, 1)], 20, [(0, 2)]),
    ],
)
def test_groups_of_segments(
    segments: list[tuple[int, ...]], end_offset: int, groups: list[tuple[int, int]]
) -> None:
    config = LogConfig(segment_bytes=100, segment_index_bytes=16)
    assert group_segments([SegmentSizes(*sizes) for sizes in segments], end_offset, config) == groups


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """A log with three segments of one batch: records of the minutes 1 to 10, 11 to 20 and 21 to 30."""
    logs = native_log.LogDir.create(tmp_path / "logs")
    logs.create_topic("t", 1)
    with native_log.LogDir(tmp_path / "logs").partition("t", 0, config={"segment.bytes": 300}) as log:
        for first in (1, 11, 21):
            times = [minute * MINUTE_MS for minute in range(first, first + 10)]
            keys = [b"%d" % time for time in times]
            log.append(pa.record_batch({"key": keys, "value": keys, "timestamp": times}), now_ms=times[-1])
    return native_log.LogDir(tmp_path / "logs").partition("t", 0)


def is_overdue(log: PartitionLog, minute: int) -> bool:
    config = LogConfig.parse({"max.compaction.lag.ms": MINUTE_MS})
    return find_cleanable_range(log, config, minute * MINUTE_MS + 1).is_overdue


def test_the_first_timestamp_of_a_segment_is_the_greatest_of_its_first_batch(log: PartitionLog) -> None:
    """As in a broker, which reads only the batch's header."""
    assert len(log.segments) == 3
    assert [is_overdue(log, minute) for minute in (2, 10, 11)] == [False, False, True]


def test_an_empty_segment_has_no_first_timestamp(log: PartitionLog) -> None:
    """Even if the active segment after it has one."""
    for segment in log.segments[:2]:
        segment.path.write_bytes(b"")
    emptied = native_log.LogDir(log.path.parent).partition("t", 0)
    assert not is_overdue(emptied, 100)


def test_without_a_time_index_a_segment_is_as_old_as_its_records(log: PartitionLog) -> None:
    """Not the modification time of its file, which may be a copy."""
    config = LogConfig.parse({"min.compaction.lag.ms": MINUTE_MS})
    for segment in log.segments:
        (log.path / f"{segment.path.stem}.timeindex").unlink()
    without_index = native_log.LogDir(log.path.parent).partition("t", 0)
    ends = [
        find_cleanable_range(without_index, config, minute * MINUTE_MS).end_offset
        for minute in (10, 11, 20, 21)
    ]
    assert ends == [0, 10, 10, 20]
