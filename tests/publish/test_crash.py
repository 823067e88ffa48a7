"""Commits that are killed, or that run out of disk space, at each of their changes to files."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from native_log import LogDir, compact, diff, recover, reindex, retain, salvage, verify
from native_log.checkpoints.write_intent import WRITE_INTENT, WriteIntent
from native_log.log.verification import verify_log
from native_log.publish import commit as publishing
from native_log.publish import offsets, partitions
from native_log.publish.job import WriteJob
from native_log.records import reference
from tests.builders.commits import NOW_MS, expected, records, stage, values, write
from tests.contents import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

CONFIG = {"segment.bytes": "1800", "index.interval.bytes": "300"}
CHANGES = ("pwrite", "ftruncate", "rename", "replace", "unlink", "mkdir", "rmdir", "copy_file_range")
TASKS = (
    (("t", 0, 1000, 1100), ("t", 1, 1100, 1105), ("u", 0, 1000, 1100), ("u", 1, 1100, 1105)),
    (("t", 0, 2000, 2005), ("u", 1, 2100, 2105)),
)
"""What each task writes: (topic, partition, first record, end). 100 records need two segments."""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Return a log directory with a topic of two partitions, which have several segments each."""
    data = tmp_path / "before"
    LogDir.create(data)
    write(data, 0, 400, config=CONFIG)
    return data


def write_two_topics(data: Path) -> None:
    """Append to topic t, by new segments and by copying, and create topic u, in one job."""
    job = WriteJob.begin(data)
    staged = []
    for attempt, rows in enumerate(TASKS):
        for topic in ("t", "u"):
            parts = [(partition, records(*of)) for name, partition, *of in rows if name == topic]
            staged += stage(job, parts, attempt=str(attempt), config=CONFIG, topic=topic)
    publishing.commit(job, staged, CONFIG, 2, now_ms=NOW_MS, version=("query", 7))


def written(topic: str) -> list[str]:
    return expected(*((start, end) for rows in TASKS for name, _, start, end in rows if name == topic))


class EndOfChangesError(Exception):
    """The work has fewer changes than the requested number."""


