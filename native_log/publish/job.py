"""A write under way: the mark that says so, and what is left of those that are not."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.logdir.names import deleted_name
from native_log.logdir.unfinished import UNFINISHED_WRITE
from native_log.storage import is_directory, read_file
from native_log.storage.writing import gone_name, remove_file, remove_folder, replace_file

if TYPE_CHECKING:
    from typing import Self

_MARK = ".kafkalog-job-"
_ENDED = "-ended"
_FOLDER = ".kafkalog-write-"
_NAMES = uuid.UUID("6b61666b-616c-4f67-8a6f-62732e6e616d")
_ABANDONED_MS = 24 * 3600 * 1000
"""A job of another host, whose process cannot be looked for, is taken for dead after so long."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process without which a job cannot be committed any more."""

    host: str
    boot: str
    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Self:
        return cls(socket.gethostname(), _boot(), pid, _started(pid))

    def is_dead(self) -> bool | None:
        """None if it cannot be told from here."""
        if self.host != socket.gethostname() or not self.boot:
            return None
        return self.boot != _boot() or _started(self.pid) != self.started


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write to a log directory, from its planning to its commit or abort. Plain values.

    Attributes:
        id: 32 hexadecimal digits.
        log_dir: the directory's path.
    """

    id: str
    log_dir: str

    @classmethod
    def begin(
        cls,
        log_dir: str | os.PathLike[str],
        owner: Owner | None = None,
        *,
        name: str | None = None,
        made_log_dir: bool = False,
    ) -> Self:
        """Mark that a job is under way: what it stages is left alone while its owner lives.

        Args:
            name: of jobs that follow one another: whoever says it again means the same job.
            made_log_dir: the log directory was made for this job.
        """
        job = cls(uuid.uuid4().hex if name is None else uuid.uuid5(_NAMES, name).hex, os.fspath(log_dir))
        told = {
            "owner": asdict(owner or Owner.of(os.getpid())),
            "made_log_dir": made_log_dir or job._made_log_dir(),
        }
        while True:
            try:
                replace_file(job.mark, json.dumps(told).encode())
                return job
            except FileNotFoundError:  # another write, sweeping just then, took the file for a dead one's
                if not Path(log_dir).is_dir():
                    raise

    @property
    def mark(self) -> Path:
        return Path(self.log_dir, f"{_MARK}{self.id}")

    def folder(self, partition_dir: str) -> Path:
        """Where the job's files of a partition lie."""
        return Path(self.log_dir, partition_dir, f"{_FOLDER}{self.id}")

    def new_partition(self, topic: str, partition: int) -> str:
        """Name of the directory in which a partition that is not there yet is made.

        A broker takes it for one that was deleted: if it finds it, it removes it.
        """
        return deleted_name(topic, partition, self.id)

    def check(self) -> None:
        """Raises KafkaLogError if the job was aborted."""
        if not self.mark.exists():
            raise KafkaLogError("this write was aborted", path=self.log_dir)

    def end(self) -> None:
        """Remove all that the job has staged. Whatever its tasks still do comes to nothing."""
        ended = self.mark.with_name(f"{self.mark.name}{_ENDED}")
        with contextlib.suppress(FileNotFoundError):
            self.mark.rename(ended)
        remove_staged(Path(self.log_dir), {self.id})
        remove_file(ended)

    def abort(self) -> None:
        """The same, and the log directory too if it was made for the job and nothing else is in it."""
        made = self._made_log_dir()
        self.end()
        path = Path(self.log_dir)
        if made and not any(one.is_dir() for one in path.iterdir()) and not other_jobs(path):
            shutil.rmtree(path, ignore_errors=True)

    def _made_log_dir(self) -> bool:
        try:
            return bool(json.loads(read_file(str(self.mark)))["made_log_dir"])
        except (FileNotFoundError, ValueError, LookupError):
            return False


def other_jobs(log_dir: Path, job: str | None = None) -> bool:
    """Whether other writes to the log directory are under way."""
    with os.scandir(log_dir) as entries:
        marks = [one.name for one in entries if one.name.startswith(_MARK) and one.name != f"{_MARK}{job}"]
    return not all(name.endswith((_ENDED, ".tmp")) or _is_dead(log_dir / name) for name in marks)


def remove_staged(log_dir: Path, jobs: set[str]) -> None:
    """Remove the folders of jobs in all partitions, and partitions they have not published."""
    with os.scandir(log_dir) as entries:
        names = [entry.name for entry in entries if is_directory(entry)]
    for name in names:
        if any(name.endswith(f".{job}-delete") for job in jobs):
            shutil.rmtree(log_dir / name, ignore_errors=True)
            continue
        for job in jobs:
            folder = log_dir / name / f"{_FOLDER}{job}"
            if folder.exists() or gone_name(folder).exists():
                remove_folder(folder)


def sweep(log_dir: Path) -> None:
    """Remove what jobs have left whose owners died. Hold the log directory's lock."""
    with os.scandir(log_dir) as entries:
        marks = [entry.name for entry in entries if entry.name.startswith(_MARK)]
    dead = {name for name in marks if name.endswith((_ENDED, ".tmp")) or _is_dead(log_dir / name)}
    if dead:
        jobs = {name.removeprefix(_MARK).removesuffix(_ENDED) for name in dead if not name.endswith(".tmp")}
        remove_staged(log_dir, jobs)
        for name in dead:
            remove_file(log_dir / name)
    remove_file(log_dir / f"{UNFINISHED_WRITE}.tmp")


def sweep_partition(partition_dir: Path) -> None:
    """Remove folders in a partition's directory of jobs that have ended: of tasks that outlived them."""
    with os.scandir(partition_dir) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_FOLDER)]
    for name in names:
        job = name.removeprefix(_FOLDER)
        if not (partition_dir.parent / f"{_MARK}{job}").exists():
            shutil.rmtree(partition_dir / name, ignore_errors=True)


def _is_dead(mark: Path) -> bool:
    try:
        old = time.time() * 1000 - mark.stat().st_mtime * 1000 > _ABANDONED_MS
        owner = Owner(**json.loads(read_file(str(mark)))["owner"])
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, LookupError):  # half written
        return True
    is_dead = owner.is_dead()
    return old if is_dead is None else is_dead


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process was started, "" if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = text[text.rindex(")") + 2 :].split()
    return "" if state == "Z" else fields[18]
