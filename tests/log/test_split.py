"""Any split of a range gives the same rows."""

from __future__ import annotations

import itertools
import pickle
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.errors import OffsetOutOfRangeError
from native_log.log import PartitionLog
from tests.builders.batches import batch
from tests.builders.golden import PARTITIONS, golden, open_golden
from tests.builders.logs import write_log
from tests.contents import offsets
from tests.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log import LogRange

FIXTURES = [
    "kafka-4.1/plain-none",
    "kafka-4.1/plain-mixed",
    "kafka-4.1/txn",
    "kafka-4.1/txn-trimmed",
    "kafka-4.1/compact-txn/round2-after",
    "kafka-4.1/compact-idem/round2-after",
    "kafka-4.1/delete-records/after",
    "kafka-4.1/offsets-gap",
    "kafka-4.1/offsets-huge",
    "kafka-4.1/roll-by-index",
    "kafka-4.1/crash-preallocate",
    "kafka-4.1/corrupt-index-garbage",
    "kafka-4.1/corrupt-log-only",
    "kafka-4.1/corrupt-middle-missing",
    "kafka-4.1/corrupt-baseoffset-flip",
    "kafka-4.1/corrupt-size-plus",
    "kafka-4.1/corrupt-magic-3",
    "kafka-4.1/corrupt-size-0",
    "kafka-4.1/corrupt-size-max",
    "kafka-4.1/corrupt-bad-crc",
    "kafka-2.8/corrupt-v1-none",
    "kafka-2.8/mixed",
    "kafka-2.8/v0-lz4",
    "kafka-2.8/v1-gzip",
    "kafka-2.8/v1-none",
    "kafka-2.8/compact-v1/round1-after",
]
COLUMNS = ["offset", "key", "value", "position", "segment"]
LEVELS = ["read_uncommitted", "read_committed"]


@cache
def open_log(fixture: str) -> PartitionLog:
    return open_golden(golden(fixture))


def rows(range: LogRange) -> list[tuple[Any, ...]]:
    batches = range.read(COLUMNS, mode="dropMalformed")
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@cache
def all_rows(fixture: str, isolation_level: str) -> list[tuple[Any, ...]]:
    return rows(open_log(fixture).range(isolation_level=isolation_level))


def check_parts(whole: LogRange, parts: list[LogRange], expected: list[tuple[Any, ...]]) -> None:
    parts = pickle.loads(pickle.dumps(parts))
    assert parts[0].start_offset == whole.start_offset
    assert parts[-1].end_offset == whole.end_offset
    assert all(left.end_offset == right.start_offset for left, right in itertools.pairwise(parts))
    assert [row for part in parts for row in rows(part)] == expected


@settings(max_examples=examples(75), deadline=None)
@given(st.sampled_from(FIXTURES), st.sampled_from(LEVELS), st.integers(1, 12_000))
def test_split_by_bytes(fixture: str, isolation_level: str, max_bytes: int) -> None:
    whole = open_log(fixture).range(isolation_level=isolation_level)
    parts = whole.split(max_bytes)
    assert sum(part.size_bytes for part in parts) == whole.size_bytes
    check_parts(whole, parts, all_rows(fixture, isolation_level))


@settings(max_examples=examples(75), deadline=None)
@given(st.data())
def test_split_at_offsets_and_again(data: st.DataObject) -> None:
    fixture, isolation_level = data.draw(st.sampled_from(FIXTURES)), data.draw(st.sampled_from(LEVELS))
    whole = open_log(fixture).range(isolation_level=isolation_level)
    inside = st.integers(whole.start_offset, whole.end_offset)
    # In fixtures with huge gaps, most offsets lie in a gap. So draw offsets of rows too.
    seen = [row[0] for row in all_rows(fixture, isolation_level)] or [0]
    at = data.draw(st.lists(st.one_of(inside, st.sampled_from(seen)), max_size=6))
    parts = whole.split_at(at)
    assert {part.end_offset for part in parts[:-1]} == {
        o for o in at if whole.start_offset < o < whole.end_offset
    }
    expected = all_rows(fixture, isolation_level)
    check_parts(whole, parts, expected)
    again = data.draw(st.integers(300, 5000))
    check_parts(whole, [small for part in parts for small in part.split(again)], expected)
    others = data.draw(st.lists(inside, max_size=3))
    check_parts(whole, [small for part in whole.split(again) for small in part.split_at(others)], expected)


