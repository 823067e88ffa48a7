"""Start a Spark driver in a session of its own, and kill it and its Python workers (Linux only)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Process(NamedTuple):
    pid: int
    parent: int
    name: str


class Driver:
    """A driver: a Python process, its JVM, and their Python workers.

    Args:
        command: what starts the driver.
        cwd: its working directory. It must contain the modules that `command` names.
        output: the file to which it prints.
    """

    def __init__(self, command: Sequence[str], cwd: Path, output: Path) -> None:
        self._jvm: Process | None = None
        self._mark = uuid.uuid4().hex
        environment = {**os.environ, "PYTHONPATH": str(cwd), "KAFKALOG_DRIVER": self._mark}
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdout=file, stderr=file, start_new_session=True
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        """Wait until the driver ends and return its exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def find_jvm(self) -> None:
        """Find the JVM, so that it can be killed at once. It takes milliseconds to look at all processes.

        Call this when the driver runs a query: the script that starts a driver runs another JVM before.
        """
        if self._jvm is None:
            self._jvm = next((process for process in self._processes() if process.name == "java"), None)

    def workers(self) -> list[Process]:
        """Return the Python processes that the JVM started, and the daemons that fork them, by age.

        The JVM starts other processes, too: without native code, Hadoop runs chmod.
        """
        processes = self._processes()
        jvms = {process.pid for process in processes if process.name == "java"}
        daemons = {p.pid for p in processes if p.parent in jvms and p.name.startswith("python")}
        return sorted(p for p in processes if p.pid in daemons or p.parent in daemons)

    def kill_jvm(self) -> None:
        """Kill the JVM. The Python processes end by themselves, some of them later."""
        self.find_jvm()
        if self._jvm is not None and self._jvm == self._process_of(self._jvm.pid):
            kill(self._jvm)

    def kill(self) -> None:
        """Kill all processes, the JVM first, and wait until they have ended."""
        self.kill_jvm()
        while processes := self._processes():
            for process in processes:
                kill(process)
            self._process.poll()
            time.sleep(0.005)
        self._process.wait()

    def _processes(self) -> list[Process]:
        """Return the processes of the driver's session. Python workers have their own process groups."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        return [process for pid in pids if (process := self._process_of(pid)) is not None]

    def _process_of(self, pid: int) -> Process | None:
        """Return a process of the driver; None if it has ended, or is not one.

        The number of a session that has ended may be used again, so it is not enough to look at that.
        """
        folder = Path(f"/proc/{pid}")
        try:
            stat = (folder / "stat").read_text()
            state, parent, _, session, *_ = stat[stat.rindex(")") + 2 :].split()
            if int(session) != self._process.pid or state in "ZX":
                return None
            if f"KAFKALOG_DRIVER={self._mark}".encode() not in (folder / "environ").read_bytes():
                return None
        except OSError:
            return None
        return Process(pid, int(parent), stat[stat.index("(") + 1 : stat.rindex(")")])


def kill(process: Process) -> None:
    """Kill a process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
