"""Create log directories, topics and partitions (Kafka: StorageTool, LogManager.getOrCreateLog)."""

from __future__ import annotations

import base64
import errno
import os
import re
import shutil
import time
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import write_leader_epochs
from native_log.checkpoints.lock import LOCK_FILE
from native_log.checkpoints.meta_properties import META_PROPERTIES
from native_log.checkpoints.names import METADATA_TOPIC, deleted_name, is_legal_topic, parse_partition_name
from native_log.checkpoints.offset_checkpoints import (
    CHECKPOINT_FILES,
    CLEANER_OFFSET_CHECKPOINT,
    write_offset_checkpoint,
)
from native_log.checkpoints.partition_metadata import write_topic_id
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_FILE, ClosedLog, WriteSession
from native_log.config import LogConfig
from native_log.errors import InvalidTopicError, TopicExistsError
from native_log.segment.writer import SegmentWriter
from native_log.storage import is_directory
from native_log.storage.opening import make_folder
from native_log.storage.ownership import create_directories
from native_log.storage.writing import flush_files, fsync_directory, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_CLUSTER_ID = re.compile(r"[A-Za-z0-9._=-]+")
_MADE_FIRST = {LOCK_FILE, CLEAN_SHUTDOWN_FILE, *CHECKPOINT_FILES}
_BEFORE_META_PROPERTIES = _MADE_FIRST | {f"{name}.tmp" for name in (*_MADE_FIRST, META_PROPERTIES)}
_RESERVED_UUIDS = frozenset({"A" * 22, "A" * 21 + "B"})


