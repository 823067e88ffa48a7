"""One partition of a commit: an existing partition that is appended to, or a new one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.write_intent import PartitionBackup
from native_log.checkpoints.write_session import ClosedLog
from native_log.config import LogConfig
from native_log.errors import TopicExistsError
from native_log.log import PartitionLog
from native_log.log.writing.appender import LogAppender
from native_log.log.writing.writable_log import WritableLog
from native_log.logdir.create import check_topic, fill_partition, flush_partitions
from native_log.publish.job import remove_orphaned_staging
from native_log.publish.offsets import assign_offsets, write_first_prefix, zero_first_prefix
from native_log.publish.staging import OWN_SEGMENT_BYTES
from native_log.storage.writing import remove_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.checkpoints.write_session import WriteSession
    from native_log.publish.job import WriteJob
    from native_log.publish.staging import StagedFile


@dataclass(frozen=True, slots=True)
class Published:
    """The offsets that a commit added to a partition: from `start_offset` up to `end_offset` (exclusive)."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition that a commit creates. It is complete before `publish` gives it its name.

    Attributes:
        log_dir: the log directory.
        name: the name of the partition directory.
        staging_name: the name of the directory until it is published; readers ignore it.
        published: the offsets of its records.
    """

    log_dir: Path
    name: str
    staging_name: str
    published: Published

    @classmethod
    def create(
        cls,
        job: WriteJob,
        key: tuple[str, int],
        topic_id: str,
        files: Sequence[StagedFile],
        config: Mapping[str, object],
        now_ms: int,
    ) -> NewPartition:
        """Create the partition `key` (topic, partition) from staged files, under its staging name.

        Raises TopicExistsError if the partition exists; InvalidTopicError; OSError.
        """
        topic, number = key
        check_topic(topic, number + 1)
        log_dir, name = Path(job.log_dir), f"{topic}-{number}"
        staging_name = job.new_partition_dir(topic, number)
        path, settings = log_dir / staging_name, LogConfig.parse(config)
        if (log_dir / name).exists():
            raise TopicExistsError("expected no such partition, found one", path=log_dir / name)
        fill_partition(path, topic_id, settings)
        log = PartitionLog.open(path, topic=topic, partition=number, config=config)
        appender = LogAppender(log.state, settings, now_ms)
        try:
            for file, batches in assign_offsets(files, 0, appender.latest_epoch):
                appender.append_file(file.path, batches, OWN_SEGMENT_BYTES, now_ms)
            appender.close(flush=False)
        finally:
            appender.abandon()
        remove_folder(job.staging_folder(staging_name))
        flush_partitions([path])
        return cls(log_dir, name, staging_name, Published(topic, number, 0, appender.log_end_offset))

    def publish(self) -> None:
        """Rename the directory to the partition's name."""
        (self.log_dir / self.staging_name).rename(self.log_dir / self.name)

    def release(self, session: WriteSession) -> None:
        """Add the partition to the session's checkpoints. Call it after the commit."""
        end = self.published.end_offset
        key = self.published.topic, self.published.partition
        session.release(self.log_dir / self.name, key, ClosedLog(end, end, None))


class ExistingPartition:
    """A partition that a commit appends to. It is locked for appending until `close`."""

    def __init__(self, log: PartitionLog, files: Sequence[StagedFile], now_ms: int) -> None:
        """Open the log for appending and assign offsets to the staged files.

        Raises LogNeedsRecoveryError, LogDirInUseError, OSError: see PartitionLog.append.
        """
        remove_orphaned_staging(log.path)
        self._log = log
        self._now_ms = now_ms
        self._writing = WritableLog.begin(log.directory_source("appended to"), log.config, now_ms)
        self._is_open = True
        self._is_committed = False
        self._appender = self._writing.appender
        self._appender.active.continue_interval()
        self._epoch = self._appender.latest_epoch
        start = self._appender.log_end_offset
        end = start + sum(file.records for file in files)
        self.published = Published(log.topic, log.partition, start, end)
        try:
            self._parts = assign_offsets(files, start, self._epoch)
            zero_first_prefix(self._parts)
        except BaseException:
            self.close()
            raise

    def backup(self) -> PartitionBackup:
        """Return the state to which a failed commit restores the partition. Call it before `publish`."""
        active, mark = self._appender.active, self._appender.active.mark()
        sizes = mark.log_bytes, mark.index_bytes, mark.time_index_bytes
        ends = self.published.start_offset, self.published.end_offset
        return PartitionBackup.of(Path(self._log.path), active.base_offset, sizes, ends)

    def publish(self) -> None:
        """Append the files to the log, flush them, then write the prefix of the first batch."""
        previous, end = self._appender.active.path, self._appender.active.size_bytes
        first = ""
        for file, batches in self._parts:
            self._appender.append_file(file.path, batches, OWN_SEGMENT_BYTES, self._now_ms)
            first = first or self._appender.active.path
        self._appender.close()
        write_first_prefix(first, end if first == previous else 0, self._parts, self._epoch)

    def abandon(self) -> None:
        """Close the files as they are. Call it before the partition is restored."""
        self._is_open = False
        self._appender.abandon()

    def mark_committed(self) -> None:
        """Make `close` add the new end of the log to the checkpoints."""
        self._is_committed = True

    def close(self) -> None:
        """Unlock the partition."""
        path, session = Path(self._log.path).absolute(), self._writing.session
        try:
            if self._is_committed:
                self._appender.abandon()
                first, start = self._appender.segments[0].base_offset, self._log.log_start_offset
                end = self.published.end_offset
                closed = ClosedLog(end, end, start if start != first else None)
                session.release(path, (self._log.topic, self._log.partition), closed)
                return
            if self._is_open:  # Nothing was appended: release what the appender preallocated.
                with suppress(OSError):
                    self._appender.trim()
                self._appender.abandon()
            session.unclaim(path)
        finally:
            session.leave()
