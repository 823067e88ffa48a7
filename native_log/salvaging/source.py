"""Find the partitions of damaged log directories, even if some files are unreadable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from native_log.checkpoints.lock import lock_holder
from native_log.checkpoints.meta_properties import META_PROPERTIES, read_meta_properties
from native_log.checkpoints.names import PartitionKind
from native_log.checkpoints.offset_checkpoints import (
    CHECKPOINT_FILES,
    REPLICATION_OFFSET_CHECKPOINT,
    OffsetCheckpoints,
    read_offset_checkpoint,
)
from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.checkpoints.write_intent import WRITE_INTENT, WriteIntent
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from native_log.config import InvalidConfigError, LogConfig
from native_log.errors import EmptyLogDirError, KafkaLogError, error_message
from native_log.logdir.catalog import PartitionCandidates, open_copy_of
from native_log.logdir.directory_state import DirectoryState
from native_log.logdir.discovery import find_partitions
from native_log.logdir.known_topics import KnownTopics
from native_log.logdir.remote_starts import RemoteStarts
from native_log.logdir.selection import PartitionSelection, filter_partitions
from native_log.policies import TopicFacts, explain_gaps
from native_log.salvaging.report import Finding
from native_log.salvaging.source_log import SourceLog
from native_log.storage import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from native_log.checkpoints.meta_properties import MetaProperties
    from native_log.log.log_state import LogState
    from native_log.logdir import PartitionDir

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be salvaged.

    Attributes:
        log_dirs: the log directories.
        logs: the logs to copy, sorted by topic and partition.
        findings: (partition, or None; finding): what was left out, and files of the log directories that
            cannot be read.
        meta_properties: meta.properties of the first log directory that has the file; None if none has it.
        size_bytes: the size of the .log files, an upper bound of the size of the copy.
    """

    log_dirs: tuple[Path, ...]
    logs: tuple[SourceLog, ...]
    findings: list[tuple[PartitionDir | None, Finding]]
    meta_properties: MetaProperties | None
    size_bytes: int


def open_source(
    paths: tuple[Path, ...],
    topics: str | Iterable[str] | None,
    exclude_topics: str | Iterable[str],
    topic_ids: Mapping[str, str],
    *,
    include_deleted: bool,
    max_batch_bytes: int,
) -> Source:
    """Find the partitions at the given paths. No lock is taken, and nothing is changed.

    Args:
        paths: log directories or partition directories.
        topics: the topics to copy; None: all.
        exclude_topics: topics to leave out.
        topic_ids: topic ids by topic, for partitions without a readable partition.metadata.
        include_deleted: copy -delete and -stray directories, unless the partition has a normal one.
        max_batch_bytes: see PartitionLog.

    Raises FileNotFoundError, PermissionError, NotALogDirError, EmptyLogDirError,
    UnknownTopicOrPartitionError.
    """
    findings: list[tuple[PartitionDir | None, Finding]] = []
    discoveries = [find_partitions(path) for path in paths]
    log_dirs = dict.fromkeys(discovery.log_dir for discovery in discoveries)
    remote_starts = RemoteStarts(Folder(str(path)) for path in log_dirs)
    states = {path: _read_state(path, remote_starts, findings) for path in log_dirs}
    candidates = PartitionCandidates.of(discoveries, states, include_deleted=include_deleted)

    if not candidates.candidates:
        raise EmptyLogDirError(candidates.empty_message, path=", ".join(map(str, paths)))
    selection = PartitionSelection.of(topics, exclude_topics)
    selected = filter_partitions(
        chain.from_iterable(candidates.candidates.values()),
        selection,
        ignored=candidates.ignored,
        paths=paths,
        required=True,
    )
    keys = {directory.key for directory in selected}
    chosen = list(candidates.choose(partial(_open_copy, max_batch_bytes), keys).values())
    skipped = [directory for directory in candidates.ignored if selection.includes_topic(directory.topic)]
    findings += _skipped_copies(chosen, candidates) + _skipped_directories(skipped)
    known = KnownTopics(states)
    ids = _topic_ids(chosen, topic_ids, known)
    logs = [
        _source_log(
            directory, states[directory.path.parent], _facts(known, directory), ids.get(directory.topic)
        )
        for directory in chosen
    ]
    properties = (state.meta_properties for state in states.values() if state.meta_properties is not None)
    size = sum(log_size_bytes(directory.path) for directory in chosen)
    return Source(tuple(states), tuple(logs), findings, next(properties, None), size)


