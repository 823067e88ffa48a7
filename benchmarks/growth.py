"""Memory: how far a process grew above its start, by the kernel's own record of its peak (Linux only)."""

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


@dataclass(frozen=True, slots=True)
class Growth:
    """What one reader took at most while it read one topic."""

    contender: str
    corpus: str
    start_bytes: int
    peak_bytes: int

    @property
    def grown_bytes(self) -> int:
        return self.peak_bytes - self.start_bytes


def peak_reset(name: str) -> dict[int, int]:
    """Resident bytes, by pid, of what this process started with `name` in its command; peaks begin anew."""
    return {pid: _reset(Path("/proc", str(pid))) for pid in _descendants(name)}


def peaks(name: str) -> dict[int, int]:
    """The most that each of them had resident since."""
    return {pid: _status(Path("/proc", str(pid)), "VmHWM") for pid in _descendants(name)}


def of_partition_log(partition: Path, topic: str, columns: Sequence[str]) -> Growth:
    """In a fresh process: everything imported, then the partition read from end to end."""
    command = [sys.executable, "-m", "benchmarks.growth", str(partition), topic, *columns]
    return Growth(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def reset_self() -> int:
    """Resident bytes of this process; its peak begins anew."""
    return _reset(Path("/proc/self"))


def peak_of_self() -> int:
    return _status(Path("/proc/self"), "VmHWM")


def _read(partition: str, topic: str, columns: list[str]) -> Growth:
    from native_log.log import PartitionLog

    start = reset_self()
    for _ in PartitionLog.open(Path(partition)).read(columns=columns):
        pass
    return Growth("PartitionLog.read", topic, start, peak_of_self())


def _reset(process: Path) -> int:
    (process / "clear_refs").write_text("5")  # see proc(5): resets VmHWM
    return _status(process, "VmRSS")


def _status(process: Path, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", (process / "status").read_text(), re.MULTILINE)
    return int(found[1]) * KIB if found else 0


def _descendants(name: str) -> Iterator[int]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # or a zombie, which is one of these
            if any(name in word for word in process.cmdline()):
                yield process.pid


if __name__ == "__main__":
    print(json.dumps(asdict(_read(sys.argv[1], sys.argv[2], sys.argv[3:]))))
