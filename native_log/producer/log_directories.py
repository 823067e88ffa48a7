"""The log directories to which a producer writes: find, create and open topics in them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.names import INTERNAL_TOPICS
from native_log.errors import InvalidTopicError, KafkaLogError, UnknownTopicOrPartitionError
from native_log.logdir import LogDir
from native_log.logdir.create import check_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.arguments import PathLike
    from native_log.log import PartitionLog
    from native_log.producer.batch import TopicPartition
    from native_log.producer.settings import ProducerConfig


_guard = threading.Lock()
"""Held to list, create and open topics: no producer of the process may find what another one is creating."""

_ADMIN_CLIENT = "__admin_client"
"""The client.id that may write to internal topics (Kafka: AdminUtils.ADMIN_CLIENT_ID)."""


class LogDirectories:
    """Find, create and open topics in log directories.

    Args:
        paths: a LogDir, or the paths of log directories. A path that does not exist or is empty becomes a new
            log directory.
        config: the settings of the producer.
    """

    def __init__(self, paths: LogDir | PathLike | Iterable[PathLike], config: ProducerConfig) -> None:
        self._config = config
        with _guard:
            first = paths if isinstance(paths, LogDir) else _open_or_create(paths)
        self._logdirs = [first]
        """The given one, and one that was listed later."""
        self._requested: set[str] = set()

    @property
    def paths(self) -> tuple[str, ...]:
        """The log directories."""
        return tuple(str(state.path) for state in self._logdirs[0].directories)

    def find(self, topics: Iterable[str]) -> tuple[dict[str, list[str]], dict[str, Exception]]:
        """Look for topics, and create those that are missing if auto.create.topics.enable is true.

        A new partition is placed in the least loaded log directory, that with the fewest partitions.

        Returns:
            For each topic that was found, the log directory of each partition; and why others were not.

        Raises KafkaLogError, OSError: the log directories cannot be read.
        """
        topics = list(topics)
        with _guard:
            is_refresh = self._requested.issuperset(topics)  # partitions may have been added
            if is_refresh or any(self._holder(topic) is None for topic in topics):
                self._look_again()
            self._requested.update(topics)
            directories: dict[str, list[str]] = {}
            errors: dict[str, Exception] = {}
            for topic in topics:
                try:
                    directories[topic] = self._nodes(topic)
                except (KafkaLogError, OSError, ValueError) as error:
                    errors[topic] = error
        return directories, errors

    def path(self, target: TopicPartition) -> str:
        """Return the directory of a partition. Raises UnknownTopicOrPartitionError."""
        with _guard:
            path = self._path(target)
            if path is None:
                self._look_again()
                path = self._path(target)
        if path is None:
            raise UnknownTopicOrPartitionError(
                f"expected a partition {target}, found none; was it removed?", path=", ".join(self.paths)
            )
        return path

    def has(self, target: TopicPartition) -> bool:
        """Return whether a partition exists now."""
        return any(Path(path, str(target)).is_dir() for path in self.paths)

    def _path(self, target: TopicPartition) -> str | None:
        holder = self._holder(target.topic) or self._logdirs[0]
        found = (str(directory.path) for directory in holder.partitions() if directory.key == target)
        return next(found, None)

    def log(self, target: TopicPartition) -> PartitionLog:
        """Open the log of a partition. Raises UnknownTopicOrPartitionError, OSError."""
        with _guard:
            holder = self._holder(target.topic) or self._logdirs[0]
            return holder.partition(target.topic, target.partition, config=self._config.topic_config or None)

    def _holder(self, topic: str) -> LogDir | None:
        """Return the LogDir that knows most partitions of a topic, the given one if they are equal."""
        known = [(len(logdir.topics().get(topic, ())), logdir) for logdir in self._logdirs]
        count, holder = max(known, key=lambda each: each[0])
        return holder if count else None

    def _look_again(self) -> None:
        """List the directories again: another LogDir may have created topics."""
        self._logdirs[1:] = [LogDir(self.paths, allow_empty=True)]

    def _nodes(self, topic: str) -> list[str]:
        check_topic(topic, self._config.num_partitions)
        if topic in INTERNAL_TOPICS and self._config.client_id != _ADMIN_CLIENT:
            raise InvalidTopicError(
                f"expected a topic for clients, found {topic}, which only brokers write; choose another one"
            )
        holder = self._holder(topic)
        if holder is None:
            holder = self._create(topic)
        directories = [each for each in holder.partitions() if each.topic == topic]
        numbers = [each.partition for each in directories]
        if numbers != list(range(len(numbers))):
            raise UnknownTopicOrPartitionError(
                f"expected partitions of topic {topic} from 0 on without gaps, found {numbers}; open all log "
                "directories of the broker",
                path=", ".join(self.paths),
            )
        return [str(each.path.parent) for each in directories]

    def _create(self, topic: str) -> LogDir:
        if not self._config.auto_create_topics_enable:
            raise UnknownTopicOrPartitionError(
                f"expected a topic {topic}, found none; create it with LogDir.create_topic, or set "
                "auto.create.topics.enable",
                path=", ".join(self.paths),
            )
        self._logdirs[0].create_topic(topic, self._config.num_partitions)
        return self._logdirs[0]


def _open_or_create(paths: PathLike | Iterable[PathLike]) -> LogDir:
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    missing = [path for path in map(Path, listed) if _is_empty(path)]
    if listed and len(missing) == len(listed):
        return LogDir.create(listed)
    if missing:
        # All log directories of a broker have the same ids.
        others = LogDir([path for path in listed if Path(path) not in missing], allow_empty=True)
        known = [state.meta_properties for state in others.directories if state.meta_properties is not None]
        ids = known[0] if known else None
        LogDir.create(
            missing,
            cluster_id=None if ids is None else ids.cluster_id,
            node_id=None if ids is None else ids.node_id,
        )
    return LogDir(listed, allow_empty=True)


def _is_empty(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _reset_in_child() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_reset_in_child)
