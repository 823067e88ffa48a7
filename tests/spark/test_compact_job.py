"""The spark-submit program for compaction."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log.config import LogConfig
from tests.contents import files

from .test_compact import CONFIG, NOW_MS, log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


JOBS = ROOT / "kafkalog_spark" / "jobs"


def submit(job: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of kafkalog_spark/jobs with spark-submit."""
    home = Path(os.environ["SPARK_HOME"])
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    confs = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    return subprocess.run(
        [home / "bin" / "spark-submit", "--master", "local[2]", *confs, JOBS / job, *arguments],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
        check=False,
    )


def run_here(spark: SparkSession, job: str, *arguments: str | Path) -> int:
    """Run a program of kafkalog_spark/jobs in this process and session. Return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [job, *map(str, arguments)])
        patch.setattr(type(spark), "stop", lambda _: None)
        try:
            runpy.run_path(str(JOBS / job), run_name="__main__")
        except SystemExit as end:
            assert isinstance(end.code, int)
            return end.code
        finally:
            spark.sparkContext.setLogLevel("OFF")  # the program changes it
    raise AssertionError(f"{job} did not exit")


def test_compact(tmp_path: Path) -> None:
    topics = ("compact-txn", "compact-idem", "compact-codecs")
    local, data = (log_dir(tmp_path / name, "round1", topics) for name in ("local", "data"))
    native_log.compact(local, ["compact-txn", "compact-idem"], config=CONFIG, now_ms=NOW_MS)
    conf_file = tmp_path / "my.properties"
    conf_file.write_text("# mine\n" + "\n".join(f"{name} = {value}" for name, value in CONFIG.items()))

    done = submit(
        *("compact.py", data, *(part for topic in topics for part in ("--topic", topic))),
        *("--exclude-topic", "compact-codecs"),
        *("--conf-file", conf_file, "--now-ms", str(NOW_MS)),
    )

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("|cleaned|") == 2
    assert files(data) == files(local)


def test_errors_are_printed(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(spark, "compact.py", tmp_path / "nothing") == 1
    missing = capsys.readouterr()
    (message,) = [line for line in missing.err.splitlines() if line.startswith("compact: ")]
    assert "no such directory" in message
    assert "Traceback" not in missing.out + missing.err

    data = log_dir(tmp_path / "data", "round1", ("compact-idem",))
    misspelled = submit("compact.py", data, "--conf", "min.cleanable.dirty.ration=0.1")
    assert misspelled.returncode == 2
    assert "did you mean 'min.cleanable.dirty.ratio'?" in misspelled.stdout


def test_the_annotated_defaults_are_the_defaults() -> None:
    lines = (ROOT / "conf" / "compact.properties").read_text().splitlines()
    # A setting in the file would override the stored setting of a topic.
    assert all(line.startswith("#") for line in lines if line)
    settings = dict(line[1:].split("=", 1) for line in lines if re.match("#[a-z.]+=", line))
    assert len(settings) > 10
    assert LogConfig.parse(settings) == LogConfig.parse({"cleanup.policy": "compact"})
