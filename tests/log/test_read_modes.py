"""Damage in the middle of a log, in each read mode."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import pytest

from native_log.errors import CorruptRecordError
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.segment import search
from native_log.segment.files import file_name
from native_log.segment.search import SEARCH_BYTES
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.segment import DamagedRange

SIZE = len(batch(0))


def flip(data: bytes, position: int, bit: int = 0) -> bytes:
    return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


@pytest.fixture
def damaged(tmp_path: Path) -> PartitionLog:
    """Write a log in which offsets 3 to 5 have a wrong CRC, 9 to 11 a wrong size, 12 to 14 a wrong magic."""
    first = [
        batch(0),
        flip(batch(3), 70),
        batch(6),
        flip(batch(9), 8, 7),
        flip(batch(12), 16, 5),
        batch(15),
    ]
    return PartitionLog.open(write_log(tmp_path / "t-7", {0: first, 18: [batch(18)]}))


def test_fail_fast(damaged: PartitionLog) -> None:
    read = []
    with pytest.raises(CorruptRecordError) as raised:
        for part in damaged.read(columns=["offset"]):
            read += offsets([part])
    assert read == [0, 1, 2]
    error = raised.value
    assert (error.path, error.position, error.offset) == (str(damaged.segments[0].path), SIZE, 3)
    assert "\n" not in str(error)
    for part in (str(error.path), f"position {SIZE}", "offset 3", "CRC", "another replica", "dropMalformed"):
        assert part in str(error)


def test_drop_malformed(damaged: PartitionLog, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[DamagedRange] = []
    with caplog.at_level(logging.WARNING):
        read = offsets(damaged.read(columns=["offset"], mode="dropMalformed", on_damage=seen.append))
    assert read == [0, 1, 2, 6, 7, 8, 15, 16, 17, 18, 19, 20]
    path = str(damaged.segments[0].path)
    assert [(d.path, d.position, d.end_position, d.offset, d.next_offset) for d in seen] == [
        (path, SIZE, 2 * SIZE, 3, 6),
        (path, 3 * SIZE, 5 * SIZE, 9, 15),
    ]
    assert [path in record.getMessage() for record in caplog.records] == [True, True]


def test_permissive(damaged: PartitionLog) -> None:
    columns = ["_corrupt_record", "value", "topic", "partition", "offset", "position", "segment", "timestamp"]
    rows = [row for part in damaged.read(columns=columns, mode="permissive") for row in part.to_pylist()]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 6, 7, 8, 9, 15, 16, 17, 18, 19, 20]
    assert all((row["value"] is None) == (row["_corrupt_record"] is not None) for row in rows)
    row = rows[3]
    assert (row["topic"], row["partition"], row["position"], row["segment"], row["timestamp"]) == (
        "t",
        7,
        SIZE,
        file_name(0, "log"),
        None,
    )
    assert "3" in row["_corrupt_record"]
    assert {part.schema for part in damaged.read(columns=columns, mode="permissive")} == {
        next(iter(damaged.read(columns=columns, mode="permissive"))).schema
    }


def test_permissive_without_its_column(damaged: PartitionLog) -> None:
    rows = [row for part in damaged.read(columns=["value"], mode="permissive") for row in part.to_pylist()]
    assert [row["value"] is None for row in rows].count(True) == 2


def test_without_crcs(damaged: PartitionLog) -> None:
    """Records that can be decoded are returned."""
    assert offsets(damaged.read(0, 9, ["offset"], check_crcs=False)) == list(range(9))


def test_unknown_mode(damaged: PartitionLog) -> None:
    with pytest.raises(
        ValueError, match="mode: expected one of failFast, dropMalformed, permissive, found 'x'"
    ):
        damaged.read(mode="x")


@pytest.mark.parametrize(
    "how",
    [
        lambda log, mode: list(log.batches(mode=mode)),
        lambda log, mode: log.transactions(mode=mode),
        lambda log, mode: log.offset_for_timestamp(2**50, mode=mode),
        lambda log, mode: log.offset_for_max_timestamp(mode=mode),
    ],
)
def test_a_misspelled_mode_skips_nothing(
    damaged: PartitionLog, how: Callable[[PartitionLog, str], object]
) -> None:
    with pytest.raises(ValueError, match=r"mode: expected one of .*, found 'failfast'"):
        how(damaged, "failfast")


@pytest.mark.parametrize("position", [*range(8, 12), 16, *range(17, len(batch(3)))])
def test_a_flipped_bit_damages_one_batch(tmp_path: Path, position: int) -> None:
    """This holds for every field that size, magic or CRC protect; base offset and leader epoch are not."""
    for bit in (0, 7):
        write_log(tmp_path, {0: [batch(0), flip(batch(3), position, bit), batch(6), batch(9)]})
        log = PartitionLog.open(tmp_path)
        assert log.log_end_offset == 12
        with pytest.raises(CorruptRecordError) as raised:
            list(log.read())
        assert (raised.value.position, raised.value.offset) == (SIZE, 3)
        assert offsets(log.read(columns=["offset"], mode="dropMalformed")) == [0, 1, 2, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    "claim",
    [13, 0, -1, -(2**31), 2**31 - 1, 14, 48, 255 << 20, 257 << 20, SIZE - 13, SIZE - 11, 3 * SIZE - 12],
)
def test_wrong_batch_sizes(tmp_path: Path, claim: int) -> None:
    lying = batch(3)[:8] + claim.to_bytes(4, "big", signed=True) + batch(3)[12:]
    write_log(tmp_path, {0: [batch(0), lying, batch(6), batch(9)]})
    log = PartitionLog.open(tmp_path)
    with pytest.raises(CorruptRecordError) as raised:
        list(log.read())
    assert (raised.value.position, raised.value.offset) == (SIZE, 3)
    assert offsets(log.read(columns=["offset"], mode="dropMalformed"))[3:][-3:] == [9, 10, 11]


@pytest.mark.parametrize("size", [SEARCH_BYTES - 300, SEARCH_BYTES, 9 << 20])
def test_large_batches_after_damage(tmp_path: Path, size: int) -> None:
    """A batch of any size up to max_batch_bytes is found, whether or not it is the last."""
    large = batch(6, 1, size)
    for last in ([], [batch(7)]):
        write_log(tmp_path, {0: [batch(0), flip(batch(3), 8, 7), large, *last]})
        log = PartitionLog.open(tmp_path, max_batch_bytes=len(large))
        assert offsets(log.read(columns=["offset"], mode="dropMalformed")) == [
            *(0, 1, 2, 6),
            *([7, 8, 9] if last else []),
        ]
    smaller = PartitionLog.open(tmp_path, max_batch_bytes=len(large) - 1)
    assert offsets(smaller.read(columns=["offset"], mode="dropMalformed")) == [0, 1, 2, 7, 8, 9]


def test_batches_across_the_windows_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch begins a few bytes before or after the end of a search chunk."""
    monkeypatch.setattr(search, "NEAR_BYTES", 1024)
    monkeypatch.setattr(search, "SEARCH_BYTES", 4096)
    for shift in range(-SIZE - 2, 3):
        hole = b"\xff" * (search.SEARCH_BYTES + shift)
        write_log(tmp_path, {0: [batch(0), hole, batch(6), batch(9)]})
        batches = PartitionLog.open(tmp_path).read(columns=["offset"], mode="dropMalformed")
        assert offsets(batches) == [0, 1, 2, *range(6, 12)]


