"""Commit a job: give the staged files their offsets and add them to the logs, all in one step."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.write_intent import WriteIntent, last_stream_batch
from native_log.checkpoints.write_session import WriteSession
from native_log.errors import LogDirInUseError, TopicExistsError
from native_log.logdir import LogDir
from native_log.logdir.create import random_uuid
from native_log.publish.job import has_other_jobs, remove_abandoned_jobs
from native_log.publish.partitions import ExistingPartition, NewPartition, Published
from native_log.storage.writing import fsync_directory
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from native_log.publish.job import WriteJob
    from native_log.publish.staging import StagedFile

logger = logging.getLogger(__name__)

_THREADS = 8
"""Partitions published in parallel: most of the time is spent waiting for the disk."""
_LOCK_WAIT_SECONDS = 60


def commit(
    job: WriteJob,
    staged: Iterable[StagedFile],
    config: Mapping[str, object],
    new_topic_partitions: int,
    *,
    topics: Sequence[str] = (),
    version: tuple[str, int] | None = None,
    now_ms: int | None = None,
) -> list[Published]:
    """Publish everything that the tasks of a job staged, or, if anything fails, nothing. End the job.

    Args:
        staged: the files of each partition, in the order in which they go into its log.
        config: topic settings, by Kafka's names.
        new_topic_partitions: number of partitions of each topic that the commit creates.
        topics: topics to create if they do not exist, even if nothing is staged for them.
        version: the id of a sequence of writes, such as a streaming query, and the version of this one, such
            as its batch. The write is skipped, and the result empty, if this or a later version was already
            published.

    Raises:
        LogDirInUseError: a broker or another writer holds the log directory.
        LogNeedsRecoveryError: a crash left a damaged end of a log; run `kafkalog recover`.
        TopicExistsError: since this write was planned, another write created a topic with a different number
            of partitions. If the number is the same, the records are appended.
        OSError: writing failed; the logs are as they were before.
    """
    now_ms = current_ms() if now_ms is None else now_ms
    log_dir = Path(job.log_dir)
    session = _enter_session(log_dir, job)
    try:
        job.check()
        remove_abandoned_jobs(log_dir)
        if version is not None and _is_already_written(log_dir, *version):
            logger.info("%s: skipped version %d, which is already written", *version)
            return []
        by_partition: dict[tuple[str, int], list[StagedFile]] = {}
        for file in staged:
            by_partition.setdefault((file.topic, file.partition), []).append(file)
        return _publish(job, session, by_partition, topics, config, new_topic_partitions, version, now_ms)
    finally:
        # In this order: other jobs wait for the lock only while there is a job that may hold it.
        try:
            session.leave()
        finally:
            job.end()


def _enter_session(log_dir: Path, job: WriteJob) -> WriteSession:
    """Take the log directory's lock. Wait for other jobs, which hold it only while they commit."""
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        may_wait = has_other_jobs(log_dir, job.id)  # a job that holds the lock now may have ended afterwards
        try:
            return WriteSession.enter(log_dir)
        except LogDirInUseError:
            if time.monotonic() > deadline or not may_wait:
                raise
        time.sleep(0.05)


def _is_already_written(log_dir: Path, record_id: str, version: int) -> bool:
    last = last_stream_batch(log_dir, record_id)
    return last is not None and version <= last


def _publish(
    job: WriteJob,
    session: WriteSession,
    staged: Mapping[tuple[str, int], Sequence[StagedFile]],
    topics: Sequence[str],
    config: Mapping[str, object],
    new_topic_partitions: int,
    version: tuple[str, int] | None,
    now_ms: int,
) -> list[Published]:
    log_dir = Path(job.log_dir)
    logs = LogDir(log_dir, allow_empty=True)
    existing_topics = logs.topics()
    _check_new_topics(job, staged, existing_topics, new_topic_partitions)
    all_topics = {*topics, *(topic for topic, _ in staged)}
    new_topic_ids = {topic: random_uuid() for topic in sorted(all_topics) if topic not in existing_topics}

    def create(key: tuple[str, int]) -> NewPartition:
        return NewPartition.create(job, key, new_topic_ids[key[0]], staged.get(key, ()), config, now_ms)

    with ExitStack() as stack, ThreadPoolExecutor(_THREADS) as threads:
        new_keys = [(topic, number) for topic in new_topic_ids for number in range(new_topic_partitions)]
        new = list(threads.map(create, new_keys))
        existing: list[ExistingPartition] = []
        for (topic, number), files in sorted(staged.items()):
            if topic in existing_topics:
                log = logs.partition(topic, number, config=config)
                existing.append(ExistingPartition(log, files, now_ms))
                stack.callback(existing[-1].close)
        intent = WriteIntent(
            job.id,
            tuple(partition.backup() for partition in existing),
            {partition.staging_name: partition.name for partition in new},
            version,
        )
        session.begin()
        fsync_directory(log_dir)
        intent.write(log_dir)
        try:
            publishing = [threads.submit(partition.publish) for partition in existing]
            wait(publishing)  # No thread may still be writing when a failure is undone.
            for future in publishing:
                future.result()
            for partition in new:
                partition.publish()
            fsync_directory(log_dir)
            intent.commit(log_dir)
        except BaseException:
            for appended in existing:
                appended.abandon()
            intent.undo(log_dir)
            raise
        for appended in existing:
            appended.mark_committed()
        for partition in new:
            partition.release(session)
    return [
        *(partition.published for partition in existing),
        *(partition.published for partition in new),
    ]


def _check_new_topics(
    job: WriteJob,
    staged: Mapping[tuple[str, int], Sequence[StagedFile]],
    existing_topics: Mapping[str, Sequence[int]],
    new_topic_partitions: int,
) -> None:
    """Check topics that were new when records were staged for them and that another write has created since.

    The records can be appended if the topic has the expected number of partitions: only then does each key
    belong to the partition for which it was staged.
    """
    for (topic, number), files in staged.items():
        was_new = files[0].partition_dir != f"{topic}-{number}"
        if was_new and topic in existing_topics and existing_topics[topic] != [*range(new_topic_partitions)]:
            raise TopicExistsError(
                f"expected to create topic {topic} with {new_topic_partitions} partitions, found it created "
                f"by another writer with {len(existing_topics[topic])}; run the write again",
                path=job.log_dir,
            )