def run_interrupted(
    work: Callable[[], None], step: int, act: Callable[[], Any], calls: Iterable[str] = CHANGES
) -> None:
    """Run `work`, but call `act` instead of call number `step` (from 0) of the functions `calls` of os.

    Raises what `work` raises; EndOfChangesError if `work` has fewer such calls.
    """
    counter = itertools.count()

    def wrap(function: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            return act() if next(counter) == step else function(*args, **kwargs)

        return change

    with pytest.MonkeyPatch.context() as patch:
        # System calls of the Rust kernel cannot be counted, those of the reference implementation can.
        patch.setattr(offsets, "write_prefixes", reference.write_prefixes)
        for name in calls:
            patch.setattr(os, name, wrap(getattr(os, name)))
        work()
    if next(counter) <= step:
        raise EndOfChangesError


def run_killed(work: Callable[[], None], step: int) -> bool:
    """Run `work` in a process that is killed before change number `step`. Return whether it was killed."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(EndOfChangesError):
            run_interrupted(work, step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def assert_valid(data: Path) -> None:
    logs = LogDir(data)
    for topic, numbers in logs.topics().items():
        for partition in numbers:
            assert list(verify_log(logs.partition(topic, partition))) == []


def recover_as_broker(data: Path, copy: Path) -> list[int]:
    """Recover a copy as a broker does when it starts. Return the log end offsets of topic t."""
    shutil.copytree(data, copy)
    (copy / WRITE_INTENT).unlink()
    assert "failed" not in recover(copy).column("status").to_pylist()
    logs = LogDir(copy)
    ends = [logs.partition("t", number).log_end_offset for number in (0, 1)]
    assert_valid(copy)
    shutil.rmtree(copy)
    return ends


DRY_RUNS: dict[Callable[..., pa.Table], dict[str, object]] = {
    recover: {},
    reindex: {},
    retain: {"retention.bytes": 1500, "cleanup.policy": "delete"},
    compact: {"min.cleanable.dirty.ratio": 0, "cleanup.policy": "compact"},
}
NOT_COMPARED = {"path", "filesLeftBehind", "changedSegments"}
"""The directories have other paths, and a kill leaves files behind and entries in the last index."""


def records_in_batches(data: Path) -> int:
    """Return the number of records in topic t, as the headers of the batches state it."""
    logs = LogDir(data)
    headers = (batches for number in (0, 1) for batches in logs.partition("t", number).batches())
    return sum(pc.sum(batches["recordCount"]).as_py() for batches in headers)


def leftovers(data: Path) -> list[str]:
    return [name for name in files(data) if "kafkalog" in name and "-stream-" not in name]


def test_killed_at_any_change(before: Path, tmp_path: Path) -> None:
    committed = 0
    data = tmp_path / "data"
    for step in itertools.count():
        shutil.copytree(before, data)
        was_killed = run_killed(lambda: write_two_topics(data), step)

        # Readers see all records or none.
        is_committed = "u" in LogDir(data).topics()
        assert values(data) == sorted(expected((0, 400)) + written("t") * is_committed), step
        assert values(data, "u") == written("u") * is_committed, step
        committed += is_committed
        kinds = verify(data).column("kind").to_pylist()
        assert kinds == ["unfinished-write"] * (data / WRITE_INTENT).exists(), step
        if (data / WRITE_INTENT).exists():
            assert records_in_batches(data) == 400, step
            first, second = recover_as_broker(data, tmp_path / "copy")
            assert first in (200, 305) and second in (200, 205), step

        # The next write cleans up and writes the batch of the stream exactly once.
        write_two_topics(data)
        assert values(data) == sorted(expected((0, 400)) + written("t")), step
        assert values(data, "u") == written("u"), step
        assert_valid(data)
        assert leftovers(data) == [], step
        shutil.rmtree(data)
        if not was_killed:
            break
    assert step > 100
    assert committed > 1


@pytest.mark.parametrize("appended", [5, 300])
def test_readers_after_a_kill_see_the_records_before_the_commit(appended: int, tmp_path: Path) -> None:
    """The appended batches are in a small segment, which is scanned from its beginning."""
    small, data = tmp_path / "small", tmp_path / "data"
    LogDir.create(small)
    write(small, 0, 5, partitions=1, tasks=1)
    sizes = set()
    for step in itertools.count():
        shutil.copytree(small, data)
        was_killed = run_killed(lambda: write(data, 5, 5 + appended, partitions=1, tasks=1), step)
        log = LogDir(data).partition("t", 0)
        if (data / WRITE_INTENT).exists():
            sizes.add(log.segments[0].path.stat().st_size)
            assert values(data) == expected((0, 5)), step
            assert len(log.read(isolation_level="read_committed").read_all()) == 5
            assert log.offset_for_timestamp(NOW_MS) == 0
            assert log.last_stable_offset == 5
            assert log.offset_for_max_timestamp() == 0
            following = LogDir(data).follow("t", {("t", 0): 0}, timeout_ms=0)
            assert sum(batch.num_rows for batch in following) == 5
        shutil.rmtree(data)
        if not was_killed:
            break
    assert len(sizes) > 1


@pytest.mark.parametrize(("owner", "function"), [(partitions, "write_first_prefix"), (WriteIntent, "commit")])
def test_a_dry_run_after_a_kill_leaves_out_the_write(
    owner: object, function: str, before: Path, tmp_path: Path
) -> None:
    """A run that changes files rolls the write back first.

    The first killed call would have replaced the zeros at which segments begin, the second one is the commit.
    """
    data = tmp_path / "data"
    shutil.copytree(before, data)
    pid = os.fork()
    if pid == 0:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, function, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            write_two_topics(data)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert (data / WRITE_INTENT).exists()
    for run, config in DRY_RUNS.items():
        rows, before_write = (run(path, dry_run=True, config=config) for path in (data, before))
        names = [name for name in rows.column_names if name not in NOT_COMPARED]
        assert rows.select(names) == before_write.select(names)
    assert diff(data, before).read_all().num_rows == 0
    report = salvage(data, tmp_path / "copy")
    assert "lost" not in report.column("status").to_pylist()
    assert values(tmp_path / "copy") == expected((0, 400))


def test_no_space_left_at_any_change(before: Path, tmp_path: Path) -> None:
    untouched, data = files(before), tmp_path / "data"
    failed = 0

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in itertools.count():
        if not data.exists():
            shutil.copytree(before, data)
        try:
            run_interrupted(lambda: write_two_topics(data), step, fail, (*CHANGES, "fsync"))
        except EndOfChangesError:
            break
        except OSError as error:
            assert error.errno == errno.ENOSPC
            if values(data) == expected((0, 400)):
                assert "u" not in LogDir(data).topics(), step
                current = files(data)
                assert {name: current[name] for name in current if name in untouched} == untouched, step
                failed += 1
                continue
        # The failure came after the commit: the next write completes the cleanup.
        assert values(data) == sorted(expected((0, 400)) + written("t")), step
        assert values(data, "u") == written("u"), step
        assert_valid(data)
        shutil.rmtree(data)
    assert failed > 50
    assert not leftovers(data)
