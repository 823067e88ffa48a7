"""LiveLogDir: the partitions in log directories, kept up to date while brokers write to them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.lazy import shared_property
from native_log.log.changing_files import retry_changed
from native_log.log.live.live_files import UNCHANGED
from native_log.log.live.live_log import LiveLog
from native_log.log.live.live_merged_log import LiveMergedLog
from native_log.log.live.live_tiered_log import LiveTieredLog
from native_log.log.readable_log import is_outdated
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.catalog import (
    Catalog,
    PartitionCandidates,
    PartitionKey,
    copies_among,
    open_copies,
    open_copy_of,
)
from native_log.logdir.discovery import readable_paths
from native_log.logdir.known_topics import KnownTopics, gaps_of
from native_log.logdir.listing_ahead import map_listed
from native_log.logdir.live_directory import LiveDirectory
from native_log.logdir.live_discovery import LiveDiscovery
from native_log.logdir.moved_partitions import broker_high_watermarks
from native_log.logdir.options import LogDirOptions
from native_log.logdir.remote_logs import is_tiered
from native_log.logdir.remote_starts import RemoteStarts
from native_log.logdir.wildcards import expand_wildcards
from native_log.prefetch import look_up_together
from native_log.storage import path_of

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from native_log.arguments import PathLike
    from native_log.checkpoints.offset_checkpoints import Offsets
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.live.any_live_log import AnyLiveLog
    from native_log.log.live.live_files import LogChange
    from native_log.log.log_state import LogState
    from native_log.log.sources.joined import JoinedSource
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.remote_logs import RemoteLogs


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
class _OpenCopy:
    """A partition directory, its log, and the state of its log directory when the log was last refreshed."""

    log: LiveLog
    partition: PartitionDir
    directory: LiveDirectory
    state: DirectoryState

    def read_files(self) -> bool | None:
        """Read what is new, and return whether anything may be; None: the directory was removed."""
        try:
            return self.log.read_files() or self.state is not self.directory.state
        except FileNotFoundError:
            if self.partition.folder.exists():
                raise
            return None


@dataclass(slots=True)
class _OpenLog:
    """A log and its copies. There is one copy unless the log is merged. A log with a tier has one, too."""

    log: AnyLiveLog
    copies: list[_OpenCopy]

    @property
    def is_stale(self) -> bool:
        """Whether a joined log has other copies than when it was last refreshed, or lacks files since."""
        if isinstance(self.log, LiveLog):
            return False
        copies = [copy.log for copy in self.copies]
        is_other = isinstance(self.log, LiveMergedLog) and not self.log.shows(copies)
        return is_other or is_outdated(self.log.log)


class LiveLogDir:
    """The partitions in one or several log directories, which `refresh` brings up to date.

    Logs are opened by `partition` and `open_logs` only, and stay open (without open files) until they are
    removed. Otherwise as LogDir, but read-only, and log directories may be empty.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        options: LogDirOptions | None = None,
        *,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Find the partitions.

        Args:
            paths: see LogDir.
            options: how they are read; by default as by LogDir.
            now_ns: the clock, in epoch ns.

        Raises:
            FileNotFoundError, PermissionError, NotALogDirError, TypeError: see LogDir.
        """
        self._options = options = LogDirOptions() if options is None else options
        self._storages = options.storages
        self.paths = expand_wildcards(readable_paths(paths), self._storages)
        self._is_local = self._storages.are_local(self.paths) and options.remote is None
        self._now_ns = now_ns
        self._discovery = LiveDiscovery(self.paths, self._storages, now_ns)
        self._catalog = Catalog(self.paths, PartitionCandidates({}, (), ()), {})
        self._copies: dict[PartitionKey, tuple[PartitionDir, ...]] = {}
        self._logs: dict[PartitionKey, _OpenLog] = {}
        found = self._discovery.discoveries
        folders = {each.log_dir: self._storages.folder(each.log_dir) for each in found}
        remote_starts = RemoteStarts(folders.values(), found)
        self._directories = {
            path: LiveDirectory(folder, now_ns, remote_starts) for path, folder in folders.items()
        }
        self._select()
        self._reported = self._catalog.partitions

    def __repr__(self) -> str:
        return f"LiveLogDir({', '.join(repr(str(path)) for path in self.paths)})"

    @property
    def directories(self) -> tuple[Path, ...]:
        """The log directories."""
        return tuple(self._directories)

    @property
    def is_local(self) -> bool:
        """Whether all files are on local disks: see LogDir.is_local."""
        return self._is_local

    def can_watch(self, directory: str) -> bool:
        """Return whether the system may report changes of a directory: whether it is a local one."""
        return self._storages.are_local([path_of(directory)])

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, internal topics included, sorted."""
        return self._catalog.topics()

    def partitions(self) -> list[PartitionDir]:
        """Return the partition directories that are read, sorted by topic and partition."""
        return list(self._catalog.partitions.values())

    def partition(self, topic: str, partition: int) -> AnyLiveLog:
        """Return the log of one partition. It is opened by the first call, and then kept up to date.

        Raises UnknownTopicOrPartitionError; FileNotFoundError if it was removed since the last refresh; and
        as LiveLog.
        """
        key = topic, partition
        known = self._logs.get(key)
        if known is None:
            if key not in self._catalog.partitions:
                raise self._catalog.unknown(topic, partition)
            try:
                known = self._open(key, {})
            except FileNotFoundError:
                self._list_again()
                if key not in self._catalog.partitions:
                    raise
                known = self._open(key, {})
            self._logs[key] = known
        return known.log

    def open_logs(self, keys: Iterable[PartitionKey]) -> None:
        """Open the logs at URLs among several, at the same time, so that `partition` returns them at once.

        Logs that are gone are left out. Raises as `partition`.
        """
        if self._is_local:
            return
        unknown = [key for key in keys if key in self._catalog.partitions and key not in self._logs]
        directories = [directory for key in unknown for directory in self._copies[key]]
        copies = {
            directory.path: copy
            for directory, copy in map_listed(self._try_to_open, directories)
            if copy is not None
        }
        opened = look_up_together(
            lambda key: self._open_unless_removed(key, copies), unknown, are_local=False
        )
        self._logs |= {key: log for key, log in opened.items() if log is not None}

    def refresh(self, keys: Iterable[PartitionKey] | None = None) -> LogDirChange:
        """Bring the partitions and the opened logs up to date.

        If nothing has changed, this costs two `stat` calls for each log, and a few for each log directory. At
        URLs it costs two list requests for each log directory, and one for each thousand files (S3, GCS) or
        each log (other stores).

        Args:
            keys: refresh only these of the opened logs; None: all. New and removed partitions are always
                found.

        Raises:
            FileNotFoundError: a log directory was removed.
            PermissionError, OSError, KafkaLogError: as when the logs are opened.
        """
        LiveLogDir._remote_logs.forget(self)
        LiveLogDir._known_topics.forget(self)
        LiveLogDir._broker_high_watermarks.forget(self)
        is_found = self._discovery.refresh()
        # The checkpoints are read before the logs, so that no high watermark is newer than its log.
        is_changed = [directory.refresh() for directory in self._directories.values()]
        if is_found or any(is_changed):
            self._select()
        names = list(self._logs) if keys is None else [key for key in keys if key in self._logs]
        changed, gone = self._read_files(names)
        if gone:
            self._list_again()
            changed_elsewhere, gone = self._read_files([key for key in gone if key in self._logs])
            self._forget(gone)
            changed = [key for key in (*changed, *changed_elsewhere) if key in self._logs]
        for directory in self._directories.values():
            # A write may have begun meanwhile: then the logs may contain a part of it.
            directory.refresh_unfinished()
        changes = look_up_together(
            lambda key: self._publish(self._logs[key]), changed, are_local=self._is_local
        )
        before, after = self._reported, self._catalog.partitions
        self._reported = after
        return LogDirChange(
            tuple(key for key in after if key not in before) if after is not before else (),
            tuple(key for key in before if key not in after) if after is not before else (),
            {key: change for key, change in changes.items() if change is not UNCHANGED},
        )

    def _read_files(self, keys: Sequence[PartitionKey]) -> tuple[list[PartitionKey], list[PartitionKey]]:
        """Read what is new in logs. Return those that may have changed, and those without directories."""
        read = self._reader_of(keys)
        changed, gone = [], []
        for key in keys:
            opened = self._logs[key]
            changes = list(map(read, opened.copies))
            left = [copy for copy, change in zip(opened.copies, changes, strict=True) if change is not None]
            if not left:
                gone.append(key)
                continue
            opened.copies = left
            if any(changes) or opened.is_stale:
                changed.append(key)
        return changed, gone

    def _forget(self, removed: Collection[PartitionKey]) -> None:
        """Forget partitions that were removed, and list the log directories again with the next refresh."""
        if removed:
            self._discovery.invalidate()
            left = {key: path for key, path in self._catalog.partitions.items() if key not in removed}
            self._catalog = replace(self._catalog, partitions=left)
            self._copies = {key: self._copies[key] for key in left}
            self._logs = {key: log for key, log in self._logs.items() if key not in removed}

    def _reader_of(self, keys: Iterable[PartitionKey]) -> Callable[[_OpenCopy], bool | None]:
        """Return what reads the files of a copy. Those of copies at URLs are read now, many at a time."""
        if self._is_local:
            return _OpenCopy.read_files
        copies = {copy.partition: copy for key in keys for copy in self._logs[key].copies}
        has_changed = dict(map_listed(lambda directory: copies[directory].read_files(), copies))
        return lambda copy: has_changed[copy.partition]

    def _publish(self, opened: _OpenLog) -> LogChange:
        """Show the new state of a log, and return what has changed."""
        return retry_changed(partial(self._publish_again, opened), first=partial(self._publish_files, opened))

    def _publish_again(self, opened: _OpenLog) -> LogChange:
        """Do the same if a broker removed or replaced files of the log after they were listed."""
        left = [copy for copy in opened.copies if copy.read_files() is not None]
        if not left:
            return UNCHANGED  # the next refresh finds that the partition was removed
        opened.copies = left
        return self._publish_files(opened)

    def _publish_files(self, opened: _OpenLog) -> LogChange:
        changes = []
        for copy in opened.copies:
            copy.state = copy.directory.state
            changes.append(copy.log.advance(self._checkpoints(copy.partition, copy.state)))
        if isinstance(opened.log, LiveLog):
            return changes[0]
        if isinstance(opened.log, LiveTieredLog):
            return opened.log.advance(changes[0])
        return opened.log.advance([copy.log for copy in opened.copies], changes)

    def _checkpoints(self, partition: PartitionDir, state: DirectoryState) -> PartitionCheckpoints:
        options = self._options
        return state.partition_checkpoints(partition, options.high_watermark, is_merged=options.is_merging)

    def _list_again(self) -> None:
        """Find the partitions again after a directory is gone: a broker has removed it, or moved it."""
        self._discovery.invalidate()
        self._discovery.refresh()
        self._select()

    def _select(self) -> None:
        """Choose the directories to read, and give up the logs of others."""
        states = {path: directory.state for path, directory in self._directories.items()}
        before = self._catalog.found.candidates
        found = PartitionCandidates.of(
            self._discovery.discoveries, states, include_deleted=self._options.include_deleted
        )
        self._catalog = replace(self._catalog, found=found)
        copies = self._copies_to_merge() if self._options.is_merging else self._longest_copies(before)
        if copies == self._copies:
            return
        self._copies = copies
        self._catalog = replace(
            self._catalog, partitions={key: directories[0] for key, directories in copies.items()}
        )
        for key, opened in list(self._logs.items()):
            if key not in copies:
                del self._logs[key]
            elif self._options.is_merging:
                known = {copy.partition.path: copy for copy in opened.copies}
                opened.copies = self._open_copies(copies[key], known)
            else:
                self._move(opened.copies[0], copies[key][0])

    def _copies_to_merge(self) -> dict[PartitionKey, tuple[PartitionDir, ...]]:
        candidates = self._catalog.found.candidates
        return {key: tuple(copies_among(candidates[key])) for key in sorted(candidates)}

    def _longest_copies(
        self, before: Mapping[PartitionKey, tuple[PartitionDir, ...]]
    ) -> dict[PartitionKey, tuple[PartitionDir, ...]]:
        """Choose one directory for each partition. `before`: the candidates for which choices were made."""
        candidates = self._catalog.found.candidates
        known = {
            key: directory
            for key, directory in self._catalog.partitions.items()
            if key in candidates and before.get(key) == candidates[key]
        }
        chosen = self._catalog.found.choose(
            self._open_copy, candidates.keys() - known.keys(), are_local=self._is_local
        )
        return {key: (directory,) for key, directory in sorted({**known, **chosen}.items())}

    def _move(self, copy: _OpenCopy, partition: PartitionDir) -> None:
        """Continue with another directory, if a broker has moved the partition."""
        if partition.path != copy.log.path:
            copy.partition = partition
            copy.directory = self._directories[partition.path.parent]
            copy.log.move(partition.path)

    def _open_unless_removed(self, key: PartitionKey, copies: Mapping[Path, _OpenCopy]) -> _OpenLog | None:
        try:
            return self._open(key, copies)
        except FileNotFoundError:
            return None

    def _open(self, key: PartitionKey, known: Mapping[Path, _OpenCopy]) -> _OpenLog:
        """Open a log. `known`: copies that are open already."""
        join = None
        if self._options.remote is not None and is_tiered(self._copies[key][0]):
            join = partial(self._join, self._copies[key][0])
        if not self._options.is_merging:
            directory = self._copies[key][0]
            copy = known.get(directory.path) or self._open_live(directory)
            return _OpenLog(copy.log if join is None else LiveTieredLog(copy.log, join), [copy])
        opened = partial(self._open_merged, key, join=join)
        return retry_changed(partial(opened, {}), first=partial(opened, known))

    def _open_merged(
        self,
        key: PartitionKey,
        known: Mapping[Path, _OpenCopy],
        join: Callable[[LogState], JoinedSource | None] | None,
    ) -> _OpenLog:
        copies = self._open_copies(self._copies[key], known)
        gaps = gaps_of(map(self._known_topics.facts, self._copies[key]))
        return _OpenLog(LiveMergedLog([copy.log for copy in copies], gaps, join), copies)

    def _join(self, partition: PartitionDir, log: LogState) -> JoinedSource | None:
        """Join a log with remote storage."""
        gaps = gaps_of([self._known_topics.facts(partition)])
        return self._remote_logs.join(log, gaps) if self._remote_logs.has(partition) else None

    @shared_property
    def _remote_logs(self) -> RemoteLogs:
        """The logs in remote storage, as of the last refresh."""
        assert self._options.remote is not None
        folders = [self._storages.folder(path) for path in self._directories]
        return self._options.remote.find_logs(folders, self._storages.options)

    @shared_property
    def _known_topics(self) -> KnownTopics:
        """The configurations of topics, as of the last refresh."""
        return KnownTopics({path: each.state for path, each in self._directories.items()})

    @shared_property
    def _broker_high_watermarks(self) -> Mapping[Path, Offsets]:
        """The high watermarks in all log directories of a broker, by the path of each of them.

        Logs are opened with them. Later their own are enough, because none of them goes back.
        """
        states = [directory.state for directory in self._directories.values()]
        return broker_high_watermarks(states, self._discovery.discoveries)

    def _try_to_open(self, directory: PartitionDir) -> _OpenCopy | None:
        """Open the log in a directory; return None if it cannot be opened."""
        try:
            return self._open_live(directory)
        except (KafkaLogError, FileNotFoundError):
            return None

    def _open_copies(
        self, directories: Iterable[PartitionDir], known: Mapping[Path, _OpenCopy]
    ) -> list[_OpenCopy]:
        """Return the copies in directories. Those that are not known are opened: see open_copies."""
        return open_copies(
            directories, lambda directory: known.get(directory.path) or self._open_live(directory)
        )

    def _open_live(self, partition: PartitionDir) -> _OpenCopy:
        directory = self._directories[partition.path.parent]
        state = directory.state
        known = self._broker_high_watermarks.get(state.path, {})
        checkpoints = self._checkpoints(partition, replace(state, broker_high_watermarks=known))
        source = DirectorySource(
            str(partition.path), *partition.key, checkpoints, self._options.max_batch_bytes, partition.storage
        )
        log = LiveLog(source, now_ns=self._now_ns)
        if directory.refresh_unfinished():
            # The log may contain a part of a write that began since the last refresh.
            return self._open_live(partition)
        return _OpenCopy(log, partition, directory, state)

    def _open_copy(self, partition: PartitionDir) -> LogState | None:
        state = self._directories[partition.path.parent].state
        checkpoints = state.partition_checkpoints(partition, self._options.high_watermark)
        return open_copy_of(partition, checkpoints, self._options.max_batch_bytes)
