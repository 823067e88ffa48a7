"""Measure how much a process grows, by the peak that the Linux kernel records for it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Growth:
    """The memory of one contender: resident bytes at its start and at their peak."""

    contender: str
    corpus: str
    start_bytes: int
    peak_bytes: int

    @property
    def grown_bytes(self) -> int:
        return self.peak_bytes - self.start_bytes


def reset_peaks(name: str) -> dict[int, int]:
    """Reset the peaks of descendant processes with `name` in their command; return resident bytes by pid."""
    return {pid: _reset(Path("/proc", str(pid))) for pid in _descendants(name)}


def peaks(name: str) -> dict[int, int]:
    """Return the peaks, in bytes by pid, of descendant processes with `name` in their command."""
    return {pid: _status(Path("/proc", str(pid)), "VmHWM") for pid in _descendants(name)}


def measure_partition_log(partition: Path, topic: str, columns: Sequence[str]) -> Growth:
    """Read a whole partition in a new process and return that process's growth after its imports."""
    command = [sys.executable, "-m", "benchmarks.memory", str(partition), topic, *columns]
    return Growth(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def reset_own_peak() -> int:
    """Reset the peak of this process; return its resident bytes."""
    return _reset(Path("/proc/self"))


def own_peak() -> int:
    return _status(Path("/proc/self"), "VmHWM")


def _read(partition: str, topic: str, columns: list[str]) -> Growth:
    from native_log.log import PartitionLog

    start = reset_own_peak()
    for _ in PartitionLog.open(Path(partition)).read(columns=columns):
        pass
    return Growth("PartitionLog.read", topic, start, own_peak())


def _reset(process: Path) -> int:
    (process / "clear_refs").write_text("5")  # see proc(5): resets VmHWM
    return _status(process, "VmRSS")


def _status(process: Path, field: str) -> int:
    match = re.search(rf"^{field}:\s+(\d+) kB$", (process / "status").read_text(), re.MULTILINE)
    return int(match[1]) * KIB if match else 0


def _descendants(name: str) -> Iterator[int]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # zombies raise it, too
            if any(name in word for word in process.cmdline()):
                yield process.pid


if __name__ == "__main__":
    print(json.dumps(asdict(_read(sys.argv[1], sys.argv[2], sys.argv[3:]))))
