"""Skipping damage inside the kernel must not change the rows, the ends or the reports of a log."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from native_log.log import PartitionLog
from native_log.log.reading import reader
from native_log.log.reading.counting import count_rows
from native_log.log.reading.options import ReadOptions
from native_log.log.verification import verify_log
from native_log.records import CORRUPT_RECORD, IMPLEMENTATION
from native_log.segment.search import BatchSearch
from native_log.storage import DataFile
from tests.builders.batches import batch, with_right_crc
from tests.builders.legacy import message, wrapper
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from native_log.log.problems import Problem
    from native_log.log.tail import Tail
    from native_log.segment.damage import DamagedRange

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "kernel", reason="the reference skips no damage")

RECORDS = 3
LARGE = 30_000
"""A size of values with which a batch is not near."""
FORMATS = {
    "v2": lambda offset: batch(offset),
    "v2 large": lambda offset: batch(offset, size=LARGE),
    "v2 lz4": lambda offset: batch(offset, codec="lz4"),
    "v1": lambda offset: message(1, offset + RECORDS - 1),
    "v1 gzip": lambda offset: wrapper(
        1, [message(1, number) for number in range(RECORDS)], offset + RECORDS - 1, "gzip"
    ),
}
KINDS = ["flip", "size", "offset", "magic", "count", "repeat", "outer", "zeros", "noise", "cut"]


class Change(NamedTuple):
    """What is done to one batch: see `change`."""

    kind: str
    number: int


def change(data: bytes, kind: str, number: int) -> bytes:
    changed = bytearray(data)
    match kind:
        case "flip":
            bit = number % (8 * len(data))
            changed[bit // 8] ^= 1 << bit % 8
        case "size":
            changed[8:12] = struct.pack(">i", number)
        case "offset":
            changed[:8] = struct.pack(">q", number % 200)
        case "magic":
            changed[16] = number % 256
        case "count":  # a right checksum, but other records than the header says
            changed[57:61] = struct.pack(">i", number % 10)
            return with_right_crc(bytes(changed)) if data[16] == 2 else bytes(changed)
        case "repeat":
            return data + data
        case "outer":  # a header that claims this batch as its content, with a wrong or a right checksum
            outer = batch(0, 0)[:61] + data
            outer = data[:8] + struct.pack(">i", len(outer) - 12) + outer[12:]
            return outer if number % 2 else with_right_crc(outer)
        case "zeros":
            return bytes(number % 100) + data
        case "noise":
            return number.to_bytes(4, "big") * (number % 40) + data
        case "cut":
            return data[: number % len(data)]
    return bytes(changed)


def sizes() -> st.SearchStrategy[int]:
    return st.integers(0, 400) | st.integers(0, 300_000) | st.integers(0, 2**31 - 1)


batches = st.lists(
    st.tuples(
        st.sampled_from(sorted(FORMATS)),
        st.none() | st.builds(Change, st.sampled_from(KINDS), sizes()),
    ),
    min_size=1,
    max_size=40,
)


def content(parts: Sequence[tuple[str, Change | None]]) -> bytes:
    return b"".join(
        data if done is None else change(data, *done)
        for number, (name, done) in enumerate(parts)
        for data in [FORMATS[name](RECORDS * number)]
    )


WRONG_CRC = re.compile("expected (CRC|the checksum).*, found.*; the batch changed after it was written")


def without_crcs(text: str) -> str:
    """Leave out the checksums: whether a message has them depends on how the batch was read."""
    return WRONG_CRC.sub("wrong checksum", text)


def read(log: PartitionLog, **options: Any) -> tuple[list[int], list[DamagedRange]]:
    found: list[DamagedRange] = []
    rows = offsets(log.range().read(["offset"], mode="dropMalformed", on_damage=found.append, **options))
    return rows, [each._replace(reason=without_crcs(each.reason)) for each in found]


def read_one_by_one(log: PartitionLog, **options: Any) -> tuple[list[int], list[DamagedRange]]:
    """Read without the kernel's help after damage."""
    with mock.patch.object(BatchSearch, "skipper", None):
        return read(log, **options)


@given(batches, st.booleans())
@example([("v2", None), ("v2", Change("size", 2**30)), ("v2", None), ("v2", Change("flip", 500))], True)
@example([("v2 large", None), ("v2", Change("cut", 30)), ("v2 large", None), ("v2 large", None)], True)
@example([("v2", None), ("v2", Change("flip", 500)), ("v2 large", Change("flip", 5000)), ("v2", None)], False)
def test_rows_and_reports_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, Change | None]], has_all_bytes: bool
) -> None:
    """A file in an object store does not have all of its bytes in memory."""
    log = PartitionLog.open(write_log(tmp_path_factory.mktemp("log") / "t-0", {0: [content(parts)]}))
    with mock.patch.object(DataFile, "has_all_bytes", has_all_bytes):
        assert read(log) == read_one_by_one(log)


