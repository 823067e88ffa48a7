"""Concurrent, aborted and abandoned jobs: what their tasks do, and which files remain."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir
from native_log.checkpoints import lock
from native_log.checkpoints.lock import LogDirLock
from native_log.errors import KafkaLogError, LogDirInUseError, LogNeedsRecoveryError, TopicExistsError
from native_log.log.verification import verify_log
from native_log.publish import commit as publishing
from native_log.publish.job import Owner, WriteJob, remove_abandoned_jobs
from tests.builders.commits import NOW_MS, expected, records, stage, staged_job, values, write
from tests.contents import files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    LogDir.create(tmp_path / "data")
    write(tmp_path / "data", 0, 100)
    return tmp_path / "data"


def leftovers(data: Path) -> list[str]:
    return [name for name in [*files(data), *(p.name for p in data.glob("*/"))] if "kafkalog" in name]


def test_only_the_committed_attempt_at_a_task_is_published(data: Path) -> None:
    job = WriteJob.begin(data)
    first = stage(job, [(0, records(100, 150)), (1, records(150, 200))], attempt="0-0")
    stage(job, [(0, records(100, 150)), (1, records(150, 200))], attempt="0-1")
    publishing.commit(job, first, {}, 2)
    assert values(data) == expected((0, 200))
    assert leftovers(data) == []


def test_a_job_begins_while_another_removes_dead_jobs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, removes = os.replace, iter([True, True, False])

    def replace(source: str, target: str) -> None:
        if next(removes):
            remove_abandoned_jobs(data)
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    job = WriteJob.begin(data)
    monkeypatch.undo()
    publishing.commit(job, stage(job, [(0, records(100, 150))]), {}, 2)
    assert values(data) == expected((0, 150))
    assert leftovers(data) == []


def test_a_job_cannot_begin_in_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        WriteJob.begin(tmp_path / "nowhere")


@pytest.mark.parametrize("topic", ["t", "new"])
def test_a_task_fails_when_its_job_is_aborted(data: Path, topic: str) -> None:
    before = files(data)
    job = WriteJob.begin(data)

    def rows() -> object:
        yield 0, records(100, 200)
        job.abort()
        yield 1, records(200, 300)

    with pytest.raises((KafkaLogError, FileNotFoundError)):
        stage(job, rows(), topic=topic)  # type: ignore[arg-type]
    with pytest.raises((KafkaLogError, FileNotFoundError)):
        stage(job, [(0, records(0, 10))], topic=topic)
    assert files(data) == before
    assert leftovers(data) == []


def test_an_aborted_job_cannot_be_committed(data: Path) -> None:
    before = files(data)
    job, staged = staged_job(data, 100, 200)
    job.abort()
    with pytest.raises(KafkaLogError, match="aborted"):
        publishing.commit(job, staged, {}, 2)
    assert files(data) == before


def test_an_abort_removes_the_log_directory_that_was_created_for_the_job(tmp_path: Path) -> None:
    LogDir.create(tmp_path / "data")
    WriteJob.begin(tmp_path / "data", name="query", created_log_dir=True)
    job = WriteJob.begin(tmp_path / "data", name="query")  # it is run again
    stage(job, [(0, records(0, 10))])
    job.abort()
    assert not (tmp_path / "data").exists()


def test_an_aborted_job_keeps_a_log_directory_that_existed_before(tmp_path: Path) -> None:
    LogDir.create(tmp_path / "data")
    WriteJob.begin(tmp_path / "data").abort()
    assert (tmp_path / "data/meta.properties").exists()


def test_an_aborted_job_keeps_a_log_directory_in_which_another_writer_has_created_a_topic(
    tmp_path: Path,
) -> None:
    LogDir.create(tmp_path / "data")
    job = WriteJob.begin(tmp_path / "data", created_log_dir=True)
    write(tmp_path / "data", 0, 10)
    job.abort()
    assert values(tmp_path / "data") == expected((0, 10))


def test_an_aborted_job_keeps_a_log_directory_to_which_another_job_writes(tmp_path: Path) -> None:
    """The marker of a job whose owner is dead, or that has just ended, keeps nothing."""
    data = tmp_path / "data"
    LogDir.create(data)
    job = WriteJob.begin(data, created_log_dir=True)
    living = WriteJob.begin(data, created_log_dir=True)
    job.abort()
    assert (data / "meta.properties").exists()
    WriteJob.begin(data, replace(Owner.from_pid(os.getpid()), started="1"))
    ended = WriteJob.begin(data).marker
    ended.rename(f"{ended}-ended")
    living.abort()
    assert not data.exists()


def test_files_of_a_dead_job_are_removed_and_those_of_a_living_one_kept(data: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=os.getpid)
    process.start()
    owner = Owner.from_pid(process.pid or 0)
    dead = WriteJob.begin(data, owner)
    stage(dead, [(0, records(0, 10)), (1, records(0, 10))])
    stage(dead, [(0, records(0, 10))], topic="other")
    living, staged = staged_job(data, 100, 200)
    process.join()
    write(data, 200, 300)
    assert leftovers(data) and not [name for name in leftovers(data) if dead.id in name]
    publishing.commit(living, staged, {}, 2)
    assert values(data) == expected((0, 300))
    assert leftovers(data) == []


@pytest.mark.parametrize(
    ("other", "is_dead"),
    [
        ({}, False),
        ({"host": "another"}, None),
        ({"boot": ""}, None),
        ({"boot": "an earlier one"}, True),
        ({"pid_namespace": "pid:[1]"}, None),
        ({"started": "1"}, True),
        ({"pid": 2**22 + 1}, True),
    ],
)
def test_whether_the_owner_of_a_job_is_dead(other: dict[str, Any], is_dead: bool | None) -> None:
    """Another process may have its id since. Processes of other hosts and containers cannot be seen."""
    assert replace(Owner.from_pid(os.getpid()), **other).is_dead() is is_dead


def test_a_process_that_nobody_waits_for_is_dead() -> None:
    process = subprocess.Popen(["sleep", "60"])
    owner = Owner.from_pid(process.pid)
    assert not owner.is_dead()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert owner.is_dead()
    process.wait()


@pytest.mark.parametrize(("hours", "is_removed"), [(23, False), (25, True)])
def test_a_job_of_another_host_is_removed_after_a_day(data: Path, hours: int, is_removed: bool) -> None:
    job = WriteJob.begin(data, replace(Owner.from_pid(os.getpid()), host="another"))
    stage(job, [(0, records(0, 10))])
    begun = time.time() - hours * 3600
    os.utime(job.marker, (begun, begun))
    write(data, 100, 200)
    assert (leftovers(data) == []) == is_removed


def test_files_of_a_task_that_ran_longer_than_its_job_are_removed(data: Path) -> None:
    job, _ = staged_job(data, 100, 200)
    job.marker.unlink()
    assert leftovers(data) != []
    write(data, 200, 300)
    assert leftovers(data) == []


def test_concurrent_jobs(data: Path) -> None:
    jobs = [staged_job(data, start, start + 100) for start in (100, 200, 300)]
    for job, staged in reversed(jobs):
        publishing.commit(job, staged, {}, 2)
    assert values(data) == expected((0, 400))


def _hold_lock(path: str, ready: object, done: object) -> None:
    from pathlib import Path as _Path

    with LogDirLock(_Path(path)):
        ready.set()  # type: ignore[attr-defined]
        done.wait(60)  # type: ignore[attr-defined]


def test_a_commit_fails_if_the_directory_is_locked(data: Path) -> None:
    job, staged = staged_job(data, 100, 200)
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=_hold_lock, args=(str(data), ready, done))
    process.start()
    assert ready.wait(60)
    try:
        with pytest.raises(LogDirInUseError, match="broker"):
            publishing.commit(job, staged, {}, 2)
    finally:
        done.set()
        process.join()
    assert values(data) == expected((0, 100))


def test_a_commit_fails_if_a_log_has_a_damaged_end(data: Path) -> None:
    log = data / "t-1" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-7])
    before = files(data)
    job, staged = staged_job(data, 100, 200)
    with pytest.raises(LogNeedsRecoveryError, match="kafkalog recover"):
        publishing.commit(job, staged, {}, 2)
    assert files(data) == before


def test_a_batch_of_a_stream_is_written_exactly_once(data: Path) -> None:
    write(data, 100, 200, version=("query", 0))
    assert write(data, 100, 200, version=("query", 0)) == []
    write(data, 200, 300, version=("query", 1))
    assert write(data, 100, 200, version=("query", 0)) == []
    write(data, 300, 400, version=("other", 0))
    assert values(data) == expected((0, 400))


def test_concurrent_jobs_that_create_the_same_topic_write_to_one_topic(data: Path) -> None:
    jobs = [staged_job(data, start, start + 100, topic="new") for start in (0, 100, 200)]
    ids = set()
    for job, staged in reversed(jobs):
        publishing.commit(job, staged, {}, 2, now_ms=NOW_MS)
        ids.add(LogDir(data).partition("new", 0).topic_id)
    assert len(ids) == 1
    assert values(data, "new") == expected((0, 300))
    assert not [name for name in files(data) if "kafkalog" in name or name.endswith("-delete")]
    assert list(verify_log(LogDir(data).partition("new", 1))) == []


def test_a_commit_fails_if_the_new_topic_now_exists_with_other_partitions(data: Path) -> None:
    job = WriteJob.begin(data)
    staged = stage(job, [(0, records(0, 10))], topic="new")
    LogDir(data).create_topic("new", 3)
    with pytest.raises(TopicExistsError, match=r"with 2 partitions, found it created by .* with 3"):
        publishing.commit(job, staged, {}, 2, now_ms=NOW_MS)
    assert values(data, "new") == []


def test_a_topic_without_records_is_created(data: Path) -> None:
    for _ in range(2):
        publishing.commit(WriteJob.begin(data), [], {}, 2, topics=["new"])
    assert LogDir(data).topics()["new"] == [0, 1]
    assert values(data, "new") == []


def test_a_commit_waits_for_the_end_of_another_one(data: Path) -> None:
    job, staged = staged_job(data, 100, 200)
    other, _ = staged_job(data, 200, 300)
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=_hold_lock, args=(str(data), ready, done))
    process.start()
    assert ready.wait(60)
    release = threading.Timer(0.3, done.set)
    release.start()
    publishing.commit(job, staged, {}, 2)
    process.join()
    other.end()
    assert values(data) == expected((0, 200))


def test_a_commit_releases_the_lock_before_its_job_ends(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise another commit finds a lock without a job, as if a broker held it."""
    job, staged = staged_job(data, 100, 200)
    end, locks = WriteJob.end, []

    def record_lock(ended: WriteJob) -> None:
        locks.append(os.path.realpath(data) in lock._held)
        end(ended)

    monkeypatch.setattr(WriteJob, "end", record_lock)
    publishing.commit(job, staged, {}, 2)
    assert locks == [False]
