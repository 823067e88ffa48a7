"""Reads of merged copies whose files change after planning, as they do on running brokers."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir, LogTruncatedError
from tests.builders.copies import batches, compact, damage, delete_segment, rows, rows_of, write_copy

if TYPE_CHECKING:
    from pathlib import Path

    from native_log import LogRange

WHOLE = batches(0, 20)
ROLLS = [15, 30]


@pytest.fixture
def planned(tmp_path: Path) -> LogRange:
    """All records of two equal copies, `a` and `b`, as a task gets them."""
    for name in "ab":
        write_copy(tmp_path / name, WHOLE, rolls=ROLLS)
    log = LogDir(tmp_path / "a", tmp_path / "b", replicas="merge").partition("t", 0)
    return pickle.loads(pickle.dumps(log.range()))


def test_a_compacted_copy_is_read_where_its_records_are_now(tmp_path: Path, planned: LogRange) -> None:
    for name in "ab":
        compact(tmp_path / name / "t-0", WHOLE[2:9:3], merged=15)
    assert rows(planned.read()) == rows_of([*WHOLE[2:9:3], *WHOLE[10:]])


@pytest.mark.parametrize("rows_before", [0, 4])
def test_segments_that_the_leading_copy_has_deleted_are_read_from_the_other(
    tmp_path: Path, planned: LogRange, rows_before: int
) -> None:
    assert planned.source.path == str(tmp_path / "a" / "t-0")
    reading = planned.read(["offset", "value"], max_rows=4)
    read = rows([next(reading)]) if rows_before else []
    for base_offset in (0, 15):
        delete_segment(tmp_path / "a" / "t-0", base_offset)
    assert read + rows(reading) == rows_of(WHOLE)


def test_a_copy_that_was_removed_is_read_from_the_other(
    tmp_path: Path, planned: LogRange, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(tmp_path / "a" / "t-0")
    assert rows(planned.read()) == rows_of(WHOLE)
    assert "a/t-0: this copy was removed while it was read" in caplog.text


def test_records_that_all_copies_have_deleted_are_lost(
    tmp_path: Path, planned: LogRange, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "ab":
        delete_segment(tmp_path / name / "t-0", 0)
    with pytest.raises(FileNotFoundError, match="offsets 0 to 14 are gone"):
        list(planned.read())
    assert rows(planned.read(fail_on_data_loss=False)) == rows_of(WHOLE)[15:]
    assert "offsets 0 to 14 are gone" in caplog.text


def test_records_of_another_leader_are_a_truncation(tmp_path: Path, planned: LogRange) -> None:
    """The copies have as many records as before, some of them under a new leader epoch."""
    earlier = planned.split_at([24])[0]
    for name in "ab":
        for base_offset in (0, 15, 30):
            delete_segment(tmp_path / name / "t-0", base_offset)
        write_copy(tmp_path / name, [*WHOLE[:8], *batches(8, 20, epoch=1)], rolls=[21])
    with pytest.raises(LogTruncatedError, match="other records from offset 24 on"):
        list(planned.read())
    assert rows(earlier.read()) == rows_of(WHOLE[:8])


def test_a_replaced_file_is_not_mistaken_for_a_damaged_one(tmp_path: Path, planned: LogRange) -> None:
    """Damage in the new file is still read from the other copy."""
    damage(tmp_path / "b" / "t-0", WHOLE[1])
    compact(tmp_path / "a" / "t-0", WHOLE[:10], merged=15)
    damage(tmp_path / "a" / "t-0", WHOLE[3])
    assert rows(planned.read()) == rows_of(WHOLE)


def test_a_committed_read(tmp_path: Path, planned: LogRange) -> None:
    """A reader that opens the log to find transactions opens it as it is now."""
    for name in "ab":
        compact(tmp_path / name / "t-0", WHOLE[2:9:3], merged=15)
    log = LogDir(tmp_path / "a", tmp_path / "b", replicas="merge").partition("t", 0)
    delete_segment(tmp_path / "a" / "t-0", 0)
    located = log.range(isolation_level="read_committed")
    assert rows(located.read()) == rows_of([*WHOLE[2:9:3], *WHOLE[10:]])
