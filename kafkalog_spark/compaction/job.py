"""The driver of a compaction."""

from __future__ import annotations

import logging
import os
import pickle
import time
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import DDL, collect_rows, cores, job_description, task_rows, tuned_session
from kafkalog_spark.compaction.inspection import look
from kafkalog_spark.compaction.install import publish, remove_staged
from kafkalog_spark.compaction.large import clean_large
from kafkalog_spark.compaction.messages import Inspected, LogToClean, Settings, Task, failed
from kafkalog_spark.compaction.splits import SPLIT_BYTES
from kafkalog_spark.errors import PathNotVisibleError
from kafkalog_spark.partitions import OpenablePartition
from kafkalog_spark.read.splits import FILE_COST_BYTES, pack, target_bytes
from native_log.compaction import statistics
from native_log.compaction.compactor import compaction_request, skipped
from native_log.compaction.delete_policy import delete_old_segments
from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.log.replacing.interrupted import STAGING_DIRECTORY, finish_interrupted
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_partitions
from native_log.policies import compaction_policy
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.compaction.messages import LargePartition
    from native_log.compaction.statistics import PartitionStatistics
    from native_log.logdir import LogDir, PartitionDir
    from native_log.policies import CompactionPolicy

logger = logging.getLogger(__name__)

SMALL_BYTES = 128 << 20
"""Logs up to this size are cleaned by one task each: a shuffle would cost more than it gains."""
WHOLE_SHARE = 1.5
"""So are larger ones that are no more than this of what each core has to do: the others keep it busy."""
MANY_BYTES = 256 << 20
"""Small logs go together to tasks up to this size."""
TASKS_A_CORE = 8
"""Of small logs: few, for each costs some 50 ms; enough, that cores are done at about the same time."""


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    exclude_topics: str | Iterable[str] = (),
    small_bytes: int = SMALL_BYTES,
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """Compacts logs as `native_log.compact` does, with the tasks of a Spark session.

    All executors must see the directories under the same path, as the driver does. The driver holds the log
    directories' locks meanwhile.

    Args:
        path, topics, config, now_ms, dry_run, exclude_topics: as for `native_log.compact`.
            `log.cleaner.dedupe.buffer.size` bounds what one task gathers at a time; log.cleaner.threads is
            not used.
        small_bytes: logs up to this size are cleaned by one task each; as are larger ones, where there are
            enough of them for all cores, if their keys fit in that memory.
        split_bytes: about how much of a larger log a task reads.

    Returns:
        One row for each partition, as of `native_log.compact` (native_log.compaction.STATISTICS_SCHEMA):
        `status` is cleaned (in a dry run: would be), skipped or failed, with a `reason`; segments, records,
        and bytes before and after; what became of batches, tombstones and keys. The work is done on return.

    Raises:
        PathNotVisibleError: an executor does not see a partition's directory.
        LogDirInUseError and the others: as `native_log.compact`.
    """
    request = compaction_request(topics, config)
    buffer_bytes = LogConfig.parse(request.config).log_cleaner_dedupe_buffer_size
    settings = Settings(buffer_bytes, int(time.time() * 1000) if now_ms is None else now_ms, dry_run)
    with ExitStack() as held:
        log_dir = open_for_maintenance(path, dry_run, held)
        chosen = select_partitions(log_dir, request.topics, exclude_topics)
        decided = decide_policies(log_dir, chosen, partial(compaction_policy, request=request))
        told = skipped(chosen, decided)
        to_compact = [(one, p) for one, p in zip(chosen, decided, strict=True) if p.skipped is None]
        if not dry_run:
            held.callback(remove_staged, [one.path for one, _ in to_compact])
        logs, failures = _logs(log_dir, to_compact, dry_run)
        told += failures
        held.enter_context(tuned_session(spark))
        done = _cleaned(spark, logs, settings, small_bytes, split_bytes)
        if dry_run:
            told += [one.statistics for one in done if one.statistics]
        else:
            logger.info("putting the new segments of %d partitions in place", len(done))
            configs = {str(one.path): policy.config for one, policy in to_compact}
            told += delete_old_segments(
                [
                    (stats, one.directory.path, one.directory.checkpoints, configs[one.directory.path])
                    for stats, one in zip(publish(done), done, strict=True)
                ],
                settings.now_ms,
            )
    return spark.createDataFrame(statistics.table(told))


Sized = tuple[LogToClean, int]
"""And how much work it is, in bytes."""


def _logs(
    log_dir: LogDir, to_compact: Sequence[tuple[PartitionDir, CompactionPolicy]], dry_run: bool
) -> tuple[list[Sized], list[PartitionStatistics]]:
    """The partitions, settled where a cleaning was interrupted, with a place to stage; and what failed at
    that."""
    found, told = [], []
    for one, policy in to_compact:
        directory = OpenablePartition(str(one.path), one.topic, one.partition, log_dir.checkpoints(one))
        try:
            if not dry_run:
                finish_interrupted(one.path, DEFAULT_MAX_BATCH_BYTES)
                (one.path / STAGING_DIRECTORY).mkdir()
            found.append((LogToClean(directory, policy), _work_bytes(one.path)))
        except (KafkaLogError, OSError) as error:
            told.append(failed(directory, error))
    return found, told


def _work_bytes(path: os.PathLike[str]) -> int:
    with os.scandir(path) as entries:
        sizes = [entry.stat().st_size for entry in entries if entry.name.endswith(".log")]
    return sum(sizes) + FILE_COST_BYTES * len(sizes)


def _cleaned(
    spark: SparkSession,
    logs: Sequence[Sized],
    settings: Settings,
    small_bytes: int,
    split_bytes: int,
) -> list[Inspected]:
    """All that can be done without a change to a log: what is to be published, or said."""
    done: list[Inspected] = []
    large: list[LargePartition] = []
    with job_description(spark, "compact", f"looking into {len(logs)} partitions, and cleaning small ones"):
        for looked in _looked(spark, logs, settings, small_bytes):
            if looked.invisible_from is not None:
                raise PathNotVisibleError.on_host(looked.invisible_from, looked.directory.path)
            if looked.large_partition is not None:
                large.append(looked.large_partition)
            else:
                done.append(looked)
    return done + clean_large(spark, large, settings, split_bytes)


def _looked(
    spark: SparkSession, logs: Sequence[Sized], settings: Settings, small_bytes: int
) -> Iterator[Inspected]:
    if not logs:
        return
    sizes = [size for _, size in logs]
    whole_bytes = max(small_bytes, int(WHOLE_SHARE * sum(sizes) / cores(spark)) if small_bytes else 0)
    task_bytes = target_bytes(sizes, MANY_BYTES, TASKS_A_CORE * cores(spark))
    # The longest first, so that none is begun last.
    ordered = sorted(logs, key=lambda one: -one[1])
    tasks = [
        Task(tuple(log for log, _ in packed), is_whole)
        for is_whole, chosen in groupby(ordered, lambda one: one[1] <= whole_bytes)
        for packed in pack(chosen, lambda one: one[1], task_bytes)
    ]
    frame = task_rows(spark, tasks).mapInArrow(partial(look, settings=settings), DDL)
    for found in collect_rows(frame):
        yield pickle.loads(found.payload)  # noqa: S301 (of our own tasks)