def random_uuid() -> str:
    """Return a new id in Kafka's format: 22 characters of base64url that do not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def create_log_dir(path: Path, cluster_id: str, node_id: int, *, version: int = 1) -> None:
    """Create a log directory, formatted for a broker and marked as cleanly shut down.

    `version` is that of meta.properties: 1 for a KRaft broker, 0 for a broker of a ZooKeeper cluster.

    A directory that an interrupted call left incomplete is completed. Raises FileExistsError if `path` exists
    and is not empty otherwise; ValueError for invalid ids.
    """
    check_identity(cluster_id, node_id)
    create_directories(path)
    if set(os.listdir(path)) - _BEFORE_META_PROPERTIES:  # noqa: PTH208
        raise FileExistsError(
            errno.EEXIST,
            "expected a path for a new log directory that does not exist or is empty, found other files",
            str(path),
        )
    for name in CHECKPOINT_FILES:
        if name != CLEANER_OFFSET_CHECKPOINT:
            write_offset_checkpoint(path / name, {})
    replace_file(path / CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN)
    written = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    properties = {
        "cluster.id": cluster_id,
        "directory.id": random_uuid(),
        "node.id" if version else "broker.id": node_id,
        "version": version,
    }
    lines = [f"{name}={value}\n" for name, value in properties.items()]
    # This file is written last: it makes the directory a log directory.
    replace_file(path / META_PROPERTIES, f"#\n#{written}\n{''.join(lines)}".encode())


def check_identity(cluster_id: str, node_id: int) -> None:
    """Raise ValueError if a broker would reject the cluster id or the node id."""
    if _CLUSTER_ID.fullmatch(cluster_id) is None or node_id < 0:
        raise ValueError(
            "expected a cluster id of letters, digits, '-', '_', '.' and '=', and a node id of at least 0, "
            f"found {cluster_id!r} and {node_id}"
        )


def check_topic(topic: str, partitions: int) -> None:
    """Check a topic to create or to write to.

    Raises InvalidTopicError for an illegal name and for the log of the controllers; ValueError for less than
    one partition.
    """
    if not is_legal_topic(topic):
        raise InvalidTopicError(
            "expected a topic name of 1 to 249 letters, digits, '.', '_' and '-', other than '.' and '..', "
            f"found {topic!r}"
        )
    if topic == METADATA_TOPIC:
        raise InvalidTopicError(
            f"{topic} is the log of the KRaft controllers; it cannot be created or written as a topic"
        )
    if partitions < 1:
        raise ValueError(f"partitions: expected at least 1, found {partitions}")


def check_uuid(text: str) -> str:
    """Return `text` if it is a valid topic id. Raises ValueError."""
    if _UUID.fullmatch(text) is None or text in _RESERVED_UUIDS:
        raise ValueError(f"expected an id of 22 characters of base64url that is not reserved, found {text!r}")
    return text


def assign_log_dirs(log_dirs: Sequence[Path], count: int) -> list[Path]:
    """Return the log directory for each of `count` new partitions (Kafka: LogManager.nextLogDirs).

    A partition is placed in the directory with the fewest partitions; of equal ones, in the first.
    """
    counts = {path: sum(1 for _ in _partition_names(path)) for path in log_dirs}
    assigned = []
    for _ in range(count):
        path = min(log_dirs, key=counts.__getitem__)
        counts[path] += 1
        assigned.append(path)
    return assigned


def create_partitions(
    log_dirs: Sequence[Path], topic: str, topic_id: str, config: LogConfig | None = None
) -> list[Path]:
    """Create the empty partitions of a topic, each with an empty segment at offset 0.

    If an error is raised, nothing is left. After a crash, each partition exists completely or not at all.

    Args:
        log_dirs: the log directories of partition 0, partition 1, and so on.
        topic: the name of the topic.
        topic_id: its id.
        config: its settings.

    Returns:
        The new partition directories.

    Raises TopicExistsError; LogDirInUseError if a broker or another process uses a directory; OSError.
    """
    paths = [log_dir / f"{topic}-{number}" for number, log_dir in enumerate(log_dirs)]
    temporary = [
        log_dir / deleted_name(topic, number, uuid.uuid4().hex) for number, log_dir in enumerate(log_dirs)
    ]
    with ExitStack() as stack, ExitStack() as on_failure:
        sessions = {log_dir: _enter(log_dir, stack) for log_dir in dict.fromkeys(log_dirs)}
        for log_dir, path in zip(log_dirs, paths, strict=True):
            if path.exists():
                raise TopicExistsError("expected no such partition, found one", path=path)
            sessions[log_dir].claim(path)
            on_failure.callback(sessions[log_dir].unclaim, path)
        for session in sessions.values():
            session.begin()
        for directory in temporary:
            on_failure.callback(shutil.rmtree, directory, ignore_errors=True)
            fill_partition(directory, topic_id, config or LogConfig())
        flush_partitions(temporary)
        for directory, path in zip(temporary, paths, strict=True):
            directory.rename(path)
            on_failure.callback(shutil.rmtree, path, ignore_errors=True)
        for log_dir in sessions:
            fsync_directory(log_dir)
        on_failure.pop_all()
        for number, (log_dir, path) in enumerate(zip(log_dirs, paths, strict=True)):
            sessions[log_dir].release(path, (topic, number), ClosedLog(0, 0, None))
    return paths


def _enter(log_dir: Path, stack: ExitStack) -> WriteSession:
    session = WriteSession.enter(log_dir)
    stack.callback(session.leave)
    return session


def fill_partition(path: Path, topic_id: str, config: LogConfig) -> None:
    """Create the files of an empty partition in `path`, without flushing them: see flush_partitions."""
    make_folder(path)
    write_topic_id(path, topic_id, flush=False)
    write_leader_epochs(path, (), flush=False)
    SegmentWriter.create(path, 0, config).close(flush=False)


def flush_partitions(paths: Sequence[Path]) -> None:
    """Flush partition directories and all files in them to disk."""
    flush_files([file for path in paths for file in (*path.iterdir(), path)])


def _partition_names(path: Path) -> Iterable[str]:
    with os.scandir(path) as entries:
        for entry in entries:
            if is_directory(entry) and parse_partition_name(entry.name) is not None:
                yield entry.name