def test_max_batch_bytes(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0), batch(3, size=500), batch(6)]})
    log = PartitionLog.open(tmp_path, max_batch_bytes=1000)
    assert log.log_end_offset == 9
    with pytest.raises(CorruptRecordError, match="max_batch_bytes"):
        list(log.read())
    assert offsets(log.read(columns=["offset"], mode="dropMalformed")) == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize(
    "how",
    [
        lambda log: list(log.batches()),
        lambda log: log.transactions(),
        lambda log: log.offset_for_timestamp(2**50),
        lambda log: log.offset_for_max_timestamp(),
    ],
)
def test_header_scans_report_damage(damaged: PartitionLog, how: Callable[[PartitionLog], object]) -> None:
    """A wrong CRC is not visible in a header, but damage that breaks the chain of batches is."""
    with pytest.raises(CorruptRecordError) as raised:
        how(damaged)
    assert (raised.value.position, raised.value.offset) == (3 * SIZE, 9)


def test_batches(damaged: PartitionLog) -> None:
    parts = list(damaged.batches(check_crcs=True, mode="dropMalformed"))
    rows = [row for part in parts for row in part.to_pylist()]
    assert [(row["baseOffset"], row["isValid"]) for row in rows] == [
        (0, True),
        (3, False),
        (6, True),
        (15, True),
        (18, True),
    ]
    assert [row["segment"] for row in rows] == [file_name(0, "log")] * 4 + [file_name(18, "log")]


@pytest.mark.parametrize("before", [[], [batch(0)]])
def test_a_last_segment_that_is_being_written_is_not_read(before: list[bytes], tmp_path: Path) -> None:
    """Its first batch has no prefix yet, as during a commit. The log is read to its high watermark."""
    base = 3 * len(before)
    segments = {0: before} if before else {}
    unfinished = bytes(12) + batch(base)[12:]
    path = write_log(tmp_path / "t-0", {**segments, base: [unfinished]})
    log = PartitionLog.open(path, checkpoints=PartitionCheckpoints(high_watermark=base, live=True))
    assert offsets(log.read(columns=["offset"])) == list(range(base))


@pytest.mark.parametrize("before", [[], [batch(0)]])
def test_a_last_segment_that_begins_with_damage(before: list[bytes], tmp_path: Path) -> None:
    """The log end offset is the start of the damage, and records after it are still read."""
    base = 3 * len(before)
    segments = {0: before} if before else {}
    log = PartitionLog.open(write_log(tmp_path / "t-0", {**segments, base: [flip(batch(base), 16, 5)]}))
    assert log.log_end_offset == base
    with pytest.raises(CorruptRecordError) as raised:
        log.read(columns=["offset"]).read_all()
    assert (raised.value.path, raised.value.position) == (str(log.segments[-1].path), 0)
    rows = log.read(columns=["offset", "_corrupt_record"], mode="permissive").read_all().to_pylist()
    (damaged,) = (row for row in rows if row["_corrupt_record"])
    assert damaged["offset"] == base
    for part in log.range().split(10):
        with pytest.raises(CorruptRecordError) if part.end_offset == base else contextlib.nullcontext():
            list(part.read(["offset"]))


@pytest.mark.parametrize("count", [9, 10, 25])
def test_many_damaged_ranges_have_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    garbage = b"\xff" * 100
    data = [batch(offset, 1) + garbage for offset in range(count)]
    log = PartitionLog.open(write_log(tmp_path / "t-0", {0: [*data, batch(count, 1)]}))
    ranges: list[DamagedRange] = []
    with caplog.at_level(logging.WARNING):
        log.read(mode="dropMalformed", on_damage=ranges.append).read_all()
    assert len(ranges) == count
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == min(count, 11)
    if count > 10:
        assert "15 more ranges, 1500 bytes" in lines[-1]
