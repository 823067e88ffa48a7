"""The commit of a job: staged files get their offsets and become part of the logs, all in one step."""

from __future__ import annotations

import logging
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.config import LogConfig
from native_log.errors import LogDirInUseError, TopicExistsError
from native_log.log import PartitionLog
from native_log.log.append import LogAppender
from native_log.log.writing import Writing
from native_log.logdir import LogDir
from native_log.logdir.create import checked_topic, fill_partition, random_uuid
from native_log.logdir.session import ClosedLog, WriteSession
from native_log.logdir.unfinished import PartitionBefore, UnfinishedWrite, last_stream_batch
from native_log.publish.job import other_jobs, remove_folder, sweep, sweep_partition
from native_log.publish.staging import OWN_SEGMENT_BYTES
from native_log.segment.scan import int32s, int64s
from native_log.storage.writing import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from native_log.publish.job import WriteJob
    from native_log.publish.staging import StagedFile

logger = logging.getLogger(__name__)

_THREADS = 8
"""Partitions published at a time: most of it is waiting for the disk."""
_LOCK_WAIT_SECONDS = 60
_PREFIX = struct.Struct(">qii")
"""baseOffset, batchLength, partitionLeaderEpoch: how a batch begins; its checksum does not cover them."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a partition got: offsets from `start_offset` to before `end_offset`."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


def commit(
    job: WriteJob,
    staged: Iterable[StagedFile],
    config: Mapping[str, object],
    new_partitions: int,
    *,
    stream: tuple[str, int] | None = None,
    now_ms: int | None = None,
) -> list[Published]:
    """Publish what tasks have staged, all of it or, whatever fails, nothing. The job is ended.

    Args:
        staged: in the order in which a partition's files go into its log.
        config: settings of the topics, by Kafka's names.
        new_partitions: how many partitions a topic gets that is not there yet.
        stream: query id and batch id: a batch that was published before (or one after it) is not again.

    Raises:
        LogDirInUseError: a broker, or another writer, holds the log directory.
        LogNeedsRecoveryError: a crash left a log's end damaged; `kafkalog recover` mends it.
        TopicExistsError: a topic was made meanwhile by someone else.
        OSError: writing failed; the logs are as they were.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    log_dir = Path(job.log_dir)
    session = _entered(log_dir, job)
    try:
        job.check()
        sweep(log_dir)
        if stream is not None and _was_written(log_dir, *stream):
            logger.info("batch %d of query %s was written before: nothing to do", stream[1], stream[0])
            return []
        by_partition: dict[tuple[str, int], list[StagedFile]] = {}
        for one in staged:
            by_partition.setdefault((one.topic, one.partition), []).append(one)
        return _Commit(job, session, LogConfig.parse(config), config, now_ms, stream).run(
            by_partition, new_partitions
        )
    finally:
        try:
            job.end()
        finally:
            session.leave()


def _entered(log_dir: Path, job: WriteJob) -> WriteSession:
    """Hold the log directory; other writes hold it only while they commit, so their end is waited for."""
    last = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            return WriteSession.enter(log_dir)
        except LogDirInUseError:
            if time.monotonic() > last or not other_jobs(log_dir, job.id):
                raise
        time.sleep(0.05)


def _was_written(log_dir: Path, query_id: str, batch_id: int) -> bool:
    last = last_stream_batch(log_dir, query_id)
    return last is not None and batch_id <= last


class _Commit:
    def __init__(
        self,
        job: WriteJob,
        session: WriteSession,
        settings: LogConfig,
        config: Mapping[str, object],
        now_ms: int,
        stream: tuple[str, int] | None,
    ) -> None:
        self._job = job
        self._log_dir = Path(job.log_dir)
        self._session = session
        self._settings = settings
        self._config = config
        self._now_ms = now_ms
        self._stream = stream

    def run(
        self, staged: Mapping[tuple[str, int], Sequence[StagedFile]], new_partitions: int
    ) -> list[Published]:
        logs = LogDir(self._log_dir, allow_empty=True)
        there = logs.topics()
        topics = {topic for topic, _ in staged}
        for (topic, number), files in staged.items():
            if topic in there and files[0].partition_dir != f"{topic}-{number}":
                raise TopicExistsError(
                    f"topic {topic} was not there when this write began, and was made meanwhile: write again",
                    path=self._log_dir,
                )
        missing = {topic: random_uuid() for topic in sorted(topics - there.keys())}
        with ExitStack() as open_logs, ThreadPoolExecutor(_THREADS) as threads:
            created = list(
                threads.map(
                    lambda key: self._created(key, missing[key[0]], staged.get(key, ())),
                    [(topic, number) for topic in missing for number in range(new_partitions)],
                )
            )
            opened = [
                self._opened(logs.partition(topic, number, config=self._config), files, open_logs)
                for (topic, number), files in sorted(staged.items())
                if topic in there
            ]
            unfinished = UnfinishedWrite(
                self._job.id,
                tuple(one.before() for one in opened),
                {one.made_as: one.name for one in created},
                self._stream,
            )
            self._session.begin()
            fsync_directory(self._log_dir)
            unfinished.write(self._log_dir)
            try:
                done = [threads.submit(one.publish, self._now_ms) for one in opened]
                wait(done)  # all of them, before anything is taken back
                for future in done:
                    future.result()
                for new in created:
                    (self._log_dir / new.made_as).rename(self._log_dir / new.name)
                fsync_directory(self._log_dir)
                unfinished.commit(self._log_dir)
            except BaseException:
                for one in opened:
                    one.abandon()
                unfinished.undo(self._log_dir)
                raise
            for one in opened:
                one.is_published = True
            for new in created:
                key = new.published.topic, new.published.partition
                end = ClosedLog(new.published.end_offset, new.published.end_offset, None)
                self._session.release(self._log_dir / new.name, key, end)
        return [*(one.published for one in opened), *(new.published for new in created)]

    def _opened(self, log: PartitionLog, files: Sequence[StagedFile], open_logs: ExitStack) -> _Opened:
        """An existing log, held, with the files that go behind its end: their offsets set."""
        sweep_partition(log.path)
        writing = Writing.begin(log, self._now_ms)
        one = _Opened(log, writing, files, self._job)
        open_logs.callback(one.close)
        one.set_offsets()
        return one

    def _created(self, key: tuple[str, int], topic_id: str, files: Sequence[StagedFile]) -> _Created:
        """A partition that is not there yet, made whole under a name that no one reads."""
        topic, number = key
        checked_topic(topic, number + 1)
        name = f"{topic}-{number}"
        made_as = self._job.new_partition(topic, number)
        path = self._log_dir / made_as
        if (self._log_dir / name).exists():
            raise TopicExistsError("expected no such partition, found one", path=self._log_dir / name)
        fill_partition(path, topic_id, self._settings)
        log = PartitionLog.open(path, topic=topic, partition=number, config=self._config)
        appender = LogAppender(log, self._settings, self._now_ms)
        try:
            for file, batches in _with_offsets(files, 0, appender.latest_epoch):
                appender.append_file(file.path, batches, OWN_SEGMENT_BYTES, self._now_ms)
            appender.close()
        finally:
            appender.abandon()
        remove_folder(self._job.folder(made_as))
        fsync_directory(path)
        return _Created(name, made_as, Published(topic, number, 0, appender.log_end_offset))


