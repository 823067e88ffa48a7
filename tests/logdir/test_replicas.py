"""LogDir(..., replicas="merge")."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir, UnknownTopicOrPartitionError
from native_log.checkpoints.write_intent import PartitionBackup, WriteIntent
from native_log.log.sources.joined import JoinedSource
from native_log.segment.files import file_name
from tests.builders.copies import batches, rows, rows_of, write_copy

if TYPE_CHECKING:
    from native_log.arguments import IsolationLevel

SAMPLE = Path(__file__).parents[2] / "examples/kafka-logs"


@pytest.fixture
def copies(tmp_path: Path) -> LogDir:
    shutil.copytree(SAMPLE, tmp_path / "copy")
    return LogDir(SAMPLE, tmp_path / "copy", replicas="merge")


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_two_equal_copies_are_read_as_one(copies: LogDir, isolation_level: IsolationLevel) -> None:
    single = LogDir(SAMPLE)
    assert copies.topics() == single.topics()
    for directory in single.partitions():
        single_log = single.partition(*directory.key)
        log = pickle.loads(pickle.dumps(copies.partition(*directory.key)))
        assert isinstance(log.state.source, JoinedSource)
        for name in ("log_start_offset", "log_end_offset", "high_watermark", "last_stable_offset"):
            assert getattr(log, name) == getattr(single_log, name)
        expected = single_log.read(isolation_level=isolation_level).read_all()
        assert log.read(isolation_level=isolation_level).read_all().equals(expected)
        assert log.transactions().equals(single_log.transactions())
        latest, of_one = (list(each.range().latest(["offset"])) for each in (log, single_log))
        assert latest == of_one


def test_internal_topics_are_read_from_merged_logs(copies: LogDir) -> None:
    single = LogDir(SAMPLE)
    assert copies.groups().read_all().equals(single.groups().read_all())
    assert copies.cluster_metadata().read_all().equals(single.cluster_metadata().read_all())


def test_copies_are_opened_one_by_one(copies: LogDir, tmp_path: Path) -> None:
    directories = copies.copies("orders", 0)
    assert [directory.path.parent for directory in directories] == [SAMPLE, tmp_path / "copy"]
    assert [copies.open_copy(directory).log_end_offset for directory in directories] == [284, 284]
    assert [directory.path.parent for directory in LogDir(SAMPLE).copies("orders", 0)] == [SAMPLE]
    with pytest.raises(UnknownTopicOrPartitionError):
        copies.copies("orders", 9)


def test_a_copy_that_cannot_be_opened_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_copy(tmp_path / "a", batches(0, 5))
    broken = write_copy(tmp_path / "b", batches(0, 9))
    with next(broken.glob("*.log")).open("r+b") as file:
        file.truncate(2**31)
    log = LogDir(tmp_path / "a", tmp_path / "b", replicas="merge").partition("t", 0)
    assert rows(log.read()) == rows_of(batches(0, 5))
    assert "this copy is not merged" in caplog.text


@pytest.mark.parametrize("others", [5, 9])
def test_records_of_an_unfinished_write_are_not_read(tmp_path: Path, others: int) -> None:
    write_copy(tmp_path / "a", batches(0, others))
    second = write_copy(tmp_path / "b", batches(0, 12))
    size = sum(len(batch.data) for batch in batches(0, 5))
    backup = PartitionBackup.of(second, 0, (size, 0, 0), (15, 36))
    WriteIntent("job", (backup,), {}).write(tmp_path / "b")
    log = LogDir(tmp_path / "a", tmp_path / "b", replicas="merge").partition("t", 0)
    assert rows(log.read()) == rows_of(batches(0, others))


@pytest.mark.parametrize(("written", "rolls"), [(6, [15]), (12, [15, 24])])
def test_the_start_of_an_unfinished_write_is_not_damage(
    tmp_path: Path, written: int, rolls: list[int]
) -> None:
    """Its first batch begins with zeros until the other segments of the write are there."""
    write_copy(tmp_path / "a", batches(0, 5))
    second = write_copy(tmp_path / "b", batches(0, written), rolls=rolls)
    size = (second / file_name(0, "log")).stat().st_size
    backup = PartitionBackup.of(second, 0, (size, 0, 0), (15, 3 * written))
    WriteIntent("job", (backup,), {}).write(tmp_path / "b")
    with (second / file_name(15, "log")).open("r+b") as file:
        file.write(bytes(12))
    log = LogDir(tmp_path / "b", tmp_path / "a", replicas="merge").partition("t", 0)
    assert rows(log.read()) == rows_of(batches(0, 5))
    assert sum(part.num_rows for part in log.batches()) == 5
    assert log.offset_for_max_timestamp() == 14
