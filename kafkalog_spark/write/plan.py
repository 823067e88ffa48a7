"""Plan a write on the driver: check the options and the log directory, and begin the job."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.errors import PathNotVisibleError, WriteAbortedError
from kafkalog_spark.write.columns import ColumnResolution
from native_log.checkpoints.lock import LogDirLock, lock_holder
from native_log.checkpoints.names import METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import check_checkpoints
from native_log.config import LogConfig
from native_log.errors import InvalidTopicError, NotALogDirError
from native_log.log.writing.record_encoding import RecordEncoder
from native_log.logdir import LogDir
from native_log.logdir.create import check_topic
from native_log.logdir.discovery import find_partitions, local_path
from native_log.publish.job import Owner, WriteJob, has_other_jobs
from native_log.publish.staging import TaskAttempt
from native_log.system import current_ms

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkalog_spark.options.write import WriteOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan of a write, which Spark sends to each task. Contains plain values only.

    Attributes:
        job: the job, which is in progress.
        options: the options of the write.
        columns: the columns to write, once a task knows whether names are case-sensitive.
        topics: the partitions of existing topics, in ascending order.
        configs: the settings of those existing topics for which the cluster's metadata has settings.
        now_ms: the timestamp of records without one.
    """

    job: WriteJob
    options: WriteOptions
    columns: ColumnResolution
    topics: dict[str, tuple[int, ...]]
    configs: dict[str, LogConfig]
    now_ms: int

    @classmethod
    def begin(cls, options: WriteOptions, schema: StructType, stream: str | None = None) -> WritePlan:
        """Plan a write and begin its job. Create the log directory if it does not exist.

        Args:
            schema: the schema of the DataFrame.
            stream: identifies a stream, whose batches are one job after the other. Spark plans and commits a
                batch in different processes.

        Raises OptionError; InvalidTopicError; NotALogDirError; LogDirInUseError if a broker runs on the log
        directory; KafkaLogError if a checkpoint file is malformed; OSError.
        """
        columns = ColumnResolution.from_schema(
            schema, with_topic=options.topic is None, with_timestamp=options.use_timestamp_column
        )
        if options.topic is not None:
            check_topic(options.topic, options.new_topic_partitions)
        path = local_path(options.path)
        created_log_dir = _create_log_dir(path, options)
        if find_partitions(path).is_partition:
            raise NotALogDirError(
                "expected a log directory to write to, found a partition directory; write to its parent",
                path=path,
            )
        _check_lock(path)
        check_checkpoints(path)
        log_dir = LogDir(path, allow_empty=True)
        topics = log_dir.topics()
        if options.topic is not None:
            if options.topic not in topics:
                _warn_of_stray_topic(path, options.topic)
            topics = {options.topic: topics[options.topic]} if options.topic in topics else {}
        facts = {
            partition.topic: log_dir.topic_facts(partition)
            for partition in log_dir.partitions()
            if partition.topic in topics
        }
        configs = {
            topic: topic_facts.settings(options.config).config
            for topic, topic_facts in facts.items()
            if topic_facts.stored is not None or topic_facts.broker
        }
        job = WriteJob.begin(
            path, Owner.from_pid(_driver_pid()), name=stream, created_log_dir=created_log_dir
        )
        now_ms = current_ms()
        partitions = {topic: tuple(numbers) for topic, numbers in topics.items()}
        return cls(job, options, columns, partitions, configs, now_ms)

    def check_visible(self) -> None:
        """Check in a task that the job is in progress and its log directory is visible.

        Raises WriteAbortedError after an abort; PathNotVisibleError on an executor that does not see the
        driver's directory.
        """
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
            f"the executor on host {host} does not see this log directory: mount it there under the same "
            "path (or the write was aborted, and the directory that was created for it is removed)",
            path=path,
        )

    def attempt(self, name: str) -> TaskAttempt:
        """Return a new attempt at a task. `name`: see TaskAttempt."""
        config = LogConfig.parse(self.options.config)
        topics = {topic: (self._encoding(stored), stored) for topic, stored in self.configs.items()}
        return TaskAttempt(self.job, name, self._encoding(config), config, self.now_ms, topics)

    def _encoding(self, config: LogConfig) -> RecordEncoder:
        """Return how to encode records: the topic's codec, if it has one, overrides the producer's."""
        producer, topic_codec = self.options.producer, config.compression_type
        codec = producer.compression if topic_codec == "producer" else topic_codec
        level = producer.level if codec == producer.compression else None
        return RecordEncoder(codec, level, producer.batch_size)

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic, or, if it is new, the number it will have.

        Raises InvalidTopicError.
        """
        check_topic(topic, self.options.new_topic_partitions)
        partitions = self.topics.get(topic)
        return self.options.new_topic_partitions if partitions is None else partitions[-1] + 1

    def partition_dir(self, topic: str, partition: int) -> str:
        """Return the name of a partition's directory. Raises InvalidTopicError."""
        partitions = self.topics.get(topic)
        if partitions is None:
            return self.job.new_partition_dir(topic, partition)
        if partition not in partitions:
            raise InvalidTopicError(
                f"expected a partition of topic {topic} that this log directory contains "
                f"({', '.join(map(str, partitions))}), found {partition}; choose one in a column `partition`",
                path=self.job.log_dir,
            )
        return f"{topic}-{partition}"


def _create_log_dir(path: Path, options: WriteOptions) -> bool:
    """Create the log directory if it does not exist or is empty. Return whether it was created."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        return False
    try:
        LogDir.create(path, cluster_id=options.cluster_id, node_id=options.node_id)
    except FileExistsError:  # Another write has just created it.
        return False
    logger.warning("%s: created a new log directory; if there should be one, check the path", path)
    return True


def _warn_of_stray_topic(path: Path, new_topic: str) -> None:
    if (path / f"{METADATA_TOPIC}-0").is_dir():
        logger.warning(
            "%s: topic %s is new in a broker's log directory; a broker renames partitions that its cluster "
            "does not know to -stray: create the topic in the cluster first",
            path,
            new_topic,
        )


def _check_lock(path: Path) -> None:
    """Raise LogDirInUseError if a broker holds the lock, before any work is done.

    Another write may hold it: writes hold it only while they commit.
    """
    if lock_holder(path) is not None and not has_other_jobs(path):
        LogDirLock(path).close()


def _driver_pid() -> int:
    """Return the process that owns the job: the JVM that started this Python process, or else this one."""
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