@settings(max_examples=examples(75), deadline=None)
@given(st.data())
def test_ranges(data: st.DataObject) -> None:
    fixture, isolation_level = data.draw(st.sampled_from(FIXTURES)), data.draw(st.sampled_from(LEVELS))
    if fixture.endswith("baseoffset-flip"):  # there, offsets do not determine the byte range
        return
    log = open_log(fixture)
    seen = [row[0] for row in all_rows(fixture, isolation_level)] or [log.log_start_offset]
    offset = st.one_of(st.integers(log.log_start_offset, log.log_end_offset), st.sampled_from(seen))
    start, end = sorted((data.draw(offset), data.draw(offset)))
    whole = log.range(start, end, isolation_level=isolation_level)
    expected = [row for row in all_rows(fixture, isolation_level) if start <= row[0] < end]
    assert rows(whole) == expected
    check_parts(whole, whole.split(data.draw(st.integers(300, 5000))), expected)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: f"{p.fixture}:{p.topic}-{p.partition}")
def test_split_of_every_golden_partition(partition: Any) -> None:
    whole = open_golden(partition).range()
    expected = rows(whole)
    check_parts(whole, whole.split(2000), expected)


def test_parts_are_about_equal(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(o, size=100) for o in range(0, 3000, 3)]})
    whole = PartitionLog.open(tmp_path).range()
    for count in (2, 3, 7, 10, 100):
        sizes = [part.size_bytes for part in whole.split(-(-whole.size_bytes // count))]
        assert len(sizes) == count
        assert max(sizes) - min(sizes) <= 2 * len(batch(0, size=100))


def test_a_batch_split_in_two_is_read_by_both_parts(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0, 10), batch(10, 10)]})
    first, second = PartitionLog.open(tmp_path).range().split_at([14])
    assert offsets(first.read(["offset"])) == list(range(14))
    assert offsets(second.read(["offset"])) == list(range(14, 20))


def test_offsets_out_of_range(tmp_path: Path) -> None:
    write_log(tmp_path, {5: [batch(5)]})
    log = PartitionLog.open(tmp_path)
    assert list(log.read(8)) == []
    for start, end in ((4, None), (9, None), (None, 9), (None, 4)):
        with pytest.raises(
            OffsetOutOfRangeError, match="from the log start offset 5 to the log end offset 8"
        ):
            log.range(start, end)
    with pytest.raises(ValueError, match="isolation_level: expected read_uncommitted or read_committed"):
        log.range(isolation_level="serializable")
    with pytest.raises(ValueError, match="max_bytes: expected at least 1"):
        log.range().split(0)


def test_batches_of_a_read(tmp_path: Path) -> None:
    """The first batch of rows comes early, and none exceeds the limits by more than a batch."""
    write_log(tmp_path, {0: [batch(o, 100) for o in range(0, 100_000, 100)]})
    log = PartitionLog.open(tmp_path)
    sizes = [b.num_rows for b in log.read()]
    assert sizes[0] == 1000
    assert sizes[1] > 5000
    assert max(b.num_rows for b in log.read(max_rows=500)) == 500
    assert [b.num_rows for b in log.read(max_rows=99)] == [100] * 1000
    small = [b.nbytes for b in log.read(columns=["value"], first_rows=None, max_bytes=20_000)]
    assert 15_000 < small[0] < 30_000
    assert list(log.read(0, 0)) == []
    # Well-compressed data gives no larger batches than other data.
    write_log(tmp_path, {0: [batch(o, 100, size=10_000, codec="zstd") for o in range(0, 2000, 100)]})
    log = PartitionLog.open(tmp_path)
    assert log.size_bytes < 200_000
    assert max(b.nbytes for b in log.read()) < 10 << 20
    write_log(tmp_path, {0: [batch(o, 100) for o in range(0, 100_000, 100)]})
    log = PartitionLog.open(tmp_path)
    counted = list(log.read(columns=[]))
    assert (sum(b.num_rows for b in counted), counted[0].num_columns) == (100_000, 0)