def _open_copy(max_batch_bytes: int, directory: PartitionDir) -> LogState | None:
    try:
        return open_copy_of(directory, PartitionCheckpoints(), max_batch_bytes)
    except OSError:
        return None


def _skipped_copies(
    chosen: Iterable[PartitionDir], candidates: PartitionCandidates
) -> list[tuple[PartitionDir | None, Finding]]:
    return [
        (
            other,
            Finding(
                "skipped",
                "directory",
                str(other.path),
                reason=f"{directory.path} is copied, another directory of the same partition",
            ),
        )
        for directory in chosen
        for other in candidates.candidates[directory.key]
        if other is not directory
    ]


def _skipped_directories(ignored: Iterable[PartitionDir]) -> list[tuple[PartitionDir | None, Finding]]:
    findings: list[tuple[PartitionDir | None, Finding]] = []
    for directory in ignored:
        is_future = directory.kind is PartitionKind.FUTURE
        remedy = "give its own path to copy it" if is_future else "include deleted directories to copy it"
        reason = f"a -{directory.kind} directory; {remedy}"
        findings.append((directory, Finding("skipped", "directory", str(directory.path), reason=reason)))
    return findings


def _read_state(
    path: Path, remote_starts: RemoteStarts, findings: list[tuple[PartitionDir | None, Finding]]
) -> DirectoryState:
    """Read the state of a log directory. A file that cannot be read counts as missing."""

    def read(name: str, function: Callable[[], Content], missing: Content) -> Content:
        try:
            return function()
        except (KafkaLogError, OSError) as error:
            reason = f"{error_message(error)}; the file is ignored"
            findings.append((None, Finding("warning", "file", str(path / name), reason=reason)))
            return missing

    def checkpoint(name: str) -> dict[tuple[str, int], int]:
        return read(name, lambda: read_offset_checkpoint(path / name), {})

    return DirectoryState(
        path,
        read(META_PROPERTIES, lambda: read_meta_properties(path), None),
        OffsetCheckpoints(*map(checkpoint, CHECKPOINT_FILES)),
        (path / REPLICATION_OFFSET_CHECKPOINT).exists(),
        (path / CLEAN_SHUTDOWN_FILE).exists(),
        read(".lock", lambda: lock_holder(path), None),
        read(WRITE_INTENT, lambda: WriteIntent.read(path), None),
        remote_starts,
    )


def _topic_ids(
    directories: list[PartitionDir], given: Mapping[str, str], known: KnownTopics
) -> dict[str, str]:
    """Return the topic ids by topic.

    They are those given, else that of the first partition whose file is readable, else that in the cluster
    metadata. The metadata may describe another topic of the same name than a -delete or -stray directory.
    """
    ids: dict[str, str] = {}
    for directory in directories:
        if directory.topic not in ids:
            try:
                topic_id = read_topic_id(directory.path)
            except OSError:
                continue
            if topic_id is not None:
                ids[directory.topic] = topic_id
    ids |= given
    unknown = {each.topic for each in directories if each.kind is PartitionKind.NORMAL} - ids.keys()
    if unknown:
        ids |= {topic: topic_id for topic, topic_id in known.topic_ids().items() if topic in unknown}
    return ids


def _facts(known: KnownTopics, directory: PartitionDir) -> TopicFacts:
    try:
        return known.facts(directory)
    except OSError:  # partition.metadata cannot be read
        return TopicFacts()


def _source_log(
    directory: PartitionDir, state: DirectoryState, facts: TopicFacts, topic_id: str | None
) -> SourceLog:
    checkpoints = state.partition_checkpoints(directory, "ignore")
    try:
        config = facts.settings().config
    except InvalidConfigError:
        config = LogConfig()
    return SourceLog(
        directory,
        checkpoints,
        explain_gaps(facts),
        facts.is_remote(),
        state.lock_holder is not None,
        topic_id,
        state.meta_properties is None or state.meta_properties.version > 0,
        config,
    )


def log_size_bytes(directory: Path) -> int:
    """Return the size of the .log files, without the holes of preallocated ones."""
    try:
        with os.scandir(directory) as entries:
            stats = [entry.stat() for entry in entries if entry.name.endswith(".log")]
    except OSError:
        return 0
    return sum(min(stat.st_size, stat.st_blocks * 512) for stat in stats)
