"""Write jobs: the marker file of a job in progress, and the removal of what ended jobs left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.json_fields import integer, text
from native_log.checkpoints.names import deleted_name, parse_partition_name
from native_log.checkpoints.write_intent import WRITE_INTENT
from native_log.errors import KafkaLogError
from native_log.storage import is_directory, read_file
from native_log.storage.writing import removal_name, remove_file, remove_folder, remove_tree, replace_file
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_MARKER_PREFIX = ".kafkalog-job-"
_ENDED_SUFFIX = "-ended"
_STAGING_PREFIX = ".kafkalog-write-"
_JOB_ID = re.compile(r"[0-9a-f]{32}")
_JOB_NAMESPACE = uuid.UUID("6b61666b-616c-4f67-8a6f-62732e6e616d")
_ABANDONED_MS = 24 * 3600 * 1000
"""Age at which a job counts as dead if its owner cannot be checked, as on another host."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process without which a job can no longer be committed.

    Attributes:
        host: its host name.
        boot: the boot id of the host; empty if unknown.
        pid_namespace: the PID namespace in which its process id is valid; each container has its own.
        pid: its process id.
        started: its start time in clock ticks since boot; empty if there is no such process.
    """

    host: str
    boot: str
    pid_namespace: str
    pid: int
    started: str

    @classmethod
    def from_pid(cls, pid: int) -> Self:
        """Describe a process of this host."""
        return cls(socket.gethostname(), _boot_id(), _pid_namespace(), pid, _start_time(pid))

    @classmethod
    def parse(cls, fields: Mapping[str, object]) -> Self:
        """Return the owner in a marker file. Raises ValueError, TypeError, LookupError."""
        names = ("host", "boot", "pid_namespace", "started")
        host, boot, pid_namespace, started = (text(fields[name]) for name in names)
        return cls(host, boot, pid_namespace, integer(fields["pid"]), started)

    def is_dead(self) -> bool | None:
        """Return whether the process has ended; None if this process cannot tell."""
        if self.host != socket.gethostname() or not self.boot:
            return None
        if self.boot != _boot_id():
            return True
        return None if self.pid_namespace != _pid_namespace() else _start_time(self.pid) != self.started


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write to a log directory, from its planning to its commit or abort. Contains plain values only.

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
        created_log_dir: bool = False,
    ) -> Self:
        """Begin a job: write its marker file, which protects its staged files as long as its owner lives.

        Args:
            owner: default: this process.
            name: identifies a sequence of jobs, one after the other, which get the same id. None: a random
                id.
            created_log_dir: whether the log directory was created for this job.

        Raises FileNotFoundError if the log directory does not exist; OSError.
        """
        job_id = uuid.uuid4().hex if name is None else uuid.uuid5(_JOB_NAMESPACE, name).hex
        job = cls(job_id, os.fspath(log_dir))
        content = {
            "owner": asdict(owner or Owner.from_pid(os.getpid())),
            "created_log_dir": created_log_dir or job._created_log_dir(),
        }
        while True:
            try:
                replace_file(job.marker, json.dumps(content).encode())
                return job
            except FileNotFoundError:  # Another writer has just removed the temporary file as abandoned.
                if not Path(log_dir).is_dir():
                    raise

    @property
    def marker(self) -> Path:
        """Path of the marker file. It exists while the job is in progress."""
        return Path(self.log_dir, f"{_MARKER_PREFIX}{self.id}")

    def staging_folder(self, partition_dir: str) -> Path:
        """Return the path of the job's staging folder in a partition directory, which is given by name."""
        return Path(self.log_dir, partition_dir, f"{_STAGING_PREFIX}{self.id}")

    def new_partition_dir(self, topic: str, partition: int) -> str:
        """Return the name of the directory in which the job prepares a new partition.

        The name is that of a deleted partition: a broker that finds the directory removes it.
        """
        return deleted_name(topic, partition, self.id)

    def check(self) -> None:
        """Raise KafkaLogError if the job has ended."""
        if not self.marker.exists():
            raise KafkaLogError(
                "expected a write in progress, found that it was aborted; run the write again",
                path=self.log_dir,
            )

    def end(self) -> None:
        """End the job: remove its marker and all its staged files. Tasks that still run fail in `check`."""
        ended = self.marker.with_name(f"{self.marker.name}{_ENDED_SUFFIX}")
        with contextlib.suppress(FileNotFoundError):
            self.marker.rename(ended)
        remove_staging(Path(self.log_dir), {self.id})
        remove_file(ended)

    def abort(self) -> None:
        """End the job, and remove the log directory if it was created for the job and is not used otherwise.

        It is used if it contains a directory, such as a partition, or another job in progress.
        """
        created_log_dir = self._created_log_dir()
        self.end()
        path = Path(self.log_dir)
        if not created_log_dir or any(entry.is_dir() for entry in path.iterdir()):
            return
        if not has_other_jobs(path):
            shutil.rmtree(path, ignore_errors=True)

    def _created_log_dir(self) -> bool:
        try:
            return bool(json.loads(read_file(str(self.marker), follow_link=False))["created_log_dir"])
        except (FileNotFoundError, ValueError, TypeError, LookupError):
            return False


