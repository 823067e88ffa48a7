"""A small Spark cluster: a driver in a separate process, and two executors on separate hosts.

The hosts are two addresses of the loopback device, because Spark runs a second attempt of a slow task only on
another host. The directory HIDDEN below the cluster's directory is visible to the driver, but not to the
Python workers of the executors. These have a mount namespace of their own, if the system allows it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FunctionType

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
CORES = 2
HIDDEN = "hidden"
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.master.ui.enabled": "false",
    "spark.worker.ui.enabled": "false",
    "spark.master.rest.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": str(CORES),
    "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    # A killed executor fails each task once. The tests expect no other failure that a retry would hide.
    "spark.task.maxFailures": "2",
    # A task is slow if it takes more than half a second after other tasks have finished.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.efficiency.enabled": "false",
}
PYTHON = """#!/bin/sh
if grep -q ExecutorBackend /proc/$PPID/cmdline; then
    exec {unshare} sh -c 'mount -t tmpfs none {hidden} && exec {python} "$@"' python "$@"
fi
exec {python} "$@"
"""
_REPLY = "reply: "
_TIMEOUT_SECONDS = 300


class Driver:
    """Controls the driver's process from the test process. Starts it when it is needed."""

    def __init__(self, path: Path, master: str = "") -> None:
        self.path = path
        self._master = master
        self._process: subprocess.Popen[str] | None = None

    def call(self, function: FunctionType, *arguments: Any) -> Any:
        """Call `function(spark, *arguments)` in the driver, and return its result.

        Arguments and result are passed as JSON, and paths as strings. Raises RuntimeError with the traceback
        if the function raises an error.
        """
        self.begin(function, *arguments)
        process = self._running()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_REPLY):
                value, error = json.loads(line.removeprefix(_REPLY))
                if error is not None:
                    raise RuntimeError(error)
                return value
        raise AssertionError("the driver died")

    def begin(self, function: FunctionType, *arguments: Any) -> None:
        """Start the call without waiting for its result."""
        process = self._running()
        assert process.stdin is not None
        module = _module(function.__code__.co_filename)
        json.dump([module, function.__name__, arguments], process.stdin, default=str)
        process.stdin.write("\n")
        process.stdin.flush()

    def kill_when(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` is true, then kill the driver."""
        process = self._running()
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not condition():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            with (self.path / "stderr").open("ab") as stderr:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", _module(__file__), str(self.path), self._master],
                    env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
                    cwd=self.path,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                    text=True,
                )
        return self._process


def _module(file: str) -> str:
    """Return the dotted name of the module. The processes of the cluster import modules from ROOT."""
    return ".".join(Path(file).relative_to(ROOT).with_suffix("").parts)


def unshare() -> str | None:
    """Return the command that gives a process its own mount namespace; None if that is not allowed."""
    for command in ("unshare -m", "unshare -rm"):
        try:
            result = subprocess.run(
                [*command.split(), "mount", "-t", "tmpfs", "none", "/proc"], capture_output=True, check=False
            )
        except FileNotFoundError:
            return None
        if result.returncode == 0:
            return command
    return None


def _python(path: Path) -> Path:
    """Return a Python executable that does not see HIDDEN when an executor runs it."""
    hidden, python = path / HIDDEN, path / "python"
    hidden.mkdir(exist_ok=True)
    command = unshare()
    if command is None:
        return Path(sys.executable)
    python.write_text(PYTHON.format(unshare=command, hidden=hidden, python=sys.executable))
    python.chmod(0o755)
    return python


def _session(path: Path, master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    # Tasks of a data source that Spark discovers by itself run with the driver's Python.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(path))
    builder = SparkSession.builder.config(map=CONFIG).appName("kafkalog tests")
    session = builder.master(master or _begin_cluster(path)).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def _begin_cluster(path: Path) -> str:
    """Start a master and workers, as Spark's master "local-cluster" does, but on two hosts.

    They run in the driver's JVM and end with it.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    assert jvm is not None and gateway is not None
    deploy, option = jvm.org.apache.spark.deploy, jvm.scala.Option
    conf = jvm.org.apache.spark.SparkConf()
    for name, value in CONFIG.items():
        conf.set(name, value)
    address = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)._1().address()
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = address.toSparkURL()
    for number, host in enumerate(HOSTS):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            *(host, 0, 0, CORES, 1024, urls, str(path / "work"), option.apply(number), conf, option.empty())
        )
    return str(urls[0])


def _serve(path: Path, master: str) -> Iterator[str]:
    spark = _session(path, master)
    for line in sys.stdin:
        module, name, arguments = json.loads(line)
        try:
            function = getattr(importlib.import_module(module), name)
            yield json.dumps([function(spark, *arguments), None])
        except Exception:
            yield json.dumps([None, traceback.format_exc()])


if __name__ == "__main__":
    for _reply in _serve(Path(sys.argv[1]), sys.argv[2]):
        print(f"{_REPLY}{_reply}", flush=True)