@given(
    batches.filter(lambda parts: all(done is None or done.kind != "outer" for _, done in parts)),
    st.booleans(),
    st.tuples(st.integers(-5, 125), st.integers(-5, 125)),
)
@example([("v2", None), ("v2", Change("size", 100)), ("v2", None), ("v2", None)], True, (6, 125))
@example([("v2", Change("flip", 500)), ("v2", Change("size", 2**30)), ("v2", None)], True, (6, 125))
def test_bounds_hide_no_rows(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[str, Change | None]],
    has_all_bytes: bool,
    bounds: tuple[int, int],
) -> None:
    """Batches outside of the bounds are skipped by their headers, in which the size may be wrong.

    Batches within a skipped batch are not found. On the other hand, a read with bounds can return more: after
    damage, a reader continues only at a batch with a right checksum. Without noticing the damage, it also
    reads a compressed message with a wrong checksum, which readers ignore.
    """
    log = PartitionLog.open(write_log(tmp_path_factory.mktemp("log") / "t-0", {0: [content(parts)]}))
    first, end = bounds
    with mock.patch.object(DataFile, "has_all_bytes", has_all_bytes):
        rows, _ = read(log)
        selected = (pc.field("offset") >= first) & (pc.field("offset") < end)
        found, _ = read(log, filter=selected)
    assert {offset for offset in rows if first <= offset < end} <= set(found)
    assert all(first <= offset < end for offset in found)


def rows_with_damage(log: PartitionLog) -> list[dict[str, Any]]:
    columns = ["topic", "offset", "position", "value", CORRUPT_RECORD]
    rows = [row for each in log.range().read(columns, mode="permissive") for row in each.to_pylist()]
    return [row | {CORRUPT_RECORD: without_crcs(row[CORRUPT_RECORD] or "")} for row in rows]


@given(batches)
@example([("v2", Change("flip", 500)), ("v2", None), ("v2", Change("size", 90)), ("v2", None), ("v2", None)])
def test_rows_of_damage_are_at_the_same_places(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, Change | None]]
) -> None:
    log = PartitionLog.open(write_log(tmp_path_factory.mktemp("log") / "t-0", {0: [content(parts)]}))
    rows = rows_with_damage(log)
    assert count_rows([log.range()], ReadOptions(mode="permissive")) == len(rows)
    with mock.patch.object(BatchSearch, "skipper", None):
        assert rows == rows_with_damage(log)
        assert count_rows([log.range()], ReadOptions(mode="permissive")) == len(rows)


def _without_choice(problem: Problem) -> Problem:
    """Leave out which of two reasons is given for a batch that is out of order and has a wrong checksum."""
    if problem.kind in ("crc", "order", "torn"):
        return replace(problem, kind="crc or order", problem="", advice="")
    return replace(problem, problem=without_crcs(problem.problem))


@given(batches, st.booleans())
@example([("v2", None), ("v2", Change("magic", 3)), ("v2", Change("magic", 3)), ("v2", None)], True)
@example(
    [
        ("v1", None),
        ("v1", Change("flip", 32)),
        ("v1", Change("offset", 12)),
        ("v1 gzip", Change("offset", 0)),
        ("v2 large", None),
    ],
    True,
)
def test_ends_and_problems_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, Change | None]], has_all_bytes: bool
) -> None:
    path = write_log(tmp_path_factory.mktemp("log") / "t-0", {0: [content(parts)]})

    def examine() -> tuple[Tail, list[Problem]]:
        log = PartitionLog.open(path)
        # A batch with a wrong checksum before the end may count as the last one, unless the kernel skips it.
        tail = replace(log.state.tail, last_position=None, last_timestamp_ms=None)
        return tail, [_without_choice(problem) for problem in verify_log(log)]

    with mock.patch.object(DataFile, "has_all_bytes", has_all_bytes):
        found = examine()
        with mock.patch.object(BatchSearch, "skipper", None):
            assert found == examine()


def count_searches(log: PartitionLog) -> tuple[int, int]:
    """Return how many damaged ranges a read reports, and how many of them the kernel left to the reader."""
    with mock.patch.object(reader, "damaged_range", wraps=reader.damaged_range) as search:
        _, found = read(log)
        return len(found), search.call_count


@pytest.mark.parametrize("change_one", [Change("flip", 560), Change("size", 2**30), Change("size", 100_000)])
def test_the_kernel_finds_nearly_all_near_batches(tmp_path: Path, change_one: Change) -> None:
    data = content([("v2", change_one if number % 2 else None) for number in range(4001)])
    log = PartitionLog.open(write_log(tmp_path / "t-0", {0: [data]}))
    ranges, searches = count_searches(log)
    assert ranges == 2000
    assert searches < 200


def test_records_beyond_the_end_of_the_range_are_not_reported(tmp_path: Path) -> None:
    data = content([("v2", Change("flip", 560) if number % 2 else None) for number in range(40)])
    log = PartitionLog.open(write_log(tmp_path / "t-0", {0: [data]}))
    found: list[DamagedRange] = []
    part = log.range(start_offset=0, end_offset=60)
    rows = offsets(part.read(["offset"], mode="dropMalformed", on_damage=found.append))
    assert rows == [offset for offset in range(60) if offset // RECORDS % 2 == 0]
    assert len(found) == 10
