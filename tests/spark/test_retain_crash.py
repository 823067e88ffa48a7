"""Retention with Spark when the driver is killed; and its spark-submit program."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from kafkalog_spark.retention import _plan_all
from native_log.config import LogConfig
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.maintenance import open_for_maintenance, select_changeable
from native_log.policies import Request, retention_policy
from native_log.retention.execution import execute_plans
from tests.retention.test_golden import files

from .test_compact_job import ROOT, run_here, submit
from .test_retain import NEWEST, arguments, copy

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CHANGES = ("rename", "replace", "unlink", "remove", "open")


def plan_and_execute(data: Path, options: dict[str, Any]) -> None:
    """Do the work of the driver and of its tasks in this process."""
    request = Request.of(None, options["config"])
    with ExitStack() as stack:
        log_dir = stack.enter_context(open_for_maintenance(data, False))
        directories = [
            (
                DirectorySource(str(d.path), d.topic, d.partition, log_dir.checkpoints(d)),
                retention_policy(d.topic, log_dir.topic_facts(d), request),
            )
            for d in select_changeable(log_dir, None)
        ]
        result = _plan_all(directories, options["now_ms"], dry_run=False)
        execute_plans(result.plans, options["now_ms"])


def survives_step(step: int, data: Path, options: dict[str, Any]) -> bool:
    """Enforce retention in a process that is killed at its `step`-th change to a directory.

    Return whether the process finished before that.
    """
    child = os.fork()
    if child == 0:
        left = step

        def count_and_kill(real: Any) -> Any:
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
                setattr(os, name, count_and_kill(getattr(os, name)))
            plan_and_execute(data, options)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


@pytest.mark.parametrize("before", NEWEST[:3], ids=lambda before: before.parent.name)
def test_a_driver_killed_at_any_change(tmp_path: Path, before: Path) -> None:
    options = arguments(before)
    whole = copy(before, tmp_path / "whole")
    plan_and_execute(whole, options)
    topic = before.parent.name

    def offsets(data: Path) -> tuple[int, int]:
        log = native_log.LogDir(data).partition(topic, 0)
        return log.log_start_offset, log.log_end_offset

    as_before, as_after = offsets(before / "data"), offsets(whole)
    step, completed = 0, False
    while not completed:
        data = copy(before, tmp_path / "data")
        completed = survives_step(step, data, options)

        assert offsets(data) in (as_before, as_after)
        native_log.retain(data, **options)
        assert offsets(data) == as_after
        assert {name for name in files(data) if name.endswith(".log")} == {
            name for name in files(whole) if name.endswith(".log")
        }
        shutil.rmtree(data)
        step += 1
    assert step > 5


@pytest.mark.spark
def test_the_spark_submit_program(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = NEWEST[0]
    options = arguments(before)
    local, data = (copy(before, tmp_path / name) for name in ("local", "data"))
    expected = native_log.retain(local, **options)
    settings = [part for item in options["config"].items() for part in ("--conf", "=".join(item))]
    command_line = (data, "--now-ms", str(options["now_ms"]), *settings)

    assert run_here(spark, "retain.py", *command_line, "--dry-run") == 0
    dry = capsys.readouterr()
    assert files(data) == files(before / "data")
    deleted = expected.column("decision").to_pylist().count("deleted")
    assert dry.out.count("|would be deleted|") == deleted
    assert "{retention." in dry.out
    assert f"{deleted} segments of 1 partitions would be deleted" in dry.err

    done = submit("retain.py", *command_line)
    assert done.returncode == 0, done.stdout
    assert files(data) == files(local)


def test_the_annotated_defaults_are_the_defaults() -> None:
    lines = (ROOT / "conf" / "retain.properties").read_text().splitlines()
    # A setting in the file would override the stored setting of a topic.
    assert all(line.startswith("#") for line in lines if line)
    settings = dict(line[1:].split("=", 1) for line in lines if re.match("#[a-z.]+=", line))
    assert len(settings) == 4
    assert LogConfig.parse(settings) == LogConfig()
