"""Compaction with Spark that is cut short: killed drivers, tasks tried again, attempts side by side."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import native_log
from kafkalog_spark.cluster import Row, row_batch, rows
from kafkalog_spark.compaction.exchange import PackWriter
from kafkalog_spark.compaction.inspection import inspect_partition
from kafkalog_spark.compaction.install import _put_in_place, remove_staged
from kafkalog_spark.compaction.key_collection import gather_keys
from kafkalog_spark.compaction.merge import united
from kafkalog_spark.compaction.messages import Inspected, LogToClean, Part, Settings, Split
from kafkalog_spark.compaction.rewrite import _Group
from kafkalog_spark.partitions import OpenablePartition
from native_log.config import LogConfig
from native_log.log.replacing.interrupted import STAGING_DIRECTORY, finish_interrupted
from native_log.policies import CompactionPolicy
from native_log.records import DEFAULT_MAX_BATCH_BYTES, Survivors
from tests.compaction.support import files

from .test_compact import CONFIG, IN_PARTS, NOW_MS, log_dir, topics
from .test_compact_job import submit

TOPIC = "compact-idem"
POLICY = CompactionPolicy(LogConfig.parse({**CONFIG, "segment.bytes": "12000"}))
SETTINGS = Settings(POLICY.config.log_cleaner_dedupe_buffer_size, NOW_MS, False)


class Killed(BaseException):
    """As the process would end: nothing catches it."""


def records(data: Path) -> list[dict[str, Any]]:
    log = native_log.LogDir(data).partition(TOPIC, 0)
    return [row for batch in log.read(columns=["offset", "key", "value"]) for row in batch.to_pylist()]


def look(data: Path) -> Inspected:
    """What a task stages, where the driver lets it."""
    (data / f"{TOPIC}-0" / STAGING_DIRECTORY).mkdir(exist_ok=True)
    return inspect_partition(LogToClean(OpenablePartition(*_directory(data)), POLICY), SETTINGS, whole=True)


def _directory(data: Path) -> tuple[Any, ...]:
    log = native_log.LogDir(data).partition(TOPIC, 0)
    return str(log.path), log.topic, log.partition, log.checkpoints


def commit(looked: Inspected) -> None:
    assert looked.statistics is not None and looked.staged
    assert _put_in_place(looked).status == "cleaned"


def commit_until(looked: Inspected, step: int) -> bool:
    """Whether the driver came through before its `step`-th change to a directory."""
    done = 0

    def counted(real: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if done == step:
                raise Killed
            done += 1
            return real(*args, **kwargs)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Path, "rename"), (Path, "unlink"), (shutil, "rmtree")):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            commit(looked)
        except Killed:
            return False
    return True


def test_a_driver_killed_at_any_change(tmp_path: Path) -> None:
    original = log_dir(tmp_path / "original", "round2", (TOPIC,))
    before = records(original)
    whole = Path(shutil.copytree(original, tmp_path / "whole"))
    commit(look(whole))
    after = records(whole)
    assert 0 < len(after) < len(before)
    bases = sorted(int(p.stem) for p in original.glob(f"{TOPIC}-0/*.log"))
    cleaned = [group.base_offsets[0] for group in look(original).staged]
    shutil.rmtree(original / f"{TOPIC}-0" / STAGING_DIRECTORY)
    assert len(cleaned) > 2
    borders = [*cleaned, bases[-1]]

    step, through = 0, False
    while not through:
        data = Path(shutil.copytree(original, tmp_path / "data"))
        through = commit_until(look(data), step)

        # Each group of segments is as it was or as it will be.
        found = records(data)
        for start, end in itertools.pairwise(borders):
            part = [row for row in found if start <= row["offset"] < end]
            as_before, as_after = (
                [row for row in rows if start <= row["offset"] < end] for rows in (before, after)
            )
            assert part in (as_before, as_after)
        # A broker at load, or the next run, settles it without changing a record; then it cleans to the end.
        finish_interrupted(data / f"{TOPIC}-0", DEFAULT_MAX_BATCH_BYTES)
        assert records(data) == found
        looked = look(data)
        if looked.staged:
            commit(looked)
        assert records(data) == after
        assert not [name for name in files(data) if name.endswith((".deleted", ".swap", ".cleaned"))]
        shutil.rmtree(data)
        step += 1
    assert step > 30


def test_of_two_attempts_one_is_taken(tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    looked, other = look(data), look(data)
    assert {one.attempt for one in looked.staged}.isdisjoint(one.attempt for one in other.staged)
    whole = log_dir(tmp_path / "whole", "round2", (TOPIC,))
    commit(look(whole))

    commit(other)

    assert files(data) == files(whole)


def test_an_attempt_that_outlives_the_run(tmp_path: Path) -> None:
    """As on an executor that Spark has given up: it finds the staging directory gone, and leaves nothing."""
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    looked = look(data)
    before = files(data)
    remove_staged([looked.directory.path])
    left = files(data)
    assert left.keys() < before.keys()

    too_late = inspect_partition(LogToClean(looked.directory, POLICY), SETTINGS, whole=True)
    assert too_late.statistics is not None and too_late.statistics.status == "failed"
    with PackWriter(looked.directory.path, 2) as keys, pytest.raises(FileNotFoundError):
        list(keys.bundles([b"a pa", b"ck"]))

    assert files(data) == left
    assert not Path(looked.directory.path, STAGING_DIRECTORY).exists()


def test_a_directory_that_tasks_do_not_see(tmp_path: Path) -> None:
    """Those behind the first look tell it, too."""
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    log = native_log.LogDir(data).partition(TOPIC, 0)
    work = Split(0, 0, log.range(), True, b"", 0, 1, 1), Part(0, 0, look(data).directory, 0, 1, 1)
    shutil.rmtree(data)
    for one in work:
        told, *_ = rows(gather_keys(iter([row_batch(0, pickle.dumps(one))]), SETTINGS))
        assert "does not see this directory" in (pickle.loads(told.payload).error or "")


def test_survivors_of_many_bundles() -> None:
    group = _Group()
    for number in range(100):
        group.take(Row(0, 1 + number, memoryview(Survivors([number]).to_bytes()), None))
    assert len(group.found) < 100
    assert list(united(group.found)) == list(range(100))
    assert len(united([])) == 0


FLAKY = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from kafkalog_spark import compact
from kafkalog_spark.compaction import job, large

def flaky(work):
    def first_in_vain(batches, **how):
        first = TaskContext.get().attemptNumber() == 0
        for batch in work(batches, **how):
            yield batch
            if first:
                raise RuntimeError("this attempt fails after it wrote")
    return first_in_vain

setattr(job, "look", flaky(job.look))
for name in ("gather_keys", "plan_rounds", "decide", "rewrite_groups"):
    setattr(large, name, flaky(getattr(large, name)))
spark = SparkSession.builder.getOrCreate()
config, how = eval(sys.argv[2])
told = compact(spark, sys.argv[1], config=config, **how).collect()
assert [row.status for row in told] == ["cleaned"] * len(told), told
"""


@pytest.mark.spark
def test_every_task_fails_once(tmp_path: Path) -> None:
    local, data = log_dir(tmp_path / "local", "round1"), log_dir(tmp_path / "data", "round1")
    native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS)
    program = tmp_path / "flaky.py"
    program.write_text(FLAKY)

    how = {
        "topics": topics(data),
        "now_ms": NOW_MS,
        **IN_PARTS,
        "split_bytes": 20_000,
    }  # each failure costs a Python process
    done = submit(os.fspath(program), data, repr((CONFIG, how)), master="local[4,3]")

    assert done.returncode == 0, done.stdout
    assert "this attempt fails after it wrote" in done.stdout
    assert files(data) == files(local)
