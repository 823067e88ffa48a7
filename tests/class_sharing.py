"""Archives of a JVM's classes, which halve the time that a broker and Spark take to start (JEP 350)."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker import Broker
from benchmarks.jvm import jars, java_tool
from benchmarks.paths import cache

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
"""Options for a JVM that lives some seconds or minutes: compile less, and use fewer threads."""

SPARK_PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, 100, 1, 2).selectExpr("concat('k', id % 7) key", "id")
rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(sys.argv[1])
spark.read.parquet(sys.argv[1]).groupBy("key").count().orderBy("key").collect()
spark.stop()
"""


@functools.cache
def broker_options(kafka: Path) -> list[str]:
    """Return the JVM options for a broker of this version; make the archive if there is none."""

    def run(options: list[str], folder: Path) -> None:
        with Broker(folder / "logs", options=options, kafka=kafka):
            pass

    return _options_with_archive(str(jars(kafka)), run)


@functools.cache
def spark_options(home: str) -> list[str]:
    """Return the JVM options for the Spark in a directory; make the archive if there is none."""
    import pyspark

    def run(options: list[str], folder: Path) -> None:
        program = folder / "program.py"
        program.write_text(SPARK_PROGRAM)
        settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1"]
        confs = [part for setting in settings for part in ("--conf", setting)]
        # The JVM that runs spark-submit writes the archive before it ends; that of a Python program does not.
        done = subprocess.run(
            [Path(home, "bin", "spark-submit"), "--master", "local[2]", *confs, program, folder / "rows"],
            env={
                **os.environ,
                "SPARK_HOME": home,
                "SPARK_SUBMIT_OPTS": " ".join(options),
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:]

    return _options_with_archive(f"{home} {pyspark.__version__}", run)


def _options_with_archive(classes: str, run: Callable[[list[str], Path], None]) -> list[str]:
    """Return the options for JVMs of a class path.

    Args:
        classes: names the class path and its version.
        run: starts a JVM with the options, and ends it. It may use the directory.
    """
    version = subprocess.run([java_tool("java"), "-version"], capture_output=True, check=True).stderr
    name = hashlib.sha256(version + classes.encode()).hexdigest()[:12]
    cache().mkdir(parents=True, exist_ok=True)
    archive = cache() / f"classes-{name}.jsa"
    with (cache() / f"classes-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            partial = archive.with_suffix(".partial")
            with tempfile.TemporaryDirectory() as folder:
                run([*OPTIONS, "-Xlog:cds*=off", f"-XX:ArchiveClassesAtExit={partial}"], Path(folder))
            partial.rename(archive)
    # A JVM with another class path cannot use the archive, and is not to say so on its standard output.
    return [*OPTIONS, "-Xlog:cds*=off", f"-XX:SharedArchiveFile={archive}"]
