"""LiveLogDir: the partitions in log directories, kept up to date while brokers write to them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from native_log.arguments import HighWatermark
from native_log.log.live.live_files import UNCHANGED
from native_log.log.live.live_log import LiveLog
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.catalog import (
    Catalog,
    PartitionCandidates,
    PartitionKey,
    open_copy_of,
)
from native_log.logdir.discovery import find_partitions, local_paths
from native_log.logdir.live_directory import LiveDirectory
from native_log.logdir.remote_starts import RemoteStarts
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage import file_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from native_log.arguments import PathLike
    from native_log.log.live.live_files import LogChange
    from native_log.log.log_state import LogState
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import Discovery, PartitionDir
    from native_log.storage import FileVersion


@dataclass(frozen=True, slots=True)
class LogDirChange:
    """What has changed in log directories since they were last refreshed.

    Attributes:
        added, removed: partitions that appeared and disappeared, sorted.
        logs: what has changed in the logs that were opened and are not removed.
    """

    added: tuple[PartitionKey, ...] = ()
    removed: tuple[PartitionKey, ...] = ()
    logs: dict[PartitionKey, LogChange] = field(default_factory=dict)


@dataclass(slots=True)
class _OpenLog:
    """A log, where it is, and the state of its log directory when the log was last refreshed."""

    log: LiveLog
    partition: PartitionDir
    directory: LiveDirectory
    state: DirectoryState


class LiveLogDir:
    """The partitions in one or several log directories, which `refresh` brings up to date.

    Logs are opened by `partition` only, and stay open (without open files) until they are removed. Otherwise
    as LogDir, but read-only, and log directories may be empty.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        *,
        include_deleted: bool = False,
        high_watermark: HighWatermark = "auto",
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Find the partitions.

        Args:
            paths, include_deleted, high_watermark, max_batch_bytes: see LogDir.
            now_ns: the clock, in epoch ns.

        Raises:
            FileNotFoundError, PermissionError, NotALogDirError, ValueError, TypeError: see LogDir.
        """
        if high_watermark not in get_args(HighWatermark):
            raise ValueError(f"high_watermark: expected auto, ignore or checkpoint, found {high_watermark!r}")
        self.paths = local_paths(paths)
        self._include_deleted = include_deleted
        self._high_watermark = high_watermark
        self._max_batch_bytes = max_batch_bytes
        self._now_ns = now_ns
        self._versions: dict[Path, FileVersion | None] = {}
        self._given: dict[Path, Discovery] = {}
        self._discoveries: dict[Path, Discovery] = {}
        self._directories: dict[Path, LiveDirectory] = {}
        self._catalog = Catalog(self.paths, PartitionCandidates({}, (), ()), {})
        self._logs: dict[PartitionKey, _OpenLog] = {}
        self._discover()
        log_dirs = dict.fromkeys(discovery.log_dir for discovery in self._discoveries.values())
        remote_starts = RemoteStarts(log_dirs)
        self._directories = {path: LiveDirectory(path, now_ns, remote_starts) for path in log_dirs}
        self._select()

    def __repr__(self) -> str:
        return f"LiveLogDir({', '.join(repr(str(path)) for path in self.paths)})"

    @property
    def directories(self) -> tuple[Path, ...]:
        """The log directories."""
        return tuple(self._directories)

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, internal topics included, sorted."""
        return self._catalog.topics()

    def partitions(self) -> list[PartitionDir]:
        """Return the partition directories that are read, sorted by topic and partition."""
        return list(self._catalog.partitions.values())

    def partition(self, topic: str, partition: int) -> LiveLog:
        """Return the log of one partition. It is opened by the first call, and then kept up to date.

        Raises UnknownTopicOrPartitionError; FileNotFoundError if it was removed since the last refresh; and
        as LiveLog.
        """
        key = topic, partition
        known = self._logs.get(key)
        if known is None:
            if key not in self._catalog.partitions:
                raise self._catalog.unknown(topic, partition)
            known = self._logs[key] = self._open(self._catalog.partitions[key])
        return known.log

    def refresh(self, keys: Iterable[PartitionKey] | None = None) -> LogDirChange:
        """Bring the partitions and the opened logs up to date.

        If nothing has changed, this costs two `stat` calls for each log, and a few for each log directory.

        Args:
            keys: refresh only these of the opened logs; None: all. New and removed partitions are always
                found.

        Raises:
            FileNotFoundError: a log directory was removed.
            PermissionError, OSError, KafkaLogError: as when the logs are opened.
        """
        before = self._catalog.partitions
        is_found = self._discover()
        # The checkpoints are read before the logs, so that no high watermark is newer than its log.
        is_changed = [directory.refresh() for directory in self._directories.values()]
        if is_found or any(is_changed):
            self._select()
        names = list(self._logs) if keys is None else [key for key in keys if key in self._logs]
        changed = self._read_files(names)
        for directory in self._directories.values():
            # A write may have begun meanwhile: then the logs may contain a part of it.
            directory.refresh_unfinished()
        changes = {key: self._publish(self._logs[key]) for key in changed}
        after = self._catalog.partitions
        return LogDirChange(
            tuple(key for key in after if key not in before) if after is not before else (),
            tuple(key for key in before if key not in after) if after is not before else (),
            {key: change for key, change in changes.items() if change is not UNCHANGED},
        )

    def _read_files(self, keys: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Read what is new in logs. Return those that may have changed, and forget removed ones."""
        changed, removed = [], set()
        for key in keys:
            opened = self._logs[key]
            try:
                if opened.log.read_files() or opened.state is not opened.directory.state:
                    changed.append(key)
            except FileNotFoundError:
                if opened.log.path.is_dir():
                    raise
                removed.add(key)
        if removed:
            self._versions.clear()  # list the log directories again with the next refresh
            left = {key: path for key, path in self._catalog.partitions.items() if key not in removed}
            self._catalog = replace(self._catalog, partitions=left)
            self._logs = {key: log for key, log in self._logs.items() if key not in removed}
        return changed

    def _publish(self, opened: _OpenLog) -> LogChange:
        opened.state = opened.directory.state
        return opened.log.advance(opened.state.partition_checkpoints(opened.partition, self._high_watermark))

    def _discover(self) -> bool:
        """List the paths that have changed, and return whether the partitions there are others."""
        is_changed = False
        for path in self.paths:
            before, is_stale = self._discoveries.get(path), path not in self._versions
            version = None
            if before is None:
                discovery = self._given[path] = find_partitions(path)
            elif before.is_partition:
                discovery = replace(before, partitions=self._given[path].partitions if path.is_dir() else ())
            else:
                now_ns = self._now_ns()
                version = file_version(path.stat(), now_ns)
                if version is not None and version == self._versions.get(path):
                    continue
                discovery = find_partitions(path, before)
            self._versions[path] = version
            if is_stale or discovery != before:
                self._discoveries[path] = discovery
                is_changed = True
        return is_changed

    def _select(self) -> None:
        """Choose the directories to read, and give up the logs of others."""
        states = {path: directory.state for path, directory in self._directories.items()}
        before = self._catalog.found.candidates
        found = PartitionCandidates.of(
            self._discoveries.values(), states, include_deleted=self._include_deleted
        )
        self._catalog = replace(self._catalog, found=found)
        candidates = found.candidates
        known = {
            key: directory
            for key, directory in self._catalog.partitions.items()
            if key in candidates and before.get(key) == candidates[key]
        }
        chosen = found.choose(self._open_copy, candidates.keys() - known.keys())
        partitions = dict(sorted({**known, **chosen}.items()))
        if partitions == self._catalog.partitions:
            return
        self._catalog = replace(self._catalog, partitions=partitions)
        for key, opened in list(self._logs.items()):
            if key not in partitions:
                del self._logs[key]
            elif partitions[key].path != opened.log.path:
                opened.partition = partitions[key]
                opened.directory = self._directories[opened.partition.path.parent]
                opened.log.move(opened.partition.path)

    def _open(self, partition: PartitionDir) -> _OpenLog:
        directory = self._directories[partition.path.parent]
        state = directory.state
        source = DirectorySource(
            str(partition.path),
            partition.topic,
            partition.partition,
            state.partition_checkpoints(partition, self._high_watermark),
            self._max_batch_bytes,
        )
        log = LiveLog(source, now_ns=self._now_ns)
        if directory.refresh_unfinished():
            # The log may contain a part of a write that began since the last refresh.
            return self._open(partition)
        return _OpenLog(log, partition, directory, state)

    def _open_copy(self, partition: PartitionDir) -> LogState | None:
        state = self._directories[partition.path.parent].state
        checkpoints = state.partition_checkpoints(partition, self._high_watermark)
        return open_copy_of(partition, checkpoints, self._max_batch_bytes)
