"""Follow partitions of log directories: those that exist, and those that appear later."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.errors import UnknownTopicOrPartitionError
from native_log.log.live.partition_follower import PartitionFollower
from native_log.log.reading.small_parts import read_small_parts, small_parts
from native_log.logdir.live_logdir import LiveLogDir
from native_log.prefetch import map_together

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from native_log.arguments import IsolationLevel, Replicas
    from native_log.log.reading.log_range import LogRange
    from native_log.log.reading.options import ReadArguments
    from native_log.logdir.catalog import PartitionKey
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.options import LogDirOptions

logger = logging.getLogger(__name__)


def follow_partition(
    copies: Sequence[PartitionDir],
    start_offset: int | None,
    isolation_level: IsolationLevel,
    options: ReadArguments,
    log_dir_options: LogDirOptions,
) -> FollowedLogDir:
    """Follow one partition: see PartitionLog.follow. Several copies are merged."""
    replicas: Replicas = "merge" if len(copies) > 1 else "longest"
    log_dir = LiveLogDir([copy.path for copy in copies], replace(log_dir_options, replicas=replicas))
    starts = {} if start_offset is None else {copies[0].key: start_offset}
    return FollowedLogDir(log_dir, lambda _topic, _partition: True, starts, isolation_level, options)


class FollowedLogDir:
    """The selected partitions of log directories, as FollowedLogs.

    A partition that appears later is read from its first record on.
    """

    def __init__(
        self,
        log_dir: LiveLogDir,
        select: Callable[[str, int], bool],
        start_offsets: Mapping[PartitionKey, int],
        isolation_level: IsolationLevel,
        options: ReadArguments,
    ) -> None:
        """Begin to follow.

        Args:
            log_dir: the log directories.
            select: returns whether to follow a partition, by topic and number.
            start_offsets: where to begin; other partitions that exist begin at their current ends.
            isolation_level: see PartitionLog.read.
            options: see LogRange.read.

        Raises UnknownTopicOrPartitionError, OffsetOutOfRangeError, ValueError.
        """
        self._log_dir = log_dir
        self._select = select
        self._isolation_level = isolation_level
        self._options = options
        self._followers: dict[PartitionKey, PartitionFollower] = {}
        self._keys: dict[str, PartitionKey] = {}
        self._watched: dict[PartitionKey, list[str]] = {}
        self._roots = {str(path) for path in log_dir.directories}
        self._new_directories = list(self._roots)
        existing = (partition.key for partition in log_dir.partitions())
        keys = dict.fromkeys([*start_offsets, *(key for key in existing if select(*key))])
        log_dir.open_logs(keys)

        def begin(key: PartitionKey) -> PartitionFollower | None:
            try:
                log = log_dir.partition(*key)
            except (FileNotFoundError, UnknownTopicOrPartitionError):
                if key in start_offsets:
                    raise
                return None  # it was removed just now
            return PartitionFollower.begin(log, start_offsets.get(key), isolation_level, options)

        for key, follower in zip(keys, map_together(begin, keys, are_local=log_dir.is_local), strict=True):
            if follower is not None:
                self._follow(key, follower)
        self._unread = dict.fromkeys(self._followers)
        self._unopened: set[PartitionKey] = set()

    def refresh(self, changed: Collection[str] | None) -> None:
        """See FollowedLogs.

        Raises UnknownTopicOrPartitionError if a partition was removed (with `fail_on_data_loss`).
        """
        keys = None
        if changed is not None and self._roots.isdisjoint(changed):
            keys = [self._keys[path] for path in changed if path in self._keys]
        change = self._log_dir.refresh(keys)
        for key in change.removed:
            if key in self._followers:
                self._remove(key)
        for key, log_change in change.logs.items():
            if key in self._followers:
                self._unread[key] = None
                self._watch(key, again=log_change.is_recreated)
                self._followers[key].apply(log_change)
        added = {key for key in change.added if self._select(*key)}
        unopened = sorted({*self._unopened, *added} - set(change.removed))
        self._log_dir.open_logs(unopened)
        for key in unopened:
            self._add(key)

    def new_directories(self) -> list[str]:
        """See FollowedLogs."""
        directories, self._new_directories = self._new_directories, []
        return [directory for directory in directories if self._log_dir.can_watch(directory)]

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See FollowedLogs."""
        keys, is_local = list(self._unread), self._log_dir.is_local
        self._unread.clear()
        found = map_together(self._take, keys, are_local=is_local)
        ranges: Iterable[LogRange] = (taken for taken in found if taken is not None)
        if not is_local:
            ranges = list(ranges)
            small = small_parts(ranges, undivided=True)
            if small is not None:
                yield from read_small_parts(small, lambda taken: self._read(taken, columns))
                return
        for taken in ranges:
            yield from self._read(taken, columns)

    def _take(self, key: PartitionKey) -> LogRange | None:
        follower = self._followers[key]
        taken = follower.take()
        if follower.is_behind:
            self._unread[key] = None  # unless the next refresh finds that the partition was removed
        return taken

    def _read(self, taken: LogRange, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        follower = self._followers[taken.topic, taken.partition]
        try:
            yield from taken.read(columns, **self._options)
        except FileNotFoundError:
            if _exists(follower):
                raise
            follower.position = taken.start_offset  # the next refresh reports what is lost

    def _add(self, key: PartitionKey) -> None:
        """Follow a partition that has appeared."""
        try:
            log = self._log_dir.partition(*key)
        except UnknownTopicOrPartitionError:
            self._unopened.discard(key)  # it was removed again
            return
        except FileNotFoundError:
            self._unopened.add(key)  # it was removed just now, or is being created
            return
        self._unopened.discard(key)
        start = log.log.local_log_start_offset
        self._follow(key, PartitionFollower(log, start, self._isolation_level, self._options))
        self._unread[key] = None

    def _follow(self, key: PartitionKey, follower: PartitionFollower) -> None:
        self._followers[key] = follower
        self._watch(key)

    def _watch(self, key: PartitionKey, *, again: bool = False) -> None:
        """Watch the directories of a partition that are not watched yet, or all of them again."""
        before, now = self._watched.get(key, []), self._followers[key].log.directories
        for directory in before:
            del self._keys[directory]
        self._keys |= dict.fromkeys(now, key)
        self._watched[key] = now
        self._new_directories += [directory for directory in now if again or directory not in before]

    def _remove(self, key: PartitionKey) -> None:
        follower = self._followers.pop(key)
        for directory in self._watched.pop(key):
            del self._keys[directory]
        self._unread.pop(key, None)
        message = (
            f"{key[0]}-{key[1]}: the partition was removed after its records up to offset "
            f"{follower.position} (exclusive) were read; later records are lost"
        )
        path = follower.log.path
        if self._options.get("fail_on_data_loss", True):
            raise UnknownTopicOrPartitionError(
                f"{message}; follow the other partitions again, or set fail_on_data_loss=False to continue "
                "without this one",
                path=path,
                offset=follower.position,
            )
        logger.warning("%s: %s", path, message)


def _exists(follower: PartitionFollower) -> bool:
    """Return whether the directory of a partition still exists."""
    return follower.log.log.state.source.folder.exists()