@dataclass(frozen=True, slots=True)
class _Created:
    name: str
    made_as: str
    published: Published


class _Opened:
    """A log that was there before."""

    def __init__(
        self, log: PartitionLog, writing: Writing, files: Sequence[StagedFile], job: WriteJob
    ) -> None:
        self.log = log
        self.writing = writing
        self.is_published = False
        self._is_abandoned = False
        self._files = files
        self._job = job
        self._parts: list[tuple[StagedFile, pa.RecordBatch]] = []
        self._epoch = writing.appender.latest_epoch
        start = writing.appender.log_end_offset
        end = start + sum(file.records for file in files)
        self.published = Published(log.topic, log.partition, start, end)

    def set_offsets(self) -> None:
        """In the staged files. The first batch is sealed: it gets none yet."""
        self._parts = _with_offsets(self._files, self.published.start_offset, self._epoch)
        _write_at(self._files[0].path, 0, bytes(_PREFIX.size))

    def before(self) -> PartitionBefore:
        active, mark = self.writing.appender.active, self.writing.appender.active.mark()
        sizes = mark.log_bytes, mark.index_bytes, mark.time_index_bytes
        ends = self.published.start_offset, self.published.end_offset
        return PartitionBefore.of(Path(self.log.path), active.base_offset, sizes, ends)

    def publish(self, now_ms: int) -> None:
        """Put the files in place, and when all of them are on the disk, break the seal.

        A broker that recovers a log ends it at a batch that begins with zeros, and drops what comes behind:
        even one that is started after a crash finds nothing of these files, or all.
        """
        appender = self.writing.appender
        before, end = appender.active.path, appender.active.size_bytes
        path = ""
        for file, batches in self._parts:
            appender.append_file(file.path, batches, OWN_SEGMENT_BYTES, now_ms)
            path = path or appender.active.path
        appender.close()
        size = int32s(self._parts[0][1], "sizeInBytes")[0]
        prefix = _PREFIX.pack(self.published.start_offset, size - 12, self._epoch)
        _write_at(path, end if path == before else 0, prefix, flush=True)

    def abandon(self) -> None:
        """Let go of the files, which are about to be as they were."""
        self._is_abandoned = True
        self.writing.appender.abandon()

    def close(self) -> None:
        path = Path(self.log.path).absolute()
        session = self.writing.session
        try:
            if not self.is_published:
                if not self._is_abandoned:  # nothing was appended: what is preallocated is given back
                    with suppress(OSError):
                        self.writing.appender.trim()
                    self.writing.appender.abandon()
                session.unclaim(path)
                return
            self.writing.appender.abandon()
            first, end = self.writing.appender.segments[0].base_offset, self.published.end_offset
            start = self.log.log_start_offset
            closed = ClosedLog(end, end, start if start > first else None)
            session.release(path, (self.log.topic, self.log.partition), closed)
        finally:
            session.leave()


def _with_offsets(
    files: Sequence[StagedFile], offset: int, leader_epoch: int
) -> list[tuple[StagedFile, pa.RecordBatch]]:
    """Give the files' batches their offsets, from `offset` on; their rows, with these."""
    parts = []
    for file in files:
        headers = file.headers()
        shift = offset - headers.column("baseOffset")[0].as_py()
        for index, name in enumerate(headers.schema.names):
            if name in ("baseOffset", "lastOffset"):
                headers = headers.set_column(index, name, pc.add(headers.column(name), shift))
        _patch(file.path, headers, leader_epoch)
        parts.append((file, headers))
        offset += file.records
    return parts


def _patch(path: str, headers: pa.RecordBatch, leader_epoch: int) -> None:
    """Write offsets and leader epoch into a file of batches. It is flushed as part of its segment."""
    columns = int64s(headers, "position"), int64s(headers, "baseOffset"), int32s(headers, "sizeInBytes")
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for position, offset, size in zip(*columns, strict=True):
            os.pwrite(descriptor, _PREFIX.pack(offset, size - 12, leader_epoch), position)
    finally:
        os.close(descriptor)


def _write_at(path: str, position: int, data: bytes, *, flush: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, position)
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
