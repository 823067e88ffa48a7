"""Open the logs of partitions: each from one directory, from merged copies, or joined with remote storage."""

from __future__ import annotations

import errno
import logging
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from native_log.checkpoints.write_intent import WRITE_INTENT, WriteIntent
from native_log.config import LogConfig
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.log.changing_files import retry_changed
from native_log.log.listing import list_log
from native_log.log.ordinary_listing import list_ahead
from native_log.log.sources.directory import DirectorySource
from native_log.log.unbounded_range import UnboundedRange
from native_log.logdir.catalog import open_copies, open_copy_of
from native_log.logdir.followed_logdir import follow_partition
from native_log.logdir.known_topics import gaps_of
from native_log.logdir.listing_ahead import map_listed
from native_log.storage import LOCAL
from native_log.system import no_garbage_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from native_log.log.log_state import LogState
    from native_log.log.ordinary_listing import OrdinaryLog
    from native_log.log.partition_log import FollowInDirectory
    from native_log.log.sources.joined import JoinedSource
    from native_log.logdir.catalog import PartitionKey
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.known_topics import KnownTopics
    from native_log.logdir.options import LogDirOptions
    from native_log.logdir.remote_logs import RemoteLogs
    from native_log.policies import Gaps

logger = logging.getLogger(__name__)


