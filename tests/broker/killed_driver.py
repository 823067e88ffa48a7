"""Start a Spark driver in a session of its own, and kill it and its Python workers (Linux only)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
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
        environment = {**os.environ, "PYTHONPATH": str(cwd)}
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdout=file, stderr=file, start_new_session=True
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        """Wait until the driver ends and return its exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def workers(self) -> list[Process]:
        """Return the Python processes that the JVM started, and the daemon that forks them."""
        processes = self._processes()
        jvms = {process.pid for process in processes if process.name == "java"}
        daemons = {process.pid for process in processes if process.parent in jvms}
        return [p for p in processes if p.pid in daemons or p.parent in daemons]

    def kill_jvm(self) -> None:
        """Kill the JVM. The Python processes end by themselves, some of them later."""
        for process in self._processes():
            if process.name == "java":
                kill(process)

    def kill(self) -> None:
        """Kill all processes, and wait until they have ended."""
        while processes := self._processes():
            for process in processes:
                kill(process)
            self._process.poll()
            time.sleep(0.005)
        self._process.wait()

    def _processes(self) -> list[Process]:
        """Return the processes of the driver's session. Python workers have their own process groups."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            state, parent, _, session, *_ = stat[stat.rindex(")") + 2 :].split()
            if int(session) == self._process.pid and state not in "ZX":
                name = stat[stat.index("(") + 1 : stat.rindex(")")]
                found.append(Process(int(entry.name), int(parent), name))
        return found


def kill(process: Process) -> None:
    """Kill a process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
