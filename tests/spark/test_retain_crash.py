"""Retention with Spark that is cut short: killed drivers, tasks tried again; and as a program."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from kafkalog_spark.partitions import OpenablePartition
from kafkalog_spark.retention import _seen
from native_log.config import LogConfig
from native_log.logdir.maintenance import open_for_maintenance, select_partitions
from native_log.policies import Request, retention_policy
from native_log.retention.execution import apply
from tests.retention.test_golden import files

from .test_compact_job import ROOT, submit
from .test_retain import NEWEST, arguments, copy

if TYPE_CHECKING:
    from pathlib import Path

CHANGES = ("rename", "replace", "unlink", "remove", "open")


def looked_and_applied(data: Path, how: dict[str, Any]) -> None:
    """What the driver does, the tasks' part in this process."""
    request = Request.of(None, how["config"])
    with ExitStack() as held:
        log_dir = open_for_maintenance(data, False, held)
        directories = [
            (
                OpenablePartition(str(one.path), one.topic, one.partition, log_dir.checkpoints(one)),
                retention_policy(one.topic, log_dir.topic_facts(one), request),
            )
            for one in select_partitions(log_dir, None)
        ]
        seen = _seen(directories, how["now_ms"], dry_run=False)
        apply(seen.plans, how["now_ms"])


def killed_at(step: int, data: Path, how: dict[str, Any]) -> bool:
    """Whether a process that does it came through before its `step`-th change to a directory."""
    child = os.fork()
    if child == 0:
        left = step

        def counted(real: Any) -> Any:
            def change(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if real.__name__ != "open" or args[1] & (os.O_WRONLY | os.O_RDWR):
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1
                return real(*args, **kwargs)

            return change

        try:
            for name in CHANGES:
                setattr(os, name, counted(getattr(os, name)))
            looked_and_applied(data, how)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


@pytest.mark.parametrize("before", NEWEST[:3], ids=lambda before: before.parent.name)
def test_a_driver_killed_at_any_change(tmp_path: Path, before: Path) -> None:
    how = arguments(before)
    whole = copy(before, tmp_path / "whole")
    looked_and_applied(whole, how)
    topic = before.parent.name

    def offsets(data: Path) -> tuple[int, int]:
        log = native_log.LogDir(data).partition(topic, 0)
        return log.log_start_offset, log.log_end_offset

    as_before, as_after = offsets(before / "data"), offsets(whole)
    step, through = 0, False
    while not through:
        data = copy(before, tmp_path / "data")
        through = killed_at(step, data, how)

        assert offsets(data) in (as_before, as_after)
        native_log.retain(data, **how)
        assert offsets(data) == as_after
        assert {name for name in files(data) if name.endswith(".log")} == {
            name for name in files(whole) if name.endswith(".log")
        }
        shutil.rmtree(data)
        step += 1
    assert step > 5


PROGRAM = """
import os, signal, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from kafkalog_spark import retain, retention

def flaky(work):
    def first_in_vain(batches, **how):
        first = TaskContext.get().attemptNumber() == 0
        for batch in work(batches, **how):
            yield batch
            if first:
                raise RuntimeError("this attempt fails after it looked")
    return first_in_vain

retention.inspect_partition = flaky(retention.inspect_partition)
config, how, kill_at = eval(sys.argv[2])
real, renamed = os.rename, 0
def rename(*args, **kwargs):
    global renamed
    if renamed == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    renamed += 1
    return real(*args, **kwargs)
os.rename = rename
spark = SparkSession.builder.getOrCreate()
retain(spark, sys.argv[1], config=config, **how).collect()
"""


@pytest.mark.spark
def test_tasks_that_fail_once_and_a_driver_that_is_killed(tmp_path: Path) -> None:
    before = NEWEST[0]
    how = arguments(before)
    local, data = (copy(before, tmp_path / name) for name in ("local", "data"))
    native_log.retain(local, **how)
    program = tmp_path / "flaky.py"
    program.write_text(PROGRAM)
    config = how.pop("config")

    killed = submit(os.fspath(program), data, repr((config, how, 2)), master="local[2,3]")
    assert killed.returncode != 0
    assert files(data) != files(local)

    done = submit(os.fspath(program), data, repr((config, how, None)), master="local[2,3]")
    assert done.returncode == 0, done.stdout
    assert "this attempt fails after it looked" in done.stdout
    assert files(data) == files(local)


@pytest.mark.spark
def test_the_program(tmp_path: Path) -> None:
    before = NEWEST[0]
    how = arguments(before)
    local, data = (copy(before, tmp_path / name) for name in ("local", "data"))
    told = native_log.retain(local, **how)
    settings = [part for item in how["config"].items() for part in ("--conf", "=".join(item))]
    asked = (data, "--now-ms", str(how["now_ms"]), *settings)

    dry = submit("retain.py", *asked, "--dry-run")
    assert dry.returncode == 0, dry.stdout
    assert files(data) == files(before / "data")
    deleted = told.column("decision").to_pylist().count("deleted")
    assert dry.stdout.count("|deleted |") + dry.stdout.count("|deleted|") == deleted
    assert f"{deleted} segments of 1 partitions would be deleted" in dry.stdout

    done = submit("retain.py", *asked)
    assert done.returncode == 0, done.stdout
    assert files(data) == files(local)


def test_the_annotated_defaults_are_the_defaults() -> None:
    lines = (ROOT / "conf" / "retain.properties").read_text().splitlines()
    assert all(line.startswith("#") for line in lines if line)  # each would override a topic's stored one
    settings = dict(line[1:].split("=", 1) for line in lines if re.match("#[a-z.]+=", line))
    assert len(settings) == 4
    assert LogConfig.parse(settings) == LogConfig()