def has_other_jobs(log_dir: Path, job_id: str | None = None) -> bool:
    """Return whether jobs other than `job_id` are in progress in the log directory."""
    own = f"{_MARKER_PREFIX}{job_id}"
    with os.scandir(log_dir) as entries:
        markers = [
            entry.name for entry in entries if entry.name.startswith(_MARKER_PREFIX) and entry.name != own
        ]
    return not all(name.endswith((_ENDED_SUFFIX, ".tmp")) or _is_dead(log_dir / name) for name in markers)


def remove_staging(log_dir: Path, job_ids: set[str]) -> None:
    """Remove the staging folders of jobs from all partitions, and new partitions they did not publish."""
    job_ids = {job_id for job_id in job_ids if _JOB_ID.fullmatch(job_id)}
    with os.scandir(log_dir) as entries:
        names = [entry.name for entry in entries if parse_partition_name(entry.name) and is_directory(entry)]
    for name in names:
        if any(name.endswith(f".{job_id}-delete") for job_id in job_ids):
            remove_tree(log_dir / name)
            continue
        for job_id in job_ids:
            folder = log_dir / name / f"{_STAGING_PREFIX}{job_id}"
            if folder.exists() or removal_name(folder).exists():
                remove_folder(folder)


def remove_abandoned_jobs(log_dir: Path) -> None:
    """Remove the files of jobs whose owners died. The caller holds the log directory's lock."""
    with os.scandir(log_dir) as entries:
        markers = [entry.name for entry in entries if entry.name.startswith(_MARKER_PREFIX)]
    dead = {name for name in markers if name.endswith((_ENDED_SUFFIX, ".tmp")) or _is_dead(log_dir / name)}
    if dead:
        ended = {name for name in dead if not name.endswith(".tmp")}
        remove_staging(
            log_dir, {name.removeprefix(_MARKER_PREFIX).removesuffix(_ENDED_SUFFIX) for name in ended}
        )
        for name in dead:
            remove_file(log_dir / name)
    remove_file(log_dir / f"{WRITE_INTENT}.tmp")


def remove_orphaned_staging(partition_dir: Path) -> None:
    """Remove staging folders of jobs that have ended: tasks that ran longer than their job left them."""
    with os.scandir(partition_dir) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_STAGING_PREFIX)]
    for name in names:
        job_id = name.removeprefix(_STAGING_PREFIX)
        if not (partition_dir.parent / f"{_MARKER_PREFIX}{job_id}").exists():
            remove_tree(partition_dir / name)


def _is_dead(marker: Path) -> bool:
    try:
        is_old = current_ms() - marker.lstat().st_mtime * 1000 > _ABANDONED_MS
        owner = Owner.parse(json.loads(read_file(str(marker), follow_link=False))["owner"])
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, LookupError):  # incompletely written
        return True
    is_dead = owner.is_dead()
    return is_old if is_dead is None else is_dead


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    """Return the PID namespace of this process, which differs between containers; empty if unknown."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = text[text.rindex(")") + 2 :].split()
    return "" if state == "Z" else fields[18]
