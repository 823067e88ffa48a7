"""LogDir: the partitions in one or several log directories."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

from native_log.arguments import HighWatermark, PathLike, integer, path_list, text
from native_log.checkpoints.names import PartitionKind
from native_log.checkpoints.write_intent import WRITE_INTENT, WriteIntent
from native_log.config import LogConfig
from native_log.errors import (
    EmptyLogDirError,
    KafkaLogError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.logdir.create import (
    assign_log_dirs,
    check_topic,
    check_uuid,
    create_log_dir,
    create_partitions,
    random_uuid,
)
from native_log.logdir.directory_state import DirectoryState
from native_log.logdir.discovery import PartitionDir, find_partitions, join_names, local_path
from native_log.logdir.known_topics import KnownTopics
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from native_log.checkpoints.meta_properties import MetaProperties
    from native_log.policies import TopicFacts

logger = logging.getLogger(__name__)


class LogDir:
    """The partitions in one or several log directories, each counted once.

    What lies there is looked up once, when the object is made; a new one sees what changed since. Partitions
    are opened by `partition()` only.

    - A `-future` copy (a partition on its way to another log directory) is read only by its own path.
    - Of two directories of one partition, the one with the greater log end offset is read, with a warning.
    - Files that are not Kafka's are ignored, directories that are not skipped with a warning.

    Args:
        path, more_paths: log directories, or single partition directories, as strings or paths (or one list
            of them); `file:/p` means /p, `~` the home directory. For a single partition directory the
            checkpoints beside it count.
        include_deleted: also read `-delete` and `-stray` directories, under the topic that their name
            has left (a long one is truncated). Their checkpointed offsets are gone.
        high_watermark: where logs end. "auto": at the high watermark checkpointed last while a broker holds
            the directory's lock (up to 5 seconds behind the broker's own), else at the log end offset, as for
            a broker that loads the directory. "checkpoint": always at the checkpointed high watermark, where
            there is one. "ignore": always at the log end offset.
        max_batch_bytes: a batch that claims, or decompresses to, more is taken for damaged.
        allow_empty: no error where no partition can be read, to make topics in.

    Raises:
        FileNotFoundError, PermissionError: a path that is not there, or may not be read.
        NotALogDirError: a path that is neither a log directory nor a partition directory.
        EmptyLogDirError: log directories, but no partition that can be read in any of them.
        ValueError: an unknown high_watermark. TypeError: what is not a path.
    """

    def __init__(
        self,
        path: PathLike | Iterable[PathLike],
        *more_paths: PathLike,
        include_deleted: bool = False,
        high_watermark: HighWatermark = "auto",
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        allow_empty: bool = False,
    ) -> None:
        if high_watermark not in get_args(HighWatermark):
            raise ValueError(f"high_watermark is auto, ignore or checkpoint, not {high_watermark!r}")
        self.paths = _local_paths(path, more_paths)
        self._high_watermark = high_watermark
        self._max_batch_bytes = max_batch_bytes
        self._written: set[PartitionLog] = set()
        self._directories: dict[Path, DirectoryState] = {}
        self._known_topics = KnownTopics(self._directories)
        self._created_configs: dict[str, dict[str, object]] = {}
        candidates: dict[tuple[str, int], list[PartitionDir]] = {}
        self._passed_over: list[PartitionDir] = []
        self._skipped: list[str] = []
        for one in self.paths:
            found = find_partitions(one)
            if found.log_dir not in self._directories:
                self._directories[found.log_dir] = DirectoryState.read(found.log_dir)
            self._skipped += found.skipped
            for partition in found.partitions:
                if self._is_unpublished(partition):
                    continue
                if found.is_partition or _is_read(partition.kind, include_deleted):
                    candidates.setdefault((partition.topic, partition.partition), []).append(partition)
                else:
                    self._passed_over.append(partition)
        if not candidates and not allow_empty:
            raise EmptyLogDirError(self._nothing_to_read(), path=", ".join(map(str, self.paths)))
        self._warn_of_several_clusters()
        self._partitions = {key: self._chosen(candidates[key]) for key in sorted(candidates)}

    @classmethod
    def create(
        cls,
        path: PathLike | Iterable[PathLike],
        *more_paths: PathLike,
        cluster_id: str | None = None,
        node_id: int | None = None,
    ) -> LogDir:
        """Make one or several log directories of one broker, as if it had been formatted and stopped.

        Args:
            cluster_id: 22 characters of base64url; by default a new one. A broker loads a directory only if
                it has the broker's own cluster and node id.
            node_id: of the broker; by default 1.

        Raises:
            FileExistsError: there is something else than an empty directory at a path.
            ValueError: no cluster id can be like that.
        """
        paths = _local_paths(path, more_paths)
        cluster = random_uuid() if cluster_id is None else text("cluster_id", cluster_id)
        node = 1 if node_id is None else integer("node_id", node_id)
        for one in paths:
            create_log_dir(one, cluster, node)
        return cls(paths, allow_empty=True)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        topic_id: str | None = None,
        config: Mapping[str, object] | None = None,
    ) -> list[PartitionDir]:
        """Make an empty topic, its partitions each in the log directory that then has the fewest.

        Args:
            topic_id: 22 characters of base64url; by default a new one. A KRaft broker serves only topics that
                its cluster's metadata has under the same id.
            config: settings of the topic, by Kafka's names; see LogConfig. They apply to what is written
                through this object. A log directory has no place for them, so a warning says that later
                writers need them too: see `partition`.

        Raises:
            TopicExistsError, InvalidTopicError, InvalidConfigError, ValueError.
            LogDirInUseError: a broker runs on a directory.
            OSError: writing failed; nothing is left of the topic.
        """
        partitions = integer("partitions", partitions)
        check_topic(text("topic", topic), partitions)
        uuid = random_uuid() if topic_id is None else check_uuid(topic_id)
        settings = LogConfig.parse(config or {})
        found = self.topics().get(topic)
        if found is not None:
            raise TopicExistsError(
                f"expected no topic {topic}, found one with {len(found)} partitions",
                path=", ".join(map(str, self.paths)),
            )
        paths = create_partitions(assign_log_dirs(list(self._directories), partitions), topic, uuid, settings)
        made = [PartitionDir(topic, i, path, PartitionKind.NORMAL) for i, path in enumerate(paths)]
        self._partitions.update({one.key: one for one in made})
        self._partitions = {key: self._partitions[key] for key in sorted(self._partitions)}
        if config:
            self._created_configs[topic] = dict(config)
            logger.warning(
                "%s: the configuration of the new topic %s is not stored: it applies to what this LogDir "
                "writes; give it to LogDir.partition later, and to the topic in the broker's cluster",
                ", ".join(map(str, self.paths)),
                topic,
            )
        return made

    def close(self) -> None:
        """Close every partition log opened from here that was appended to (see PartitionLog.close)."""
        with ExitStack() as stack:  # all of them, though one fails
            for log in list(self._written):
                stack.callback(log.close)

    def keep(self, log: PartitionLog, *, is_written: bool) -> None:
        """For PartitionLog: keep a log alive from its first append until it is closed."""
        (self._written.add if is_written else self._written.discard)(log)

    def __enter__(self) -> LogDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LogDir({', '.join(repr(str(path)) for path in self.paths)})"

    def __getstate__(self) -> dict[str, object]:
        """Of what was looked up; logs that were opened stay where they are."""
        return {name: value for name, value in self.__dict__.items() if name != "_written"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _written=set())

    @property
    def directories(self) -> tuple[DirectoryState, ...]:
        """The log directories concerned, in the order given."""
        return tuple(self._directories.values())

    @property
    def meta_properties(self) -> MetaProperties:
        """meta.properties of the first log directory that has one.

        Raises FileNotFoundError if none has, as a copy of partitions alone.
        """
        for one in self.directories:
            if one.meta_properties is not None:
                return one.meta_properties
        raise FileNotFoundError(
            errno.ENOENT,
            "expected a readable meta.properties, found none: these are not whole log directories",
            ", ".join(str(one.path) for one in self.directories),
        )

    def topics(self) -> dict[str, list[int]]:
        """The partitions of each topic, internal topics included, sorted."""
        topics: dict[str, list[int]] = {}
        for topic, partition in self._partitions:
            topics.setdefault(topic, []).append(partition)
        return topics

    def partitions(self) -> list[PartitionDir]:
        """The partition directories that are read, sorted by topic and partition."""
        return list(self._partitions.values())

    def partition(
        self, topic: str, partition: int, *, config: Mapping[str, object] | None = None
    ) -> PartitionLog:
        """Open the log of one partition.

        Args:
            config: settings for appending to it, by Kafka's names: {"segment.bytes": 1048576}. See LogConfig.
                They override those that the topic was created with by this object, and those that are stored
                in the cluster's metadata (see `topic_configs`), which is read at the first append.

        Raises:
            UnknownTopicOrPartitionError; InvalidConfigError; TypeError.
        """
        text("topic", topic)
        partition = integer("partition", partition)
        try:
            found = self._partitions[topic, partition]
        except KeyError:
            raise UnknownTopicOrPartitionError(
                self._unknown(topic, partition), path=", ".join(map(str, self.paths))
            ) from None
        return self._open(found, config).owned_by(self)

    def _open(self, found: PartitionDir, config: Mapping[str, object] | None = None) -> PartitionLog:
        LogConfig.parse(config or {})
        created = self._created_configs.get(found.topic, {})
        settings = partial(self._known_topics.settings, found, created, config or {})

        def opened() -> PartitionLog:
            return PartitionLog.open(
                found.path,
                topic=found.topic,
                partition=found.partition,
                checkpoints=self.checkpoints(found),
                max_batch_bytes=self._max_batch_bytes,
                config=settings,
            )

        log = opened()
        directory = self._directories[found.path.parent]
        if directory.unfinished is None and (directory.path / WRITE_INTENT).exists():
            # A write is being published since the directory was looked up: the log may hold half of it.
            unfinished = WriteIntent.read(directory.path)
            self._directories[found.path.parent] = replace(directory, unfinished=unfinished)
            log = opened()
        return log

    def _is_unpublished(self, found: PartitionDir) -> bool:
        unfinished = self._directories[found.path.parent].unfinished
        return unfinished is not None and found.path.name in unfinished.created.values()

    def checkpoints(self, found: PartitionDir) -> PartitionCheckpoints:
        """What the checkpoint files say of one of `partitions()`; nothing is opened."""
        directory = self._directories[found.path.parent]
        if found.kind in (PartitionKind.DELETE, PartitionKind.STRAY):
            # Checkpoints of that name, if there are any, belong to a topic created anew.
            return PartitionCheckpoints(clean_shutdown=directory.clean_shutdown)
        is_live = directory.lock_holder is not None
        key = (found.topic, found.partition)
        saved = directory.checkpoints
        is_live = self._high_watermark == "checkpoint" or (self._high_watermark == "auto" and is_live)
        high_watermark = saved.high_watermarks.get(key, directory.unsaved_high_watermark(found.topic))
        if directory.unfinished is not None:
            end = directory.unfinished.log_end_offset(found.path.name)
            if end is not None:
                high_watermark = end if not is_live or high_watermark is None else min(end, high_watermark)
                is_live = True
        return PartitionCheckpoints(
            log_start_offset=saved.log_start_offsets.get(key),
            high_watermark=high_watermark,
            recovery_point=saved.recovery_points.get(key),
            first_dirty_offset=saved.first_dirty_offsets.get(key),
            live=is_live,
            clean_shutdown=directory.clean_shutdown,
        )

    def topic_facts(self, found: PartitionDir) -> TopicFacts:
        """Return what the directories hold about the configuration of the topic of one of `partitions()`."""
        return self._known_topics.facts(found)

    @property
    def topic_configs(self) -> dict[str, dict[str, str]]:
        """The configuration of each topic that is stored in the cluster's metadata, by topic and setting.

        As kafka-configs shows it: without defaults. Topics that the metadata does not have are missing, so
        the result is empty without metadata (`__cluster_metadata-0`), as in directories of ZooKeeper clusters
        or if a broker's `metadata.log.dir` lies elsewhere: open both, `LogDir(path, metadata_path)`.

        Raises KafkaLogError if the metadata cannot be read.
        """
        configs = {}
        for one in self.partitions():
            facts = self.topic_facts(one)
            if facts.unreadable is not None:
                raise KafkaLogError(facts.unreadable, path=one.path)
            if facts.stored is not None:
                configs[one.topic] = dict(facts.stored)
        return configs

    def _chosen(self, candidates: list[PartitionDir]) -> PartitionDir:
        """The one to read of the directories that hold the same partition."""
        if len(candidates) == 1:
            return candidates[0]
        kinds = list(PartitionKind)
        first_kind = min((one.kind for one in candidates), key=kinds.index)
        same = {os.path.realpath(one.path): one for one in reversed(candidates) if one.kind is first_kind}
        equals = list(reversed(same.values()))
        if len(equals) == 1:
            return equals[0]
        ends = {one: self._log_end_offset(one) for one in equals}
        chosen = max(equals, key=ends.__getitem__)
        others = [f"{one.path} (log end offset {end})" for one, end in ends.items() if one is not chosen]
        logger.warning(
            "%s-%d is there %d times: %s (log end offset %d) is read, not %s",
            *(chosen.topic, chosen.partition, len(equals), chosen.path, ends[chosen], " or ".join(others)),
        )
        return chosen

    def _log_end_offset(self, found: PartitionDir) -> int:
        try:
            return self._open(found).log_end_offset
        except KafkaLogError as error:  # a copy that cannot be opened is no reason to refuse the others
            logger.warning("%s", error)
            return -1

    def _nothing_to_read(self) -> str:
        there = sorted({one.path.name for one in self._passed_over})
        if self._skipped:
            there += [f"{name} (not <topic>-<partition>)" for name in self._skipped]
        if not there:
            return "the log directory holds no partitions; allow_empty=True opens it to make topics in"
        return (
            f"the log directory holds no partitions but {', '.join(there[:3])}{', ...' * (len(there) > 3)}; "
            "include_deleted reads -delete and -stray directories, and any is read when its own path is given"
        )

    def _unknown(self, topic: str, partition: int) -> str:
        topics = self.topics()
        if topic in topics:
            return f"topic {topic} has no partition {partition} here, but {join_names(topics[topic])}"
        if any(one.topic == topic for one in self._passed_over):
            return (
                f"topic {topic} is there as a -delete, -stray or -future directory only; see include_deleted"
            )
        return f"there is no topic {topic}, but {join_names(topics)}"

    def _warn_of_several_clusters(self) -> None:
        properties = [one.meta_properties for one in self.directories if one.meta_properties]
        clusters = {one.cluster_id for one in properties if one.cluster_id}
        if len(clusters) > 1:
            logger.warning(
                "the log directories are of several clusters (%s): partitions of one name count as copies",
                ", ".join(sorted(clusters)),
            )


def _local_paths(path: PathLike | Iterable[PathLike], more_paths: Iterable[PathLike]) -> tuple[Path, ...]:
    paths = tuple(map(local_path, path_list([*path_list(path), *more_paths])))
    if not paths:
        raise ValueError("no path is given: expected Kafka log directories, or partition directories")
    return paths


def _is_read(kind: PartitionKind, include_deleted: bool) -> bool:
    if kind is PartitionKind.NORMAL:
        return True
    return include_deleted and kind is not PartitionKind.FUTURE
