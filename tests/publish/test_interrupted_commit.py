"""A commit that was interrupted, after which a broker was started on the log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.checkpoints.leader_epochs import EpochEntry, read_leader_epochs, write_leader_epochs
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, update_offset_checkpoint
from native_log.checkpoints.write_intent import WriteIntent
from native_log.publish import commit as publishing
from tests.builders.commits import expected, records, staged_job, values, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a log directory with values 0 to 99 committed, and 100 to 299 published but not committed."""
    data = tmp_path / "data"
    LogDir.create(data)
    write(data, 0, 100)
    job, staged = staged_job(data, 100, 300)

    class KilledError(Exception):
        pass

    def fail(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(WriteIntent, "commit", fail)
        patch.setattr(WriteIntent, "undo", lambda *_: None)
        with pytest.raises(KilledError):
            publishing.commit(job, staged, {}, 2)
    assert values(data) == expected((0, 100))
    return data


def test_the_next_write_undoes_it_if_no_broker_was_started(interrupted: Path) -> None:
    with LogDir(interrupted).partition("t", 0) as log:
        assert log.append(records(1000, 1001)) == 50
    assert values(interrupted) == expected((0, 100), (1000, 1001))


def add_leader_epoch(data: Path) -> None:
    partition = data / "t-0"
    write_leader_epochs(partition, (*read_leader_epochs(partition), EpochEntry(3, 150)))


def raise_high_watermark(data: Path) -> None:
    update_offset_checkpoint(data / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): 120})


@pytest.mark.parametrize("change", [add_leader_epoch, raise_high_watermark])
def test_a_partition_that_a_broker_has_used_is_kept(
    interrupted: Path, change: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(change)
    change(interrupted)
    logs = LogDir(interrupted)
    assert [logs.partition("t", number).high_watermark for number in (0, 1)] == [150, 50]
    assert "a broker has loaded the log since" in caplog.text
    with logs.partition("t", 0) as log:
        assert log.append(records(1000, 1001)) == 150
    reopened = LogDir(interrupted)
    assert [reopened.partition("t", number).log_end_offset for number in (0, 1)] == [151, 50]


def test_an_old_high_watermark_does_not_show_a_broker(tmp_path: Path) -> None:
    """Recovery may leave a high watermark beyond the end of the log."""
    data = tmp_path / "data"
    LogDir.create(data)
    write(data, 0, 100)
    update_offset_checkpoint(data / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): 1000})
    job, staged = staged_job(data, 100, 300)
    taken_over: list[bool] = []

    def check(self: WriteIntent, log_dir: Path) -> None:
        taken_over.extend(partition.is_taken_over(log_dir) for partition in self.partitions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteIntent, "commit", check)
        publishing.commit(job, staged, {}, 2)
    assert taken_over == [False, False]
