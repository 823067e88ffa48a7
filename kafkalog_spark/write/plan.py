"""What the driver decides before tasks write: checked, and sent along with each task."""

from __future__ import annotations

import logging
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.errors import PathNotVisibleError, WriteAbortedError
from kafkalog_spark.write.columns import SinkColumns
from native_log.config import LogConfig
from native_log.errors import InvalidTopicError, NotALogDirError
from native_log.log.writing.encoding import Encoding
from native_log.logdir import LogDir
from native_log.logdir.create import checked_topic
from native_log.logdir.discovery import find_partitions, local_path
from native_log.logdir.lock import LogDirLock, lock_holder
from native_log.logdir.names import METADATA_TOPIC
from native_log.publish.job import Owner, WriteJob, has_other_jobs
from native_log.publish.staging import TaskAttempt

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkalog_spark.options.write import WriteOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """All that a task needs. Plain values.

    Attributes:
        job: under way since this was made.
        topics: the partitions of the topics that are there.
        configs: the settings of those whose configuration is stored in the cluster's metadata.
        now_ms: the time of records that have none.
    """

    job: WriteJob
    options: WriteOptions
    columns: SinkColumns
    topics: dict[str, tuple[int, ...]]
    configs: dict[str, LogConfig]
    now_ms: int

    @classmethod
    def of(cls, options: WriteOptions, schema: StructType, stream: str | None = None) -> WritePlan:
        """Begin a job. Raises OptionError; LogDirInUseError if a broker runs there; OSError.

        Args:
            stream: what a stream is known by, whose batches are one job after the other. Spark plans and
                commits them in different processes.
        """
        columns = SinkColumns.of(
            schema, with_topic=options.topic is None, with_timestamp=options.use_timestamp_column
        )
        if options.topic is not None:
            checked_topic(options.topic, options.partitions)
        path = local_path(options.path)
        made = _made(path, options)
        if find_partitions(path).is_partition:
            raise NotALogDirError("expected a log directory to write to, found a partition of one", path=path)
        _check_free(path)
        log_dir = LogDir(path, allow_empty=True)
        topics = log_dir.topics()
        if options.topic is not None:
            if options.topic not in topics:
                _warn_if_a_brokers(path, options.topic)
            topics = {options.topic: topics[options.topic]} if options.topic in topics else {}
        facts = {one.topic: log_dir.topic_facts(one) for one in log_dir.partitions() if one.topic in topics}
        configs = {
            topic: known.settings().overridden(options.config)
            for topic, known in facts.items()
            if known.stored is not None
        }
        job = WriteJob.begin(path, Owner.from_pid(_driver()), name=stream, created_log_dir=made)
        now_ms = time.time_ns() // 1_000_000
        there = {topic: tuple(partitions) for topic, partitions in topics.items()}
        return cls(job, options, columns, there, configs, now_ms)

    def check_visible(self) -> None:
        """Raises WriteAbortedError after an abort; PathNotVisibleError on an executor that does not see what
        the driver sees."""
        if self.job.marker.exists():
            return
        host, path = socket.gethostname(), self.job.log_dir
        if Path(path).is_dir():
            raise WriteAbortedError(
                "the write was aborted: its query was stopped, or another task failed. If neither happened, "
                f"the executor on host {host} does not see the driver's directory: mount it there under the "
                "same path",
                path=path,
            )
        raise PathNotVisibleError(
            f"the executor on host {host} does not see this log directory (or the write was aborted, and the "
            "directory made for it removed): mount it there under the same path",
            path=path,
        )

    def attempt(self, name: str) -> TaskAttempt:
        """One at a task. `name`: see there."""
        config = LogConfig.parse(self.options.config)
        topics = {topic: (self._encoding(stored), stored) for topic, stored in self.configs.items()}
        return TaskAttempt(self.job, name, self._encoding(config), config, self.now_ms, topics)

    def _encoding(self, config: LogConfig) -> Encoding:
        """Return how records become batches: the topic's codec, if it has one, overrides the producer's."""
        producer, of_topic = self.options.producer, config.compression_type
        codec = producer.compression if of_topic == "producer" else of_topic
        level = producer.level if codec == producer.compression else None
        return Encoding(codec, level, producer.batch_size)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has, or will have. Raises InvalidTopicError."""
        there = self.topics.get(topic)
        if there is None:
            checked_topic(topic, self.options.partitions)
            return self.options.partitions
        return there[-1] + 1

    def partition_dir(self, topic: str, partition: int) -> str:
        """The directory's name, in the log directory. Raises InvalidTopicError."""
        there = self.topics.get(topic)
        if there is None:
            return self.job.new_partition_dir(topic, partition)
        if partition not in there:
            raise InvalidTopicError(
                f"this log directory does not hold partition {partition} of topic {topic}, only "
                f"{', '.join(map(str, there))}: choose partitions by a column `partition`",
                path=self.job.log_dir,
            )
        return f"{topic}-{partition}"


def _made(path: Path, options: WriteOptions) -> bool:
    """Make the log directory if there is none; whether that was so."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        return False
    try:
        LogDir.create(path, cluster_id=options.cluster_id, node_id=options.node_id)
    except FileExistsError:  # another write was quicker
        return False
    return True


def _warn_if_a_brokers(path: Path, new_topic: str) -> None:
    if (path / f"{METADATA_TOPIC}-0").is_dir():
        logger.warning(
            "%s: topic %s is new in a broker's log directory; a broker sets aside (-stray) what its cluster "
            "does not know: make the topic there first",
            path,
            new_topic,
        )


def _check_free(path: Path) -> None:
    """Refuse a broker's directory before all the work. Another write holds it only while it commits."""
    if lock_holder(path) is not None and not has_other_jobs(path):
        LogDirLock(path).close()


def _driver() -> int:
    """The process with which the job dies: the JVM above this Python process, else this one."""
    pid = os.getpid()
    while pid > 1:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if name == "java":
                return pid
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])
    return os.getpid()
