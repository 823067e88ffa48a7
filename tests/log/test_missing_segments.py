"""A segment that has only its index left is reported wherever its log is read."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.log import PartitionLog
from native_log.log.missing_segments import missing_segments
from native_log.log.offset_span import OffsetSpan
from native_log.log.verification import verify_log
from native_log.segment.entries import TIME_ENTRY
from native_log.segment.files import MAX_OFFSET, file_name
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.builders.memory_storage import MemoryStorage
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BASES = (0, 3, 6, 9)


def write_without(folder: Path, *lost: int) -> Path:
    """Write segments of three records each, and remove some of the .log files."""
    path = write_log(folder / "t-0", {base: [batch(base)] for base in BASES})
    (folder / "meta.properties").write_text("version=0\nbroker.id=1\n")
    for base in lost:
        (path / file_name(base, "log")).unlink()
    return path


def missing(path: Path, checkpoints: PartitionCheckpoints | None = None) -> tuple[OffsetSpan, ...]:
    return tuple(
        each.span for each in missing_segments(PartitionLog.open(path, checkpoints=checkpoints).state)
    )


@pytest.mark.parametrize(
    ("lost", "spans"),
    [
        ((), []),
        ((0,), [(0, 3)]),
        ((3,), [(3, 6)]),
        ((3, 6), [(3, 9)]),
        ((0, 6), [(0, 3), (6, 9)]),
        ((9,), [(9, MAX_OFFSET)]),
        (BASES, [(0, MAX_OFFSET)]),
    ],
)
def test_every_way_to_read_a_log_reports_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: Sequence[int], spans: list[tuple[int, int]]
) -> None:
    path = write_without(tmp_path, *lost)
    expected = [base + number for base in BASES if base not in lost for number in range(3)]
    assert missing(path) == tuple(OffsetSpan(*span) for span in spans)
    storage = MemoryStorage.copy_of(tmp_path, "/elsewhere")
    for log_dir in (LogDir(tmp_path), LogDir("/elsewhere", storage=storage)):
        log = log_dir.partition("t", 0)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert offsets(log.read(columns=["offset"])) == expected
        warnings = [record.getMessage() for record in caplog.records]
        assert len(warnings) == bool(lost)
        for warning, (start, end) in zip(warnings, spans, strict=False):
            up_to = "on" if end == MAX_OFFSET else f"to {end - 1}"
            assert warning.startswith(f"{log.path}/{file_name(start, 'index')}: the .log file")
            assert f"the offsets from {start} {up_to} are lost" in warning
            assert ("2 segments are missing in all" in warning) == (len(spans) == 2)
    problems = [
        problem for problem in verify_log(PartitionLog.open(path)) if problem.kind == "missing-segment"
    ]
    assert [problem.offset for problem in problems] == [start for start, _ in spans]


@pytest.mark.parametrize("damage", ["nothing", "missing", "empty"])
def test_plans_without_tails(tmp_path: Path, damage: str) -> None:
    """A range without an end is not opened, so it could not report missing segments."""
    path = write_without(tmp_path)
    log = path / file_name(3, "log")
    (path / file_name(3, "timeindex")).write_bytes(TIME_ENTRY.pack(1_700_000_000_000, 2))
    if damage == "missing":
        log.unlink()
    elif damage == "empty":
        log.write_bytes(b"")
    storage = MemoryStorage.copy_of(tmp_path, "/elsewhere")
    ranges = LogDir("/elsewhere", storage=storage).unbounded_ranges([("t", 0)])
    assert (ranges is None) == (damage != "nothing")


@pytest.mark.parametrize("base", [0, 3, 6])
def test_an_empty_segment_whose_time_index_has_entries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, base: int
) -> None:
    path = write_without(tmp_path)
    (path / file_name(base, "log")).write_bytes(b"")
    assert missing(path) == ()  # compaction can leave a segment without records
    (path / file_name(base, "timeindex")).write_bytes(TIME_ENTRY.pack(1_700_000_000_000, 2))
    log = PartitionLog.open(path)
    with caplog.at_level(logging.WARNING):
        assert len(offsets(log.read(columns=["offset"]))) == 9
    (record,) = caplog.records
    assert f"index is empty: the offsets from {base} to {base + 2} are lost" in record.getMessage()
    assert [problem.offset for problem in verify_log(log) if problem.kind == "missing-segment"] == [base]


def test_a_last_segment_without_records_yet(tmp_path: Path) -> None:
    """A crash can lose the records of the last segment, but not the entries of its index."""
    path = write_without(tmp_path)
    (path / file_name(9, "log")).write_bytes(b"")
    (path / file_name(9, "timeindex")).write_bytes(TIME_ENTRY.pack(1_700_000_000_000, 2))
    assert missing(path) == ()


def test_ranges_report_only_what_they_lack(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = PartitionLog.open(write_without(tmp_path, 3))
    with caplog.at_level(logging.WARNING):
        assert offsets(log.read(0, 3, columns=["offset"])) == [0, 1, 2]
        assert offsets(log.read(6, columns=["offset"])) == [6, 7, 8, 9, 10, 11]
        assert caplog.records == []
        assert offsets(log.read(1, 7, columns=["offset"])) == [1, 2, 6]
    assert "the offsets from 3 to 5 are lost;" in caplog.text


@pytest.mark.parametrize("state", ["", "deleted"])
def test_the_index_of_a_segment_that_a_broker_removed(tmp_path: Path, state: str) -> None:
    """A broker renames the .log file first."""
    path = write_without(tmp_path, 0, 3, 9)
    for base in (0, 3, 9):
        (path / file_name(base, "log", "deleted")).touch()
        (path / file_name(base, "index")).rename(path / file_name(base, "index", state))
    assert missing(path) == ()


def test_the_index_of_a_segment_that_was_merged(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0), batch(3)], 3: [], 6: [batch(6)]})
    (path / file_name(3, "log")).unlink()
    assert missing(path) == ()


def test_indexes_below_the_start_and_in_a_log_in_use(tmp_path: Path) -> None:
    path = write_without(tmp_path, 0, 6, 9)
    started = PartitionCheckpoints(log_start_offset=3)
    assert missing(path, started) == (OffsetSpan(6, MAX_OFFSET),)
    assert missing(path, PartitionCheckpoints(log_start_offset=10)) == ()
    assert missing(path, replace(started, live=True, high_watermark=9)) == ()