class PartitionLogs:
    """Opens logs, and keeps those alive that are appended to.

    A partition is given by its copies: the directories that are read as one log, usually one.
    """

    def __init__(
        self,
        options: LogDirOptions,
        states: dict[Path, DirectoryState],
        known_topics: KnownTopics,
        remote: RemoteLogs | None,
        *,
        is_remote_alone: bool,
    ) -> None:
        """Open nothing yet.

        Args:
            states: the states of all log directories, by path. Changed in place if a write has begun since.
            known_topics: the stored settings of topics.
            remote: the logs in remote storage.
            is_remote_alone: whether there are no log directories beside `remote`.
        """
        self._options = options
        self._states = states
        self._known_topics = known_topics
        self._remote = remote
        self._is_remote_alone = is_remote_alone
        tier = () if options.remote is None else (options.remote.path,)
        self._is_local = options.storages.are_local((*states, *tier))
        self._created_configs: dict[str, Mapping[str, object]] = {}
        self._joined: dict[PartitionKey, JoinedSource] = {}
        self._written: set[PartitionLog] = set()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without open logs, which only this process can use."""
        return {name: value for name, value in self.__dict__.items() if name != "_written"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _written=set())

    def keep(self, log: PartitionLog, *, is_written: bool) -> None:
        """Keep a log alive from its first append until it is closed. PartitionLog calls this."""
        (self._written.add if is_written else self._written.discard)(log)

    def close(self) -> None:
        """Close all logs that were appended to."""
        with ExitStack() as stack:  # closes all of them, even if one fails
            for log in list(self._written):
                stack.callback(log.close)

    def configure(self, topic: str, config: Mapping[str, object]) -> None:
        """Apply settings to appends to a topic. They override stored ones."""
        self._created_configs[topic] = dict(config)

    def checkpoints(self, directory: PartitionDir) -> PartitionCheckpoints:
        """Return the checkpoints of a partition directory. No file is opened."""
        return self._state(directory).partition_checkpoints(directory, self._options.high_watermark)

    def open_log(
        self, copies: Sequence[PartitionDir], config: Mapping[str, object] | None = None
    ) -> PartitionLog:
        """Open the log of a partition: see LogDir.partition."""
        if len(copies) > 1:
            return self._open_merged(copies)
        (directory,) = copies
        if self._remote is not None and self._remote.has(directory):
            return self._open_joined(self._remote, directory, config)
        return self._open(directory, config)

    @no_garbage_collection()
    def open_logs(self, partitions: Sequence[Sequence[PartitionDir]]) -> list[PartitionLog]:
        """Open the logs of several partitions.

        Many threads open those at URLs, because they mostly wait for requests. Adjacent folders are listed
        together first.
        """
        if self._is_local:
            return [open_log() for open_log in self.openers(partitions)]
        by_first = {copies[0]: copies for copies in partitions}
        opened = dict(map_listed(lambda directory: self.open_log(by_first[directory]), by_first))
        return [opened[copies[0]] for copies in partitions]

    def openers(self, partitions: Sequence[Sequence[PartitionDir]]) -> Iterator[Callable[[], PartitionLog]]:
        """Yield a function for each of several partitions that opens its log.

        While the caller works on a log, a thread lists the directories of the next ones.
        """
        if not self._is_local or self._remote is not None or self._options.is_merging:
            yield from (partial(self.open_log, copies) for copies in partitions)
            return
        directories = [copies[0] for copies in partitions]
        paths = [str(directory.path) for directory in directories]
        listings = list_ahead(paths, self._options.max_batch_bytes)
        for directory, listed in zip(directories, listings, strict=True):
            yield partial(self._open, directory, listed=listed)

    def unbounded_ranges(
        self, directories: Iterable[PartitionDir]
    ) -> dict[PartitionKey, UnboundedRange] | None:
        """Return the records of whole logs at URLs: see LogDir.unbounded_ranges."""
        wanted = list(directories)
        if self._is_local or self._remote is not None or self._options.is_merging:
            return None
        ranges: dict[PartitionKey, UnboundedRange] = {}
        for directory, found in map_listed(self._unbounded_range, wanted):
            if found is None:
                return None
            if found.slices:
                ranges[directory.key] = found
        return {directory.key: ranges[directory.key] for directory in wanted if directory.key in ranges}

    def sizes(self, directories: Iterable[PartitionDir]) -> Iterator[float]:
        """Yield the sizes of logs in bytes. Logs with segments in remote storage count as infinite."""

        def size_bytes(directory: PartitionDir) -> float:
            if self._remote is not None and self._remote.has(directory):
                return inf
            try:
                entries = directory.folder.list()
            except OSError:  # a reader reports it
                return 0
            return sum(entry.stat().st_size for name, entry in entries.items() if name.endswith(".log"))

        return (size for _, size in map_listed(size_bytes, directories))

    def try_to_open(self, directory: PartitionDir) -> LogState | None:
        """Open the log in one directory, without remote segments; None if it cannot be opened."""
        return open_copy_of(directory, self.checkpoints(directory), self._options.max_batch_bytes)

    def look_for_writers(self, directory: PartitionDir) -> None:
        """Note whether a broker or another process writes to the log directory of a partition now.

        Later calls of `open_log` take it into account.
        """
        state = self._state(directory)
        self._states[state.path] = state.with_writers()

    def explain_gaps(self, copies: Iterable[PartitionDir]) -> Gaps:
        """Return whether compaction explains offsets that no batch of the copies has."""
        return gaps_of(map(self._known_topics.facts, copies))

    def _state(self, directory: PartitionDir) -> DirectoryState:
        return self._states[directory.path.parent]

    def _source(self, directory: PartitionDir) -> DirectorySource:
        """Return the log in a directory, with its present checkpoints."""
        return DirectorySource(
            str(directory.path),
            *directory.key,
            self.checkpoints(directory),
            self._options.max_batch_bytes,
            directory.storage,
        )

    def _unbounded_range(self, directory: PartitionDir) -> UnboundedRange | None:
        if directory.storage is LOCAL or self._state(directory).unfinished:
            return None
        source = self._source(directory)
        return UnboundedRange.of(source, list_log(source.folder, self._options.max_batch_bytes))

    def _open(
        self,
        directory: PartitionDir,
        config: Mapping[str, object] | None = None,
        listed: OrdinaryLog | None = None,
    ) -> PartitionLog:
        if config:
            LogConfig.parse(config)  # check it now; it is used at the first append
        created = self._created_configs.get(directory.topic, {})
        settings = partial(self._known_topics.settings, directory, created, config or {})
        source = self._source(directory)
        try:
            log = PartitionLog(source.open(listed), settings)
        except FileNotFoundError as error:
            folder = directory.folder
            if folder.exists():
                raise
            reason = "the partition was removed or moved since the log directory was opened; open it again"
            raise FileNotFoundError(errno.ENOENT, reason, str(directory.path)) from error
        state = self._state(directory)
        if state.storage is LOCAL and state.unfinished is None and state.folder.has(WRITE_INTENT):
            # A commit began after the state was read: the log may contain only a part of the write.
            self._states[state.path] = replace(state, unfinished=WriteIntent.read(state.folder))
            source = self._source(directory)
            log = PartitionLog(source.open(), settings)
        return log.followed_by(self._follower([directory])).owned_by(self)

    def _open_joined(
        self, remote: RemoteLogs, directory: PartitionDir, config: Mapping[str, object] | None
    ) -> PartitionLog:
        """Open a log that has segments in remote storage."""
        source = self._joined.get(directory.key)
        if source is None:
            gaps = self.explain_gaps([directory])
            if self._is_remote_alone:
                source = remote.join_alone(directory, self._options.max_batch_bytes, gaps)
            else:
                log = self._open(directory, config)
                source = remote.join(log.state, gaps)
                if source is None:
                    return log
            self._joined[directory.key] = source
        joined = PartitionLog(source.open())
        return joined if self._is_remote_alone else joined.followed_by(self._follower([directory]))

    def _open_merged(self, copies: Sequence[PartitionDir]) -> PartitionLog:
        key = copies[0].key
        source = self._joined.get(key)
        if source is None:
            source = self._joined[key] = retry_changed(lambda: self._merge(copies))
        merged = PartitionLog(source.open())
        return merged.followed_by(self._follower(copies))

    def _merge(self, copies: Sequence[PartitionDir]) -> JoinedSource:
        from native_log.log.replicas.merge import merge

        opened = open_copies(copies, self._open_for_merge)
        gaps = self.explain_gaps(copies)
        source = merge(opened, gaps)
        if self._remote is not None and self._remote.has(copies[0]):
            source = self._remote.join(source.open(), gaps) or source
        return source

    def _open_for_merge(self, directory: PartitionDir) -> LogState:
        log, state = self._open(directory).state, self._state(directory)
        if state.end_before_write(directory) is None:
            return log
        checkpoints = state.partition_checkpoints(directory, self._options.high_watermark, is_merged=True)
        source = replace(self._source(directory), checkpoints=checkpoints)
        return source.open()

    def _follower(self, copies: Sequence[PartitionDir]) -> FollowInDirectory:
        """Return the function that follows a partition with its copies."""
        return partial(follow_partition, copies, log_dir_options=self._options)
