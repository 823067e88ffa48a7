"""The commit of a job: staged files get their offsets and become part of the logs, all in one step."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import LogDirInUseError, TopicExistsError
from native_log.logdir import LogDir
from native_log.logdir.create import random_uuid
from native_log.logdir.session import WriteSession
from native_log.logdir.unfinished import UnfinishedWrite, last_stream_batch
from native_log.publish.job import other_jobs, sweep
from native_log.publish.partitions import GrownLog, NewLog, Published
from native_log.storage.writing import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from native_log.publish.job import WriteJob
    from native_log.publish.staging import StagedFile

logger = logging.getLogger(__name__)

_THREADS = 8
"""Partitions published at a time: most of it is waiting for the disk."""
_LOCK_WAIT_SECONDS = 60


def commit(
    job: WriteJob,
    staged: Iterable[StagedFile],
    config: Mapping[str, object],
    new_partitions: int,
    *,
    topics: Sequence[str] = (),
    stream: tuple[str, int] | None = None,
    now_ms: int | None = None,
) -> list[Published]:
    """Publish what tasks have staged, all of it or, whatever fails, nothing. The job is ended.

    Args:
        staged: in the order in which a partition's files go into its log.
        config: settings of the topics, by Kafka's names.
        new_partitions: how many partitions a topic gets that is not there yet.
        topics: are made if they are not there, even if nothing is staged for them.
        stream: query id and batch id: a batch that was published before (or one after it) is not again.

    Raises:
        LogDirInUseError: a broker, or another writer, holds the log directory.
        LogNeedsRecoveryError: a crash left a log's end damaged; `kafkalog recover` mends it.
        TopicExistsError: a topic was made meanwhile by someone else, with another number of partitions than
            its records were dealt out to. If the number is the same they are appended.
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
        return _publish(job, session, by_partition, topics, config, new_partitions, stream, now_ms)
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


def _publish(
    job: WriteJob,
    session: WriteSession,
    staged: Mapping[tuple[str, int], Sequence[StagedFile]],
    topics: Sequence[str],
    config: Mapping[str, object],
    new_partitions: int,
    stream: tuple[str, int] | None,
    now_ms: int,
) -> list[Published]:
    log_dir = Path(job.log_dir)
    logs = LogDir(log_dir, allow_empty=True)
    there = logs.topics()
    _check_topics(job, staged, there, new_partitions)
    wanted = {*topics, *(topic for topic, _ in staged)}
    new_topics = {topic: random_uuid() for topic in sorted(wanted) if topic not in there}

    def make(key: tuple[str, int]) -> NewLog:
        return NewLog.make(job, key, new_topics[key[0]], staged.get(key, ()), config, now_ms)

    with ExitStack() as held, ThreadPoolExecutor(_THREADS) as threads:
        keys = [(topic, number) for topic in new_topics for number in range(new_partitions)]
        made = list(threads.map(make, keys))
        grown = []
        for (topic, number), files in sorted(staged.items()):
            if topic in there:
                grown.append(GrownLog(logs.partition(topic, number, config=config), files, now_ms))
                held.callback(grown[-1].close)
        unfinished = UnfinishedWrite(
            job.id,
            tuple(log.before() for log in grown),
            {log.made_as: log.name for log in made},
            stream,
        )
        session.begin()
        fsync_directory(log_dir)
        unfinished.write(log_dir)
        try:
            under_way = [threads.submit(log.publish) for log in grown]
            wait(under_way)  # for all of them, before anything is taken back
            for one in under_way:
                one.result()
            for log in made:
                log.publish()
            fsync_directory(log_dir)
            unfinished.commit(log_dir)
        except BaseException:
            for one_grown in grown:
                one_grown.abandon()
            unfinished.undo(log_dir)
            raise
        for one_grown in grown:
            one_grown.done()
        for log in made:
            log.done(session)
    return [*(log.published for log in grown), *(log.published for log in made)]


def _check_topics(
    job: WriteJob,
    staged: Mapping[tuple[str, int], Sequence[StagedFile]],
    there: Mapping[str, Sequence[int]],
    new_partitions: int,
) -> None:
    """Records staged for a new topic go to one that was made meanwhile: by their keys they are where they
    belong if it has as many partitions."""
    for (topic, number), files in staged.items():
        was_new = files[0].partition_dir != f"{topic}-{number}"
        if was_new and topic in there and there[topic] != [*range(new_partitions)]:
            raise TopicExistsError(
                f"topic {topic} was not there when this write began, and was made meanwhile with "
                f"{len(there[topic])} partitions, not the {new_partitions} that its records were dealt out "
                "to: write again",
                path=job.log_dir,
            )
