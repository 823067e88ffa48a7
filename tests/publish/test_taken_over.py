"""A write that was cut short while it was published, and then a broker was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.log.leader_epochs import EpochEntry, read_leader_epochs, write_leader_epochs
from native_log.logdir.checkpoints import REPLICATION_OFFSET_CHECKPOINT, update_offset_checkpoint
from native_log.logdir.unfinished import UnfinishedWrite
from native_log.publish import commit as publishing

from .support import expected, records, staged_job, values, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two partitions with 0 to 99 in order, and 100 to 299 published in both, but not committed."""
    data = tmp_path / "data"
    LogDir.create(data)
    write(data, 0, 100)
    job, staged = staged_job(data, 100, 300)

    class KilledError(Exception):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(UnfinishedWrite, "commit", killed)
        patch.setattr(UnfinishedWrite, "undo", lambda *_: None)
        with pytest.raises(KilledError):
            publishing.commit(job, staged, {}, 2)
    assert values(data) == expected((0, 100))
    return data


def test_it_is_taken_back_where_no_broker_was(cut_short: Path) -> None:
    with LogDir(cut_short).partition("t", 0) as log:
        assert log.append(records(1000, 1001)) == 50
    assert values(cut_short) == expected((0, 100), (1000, 1001))


def a_new_epoch(data: Path) -> None:
    partition = data / "t-0"
    write_leader_epochs(partition, (*read_leader_epochs(partition), EpochEntry(3, 150)))


def a_new_high_watermark(data: Path) -> None:
    update_offset_checkpoint(data / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): 120})


@pytest.mark.parametrize("trace", [a_new_epoch, a_new_high_watermark])
def test_what_a_broker_went_on_with_stays(
    cut_short: Path, trace: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(trace)
    trace(cut_short)
    logs = LogDir(cut_short)
    assert [logs.partition("t", number).high_watermark for number in (0, 1)] == [150, 50]
    assert "a broker went on with it" in caplog.text
    with logs.partition("t", 0) as log:
        assert log.append(records(1000, 1001)) == 150
    again = LogDir(cut_short)
    assert [again.partition("t", number).log_end_offset for number in (0, 1)] == [151, 50]


def test_an_old_high_watermark_is_no_trace(tmp_path: Path) -> None:
    """Recovery may leave one beyond the log's end."""
    data = tmp_path / "data"
    LogDir.create(data)
    write(data, 0, 100)
    update_offset_checkpoint(data / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): 1000})
    job, staged = staged_job(data, 100, 300)
    taken: list[bool] = []

    def look(self: UnfinishedWrite, log_dir: Path) -> None:
        taken.extend(one.is_taken_over(log_dir) for one in self.partitions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnfinishedWrite, "commit", look)
        publishing.commit(job, staged, {}, 2)
    assert taken == [False, False]
