"""One partition of a commit: a log that is gone on with, or one that is made."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.errors import TopicExistsError
from native_log.log import PartitionLog
from native_log.log.writing.append import LogAppender
from native_log.log.writing.opening import Writing
from native_log.logdir.create import checked_topic, fill_partition, flush_partitions
from native_log.logdir.session import ClosedLog
from native_log.logdir.unfinished import PartitionBefore
from native_log.publish.job import sweep_partition
from native_log.publish.offsets import assign_offsets, break_seal, seal
from native_log.publish.staging import OWN_SEGMENT_BYTES
from native_log.storage.writing import remove_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.logdir.session import WriteSession
    from native_log.publish.job import WriteJob
    from native_log.publish.staging import StagedFile


@dataclass(frozen=True, slots=True)
class Published:
    """What a partition got: offsets from `start_offset` to before `end_offset`."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class NewLog:
    """A partition that is not there yet, made whole under a name (`made_as`) that no one reads."""

    log_dir: Path
    name: str
    made_as: str
    published: Published

    @classmethod
    def make(
        cls,
        job: WriteJob,
        key: tuple[str, int],
        topic_id: str,
        files: Sequence[StagedFile],
        config: Mapping[str, object],
        now_ms: int,
    ) -> NewLog:
        """Raises TopicExistsError if it is there; InvalidTopicError; OSError."""
        topic, number = key
        checked_topic(topic, number + 1)
        log_dir, name, made_as = Path(job.log_dir), f"{topic}-{number}", job.new_partition(topic, number)
        path, settings = log_dir / made_as, LogConfig.parse(config)
        if (log_dir / name).exists():
            raise TopicExistsError("expected no such partition, found one", path=log_dir / name)
        fill_partition(path, topic_id, settings)
        log = PartitionLog.open(path, topic=topic, partition=number, config=config)
        appender = LogAppender(log, settings, now_ms)
        try:
            for file, batches in assign_offsets(files, 0, appender.latest_epoch):
                appender.append_file(file.path, batches, OWN_SEGMENT_BYTES, now_ms)
            appender.close(flush=False)
        finally:
            appender.abandon()
        remove_folder(job.folder(made_as))
        flush_partitions([path])
        return cls(log_dir, name, made_as, Published(topic, number, 0, appender.log_end_offset))

    def publish(self) -> None:
        """Give it its name."""
        (self.log_dir / self.made_as).rename(self.log_dir / self.name)

    def done(self, session: WriteSession) -> None:
        """It was committed: have it in the checkpoints."""
        end = self.published.end_offset
        key = self.published.topic, self.published.partition
        session.release(self.log_dir / self.name, key, ClosedLog(end, end, None))


class GrownLog:
    """A log that was there before, held from here on until `close`."""

    def __init__(self, log: PartitionLog, files: Sequence[StagedFile], now_ms: int) -> None:
        """Raises LogNeedsRecoveryError, LogDirInUseError, OSError: see PartitionLog.append."""
        sweep_partition(log.path)
        self._log = log
        self._now_ms = now_ms
        self._writing = Writing.begin(log, now_ms)
        self._is_open = True
        self._is_committed = False
        self._appender = self._writing.appender
        self._appender.active.count_on()
        self._epoch = self._appender.latest_epoch
        start = self._appender.log_end_offset
        end = start + sum(file.records for file in files)
        self.published = Published(log.topic, log.partition, start, end)
        try:
            self._parts = assign_offsets(files, start, self._epoch)
            seal(self._parts)
        except BaseException:
            self.close()
            raise

    def before(self) -> PartitionBefore:
        """How it is now, to come back to."""
        active, mark = self._appender.active, self._appender.active.mark()
        sizes = mark.log_bytes, mark.index_bytes, mark.time_index_bytes
        ends = self.published.start_offset, self.published.end_offset
        return PartitionBefore.of(Path(self._log.path), active.base_offset, sizes, ends)

    def publish(self) -> None:
        """Put the files in place, and when all of them are on the disk, break their seal."""
        before, end = self._appender.active.path, self._appender.active.size_bytes
        first = ""
        for file, batches in self._parts:
            self._appender.append_file(file.path, batches, OWN_SEGMENT_BYTES, self._now_ms)
            first = first or self._appender.active.path
        self._appender.close()
        break_seal(first, end if first == before else 0, self._parts, self._epoch)

    def abandon(self) -> None:
        """Let go of the files, which are about to be as they were."""
        self._is_open = False
        self._appender.abandon()

    def done(self) -> None:
        """It was committed."""
        self._is_committed = True

    def close(self) -> None:
        """Let go of the log."""
        path, session = Path(self._log.path).absolute(), self._writing.session
        try:
            if self._is_committed:
                self._appender.abandon()
                first, start = self._appender.segments[0].base_offset, self._log.log_start_offset
                end = self.published.end_offset
                closed = ClosedLog(end, end, start if start != first else None)
                session.release(path, (self._log.topic, self._log.partition), closed)
                return
            if self._is_open:  # nothing was appended: what is preallocated is given back
                with suppress(OSError):
                    self._appender.trim()
                self._appender.abandon()
            session.unclaim(path)
        finally:
            session.leave()
