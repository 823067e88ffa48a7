"""The driver of a compaction."""

from __future__ import annotations

import logging
import os
import pickle
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.compaction.groups import rewrite_groups
from kafkalog_spark.compaction.keys import gather_keys, merge_packs
from kafkalog_spark.compaction.looking import look
from kafkalog_spark.compaction.planning import (
    SPLIT_BYTES,
    SURVEY_BYTES,
    group_rounds,
    jobs,
    parts,
    plan_rounds,
    splits,
    survey_parts,
)
from kafkalog_spark.compaction.publishing import publish
from kafkalog_spark.compaction.values import Looked, Settings, Task, failed
from kafkalog_spark.errors import PathNotVisibleError
from kafkalog_spark.planning import FILE_COST_BYTES, PACK_BYTES, pack, target_bytes
from kafkalog_spark.spreading import DDL, SCHEMA, cores, dealt, made_for_few_rows, row, task_rows
from kafkalog_spark.views import PartitionDirectory
from native_log.cleaner import statistics
from native_log.cleaner.deletion import delete_old_segments, with_deletion
from native_log.cleaner.local import compaction_config
from native_log.cleaner.swap import finish_interrupted
from native_log.errors import KafkaLogError
from native_log.logdir.changing import chosen_partitions, open_to_change
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.compaction.groups import GroupResult
    from kafkalog_spark.compaction.planning import Job
    from kafkalog_spark.compaction.values import Planned
    from native_log.cleaner.statistics import PartitionStatistics
    from native_log.logdir import LogDir, PartitionDir

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
    topics: Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    small_bytes: int = SMALL_BYTES,
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """Compacts logs as `native_log.compact` does, with the tasks of a Spark session.

    All executors must see the directories under the same path, as the driver does. The driver holds the log
    directories' locks meanwhile.

    Args:
        path, topics, config, now_ms, dry_run: as for `native_log.compact`. `log.cleaner.dedupe.buffer.size`
            bounds what one task gathers at a time; log.cleaner.threads is not used.
        small_bytes: logs up to this size are cleaned by one task each; as are larger ones, where there are
            enough of them for all cores, if their keys fit in that memory.
        split_bytes: about how much of a larger log a task reads.

    Returns:
        One row a partition, as `native_log.compact` tells it (native_log.cleaner.STATISTICS_SCHEMA): `status`
        is cleaned (in a dry run: would be), skipped or failed, with a `reason`; segments, records and bytes
        before and after; what became of batches, tombstones and keys. It is done when this returns.

    Raises:
        PathNotVisibleError: an executor does not see a partition's directory.
        LogDirInUseError and the others: as `native_log.compact`.
    """
    settings = Settings(
        compaction_config(config), int(time.time() * 1000) if now_ms is None else now_ms, dry_run
    )
    with ExitStack() as held:
        log_dir = open_to_change(path, dry_run, held)
        chosen = chosen_partitions(log_dir, topics)
        directories, told = _directories(log_dir, chosen, dry_run)
        held.enter_context(made_for_few_rows(spark))
        done = _cleaned(spark, directories, settings, small_bytes, split_bytes)
        if dry_run:
            told += [one.statistics for one in done if one.statistics]
        else:
            logger.info("putting the new segments of %d partitions in place", len(done))
            places = ((one.directory.path, one.directory.checkpoints) for one in done)
            cleaned = [(one, *place) for one, place in zip(publish(done), places, strict=True)]
            told += delete_old_segments(cleaned, settings.config, settings.now_ms)
    return spark.createDataFrame(statistics.table(told))


Sized = tuple[PartitionDirectory, int]
"""And how much work it is, in bytes."""


def _directories(
    log_dir: LogDir, chosen: Sequence[PartitionDir], dry_run: bool
) -> tuple[list[Sized], list[PartitionStatistics]]:
    """The partitions, settled where a cleaning was interrupted; and what failed at that."""
    found, told = [], []
    for one in chosen:
        directory = PartitionDirectory(str(one.path), one.topic, one.partition, log_dir.checkpoints(one))
        try:
            if not dry_run:
                finish_interrupted(one.path, DEFAULT_MAX_BATCH_BYTES)
            found.append((directory, _work_bytes(one.path)))
        except (KafkaLogError, OSError) as error:
            told.append(failed(directory, error))
    return found, told


def _work_bytes(path: os.PathLike[str]) -> int:
    with os.scandir(path) as entries:
        sizes = [entry.stat().st_size for entry in entries if entry.name.endswith(".log")]
    return sum(sizes) + FILE_COST_BYTES * len(sizes)


def _cleaned(
    spark: SparkSession,
    directories: Sequence[Sized],
    settings: Settings,
    small_bytes: int,
    split_bytes: int,
) -> list[Looked]:
    """All that can be done without a change to a log: what is to be published, or said."""
    logger.info("looking into %d partitions", len(directories))
    done: list[Looked] = []
    large: list[Looked] = []
    for looked in _looked(spark, directories, settings, small_bytes):
        if looked.invisible_from is not None:
            raise PathNotVisibleError.seen_from(looked.invisible_from, looked.directory.path)
        (done if looked.statistics is not None else large).append(looked)
    return done + (_large_cleaned(spark, large, settings, split_bytes) if large else [])


def _looked(
    spark: SparkSession, directories: Sequence[Sized], settings: Settings, small_bytes: int
) -> Iterator[Looked]:
    if not directories:
        return
    sizes = [size for _, size in directories]
    whole_bytes = max(small_bytes, int(WHOLE_SHARE * sum(sizes) / cores(spark)) if small_bytes else 0)
    task_bytes = target_bytes(sizes, MANY_BYTES, TASKS_A_CORE * cores(spark))
    # The longest first, so that none is begun last.
    ordered = sorted(directories, key=lambda one: -one[1])
    tasks = [
        Task(tuple(directory for directory, _ in packed), is_whole)
        for is_whole, chosen in groupby(ordered, lambda one: one[1] <= whole_bytes)
        for packed in pack(chosen, lambda one: one[1], task_bytes)
    ]
    frame = dealt(task_rows(spark, tasks), len(tasks)).mapInArrow(partial(look, settings=settings), DDL)
    for found in frame.collect():
        yield pickle.loads(found.payload)  # noqa: S301 (of our own tasks)


def _large_cleaned(
    spark: SparkSession, large: Sequence[Looked], settings: Settings, split_bytes: int
) -> list[Looked]:
    planned = _planned(spark, large, settings)
    done = [
        replace(looked, statistics=failed(looked.directory, plan.error or ""))
        for looked, plan in zip(large, planned, strict=True)
        if plan.round is None
    ]
    sound = [
        (looked, plan.round, plan.records)
        for looked, plan in zip(large, planned, strict=True)
        if plan.round is not None
    ]
    if not sound:
        return done
    dedupe_bytes = settings.config.log_cleaner_dedupe_buffer_size
    to_do = jobs([(round, records) for _, round, records in sound], dedupe_bytes, cores(spark))
    results = _results(spark, to_do, settings, split_bytes)
    for (looked, round, _), job in zip(sound, to_do, strict=True):
        of_groups = [results[job.first_group + index] for index in range(len(round.groups))]
        done.append(_told(looked, job, of_groups, settings))
    return done


def _planned(spark: SparkSession, large: Sequence[Looked], settings: Settings) -> list[Planned]:
    sizes = [size for looked in large for _, size in looked.segments]
    most_bytes = target_bytes(sizes, SURVEY_BYTES, 2 * cores(spark))
    tasks = pack(parts(large, most_bytes), lambda part: part.size_bytes, most_bytes)
    logger.info("planning %d large partitions of %d bytes", len(large), sum(sizes))
    surveys = dealt(task_rows(spark, tasks), len(tasks)).mapInArrow(survey_parts, DDL)
    asked = task_rows(spark, large).union(surveys)
    plans = dealt(asked, len(large)).mapInArrow(partial(plan_rounds, settings=settings), DDL)
    by_number = {found.number: found.payload for found in plans.collect()}
    return [pickle.loads(by_number[number]) for number in range(len(large))]  # noqa: S301 (our own)


def _results(
    spark: SparkSession, to_do: Sequence[Job], settings: Settings, split_bytes: int
) -> dict[int, GroupResult]:
    """The groups, rewritten, by their numbers."""
    sizes = [sum(group.size_bytes for group in job.round.groups) for job in to_do]
    if split_bytes >= PACK_BYTES:
        split_bytes = target_bytes(sizes, split_bytes, 2 * cores(spark))
    work = [split for job in to_do for split in splits(job, split_bytes)]
    bundles = to_do[-1].first_bundle + to_do[-1].bundles
    groups = to_do[-1].first_group + len(to_do[-1].round.groups)
    logger.info(
        "compacting %d large partitions: %d splits, %d bundles of keys, %d groups of segments",
        *(len(to_do), len(work), bundles, groups),
    )
    packs = dealt(task_rows(spark, work), len(work)).mapInArrow(
        partial(gather_keys, max_bytes=settings.config.log_cleaner_dedupe_buffer_size), DDL
    )
    borders = [(job.first_bundle, job.first_group, job.borders) for job in to_do]
    survivors = dealt(packs, bundles).mapInArrow(partial(merge_packs, borders=borders), DDL)
    rounds = [row(number, pickle.dumps(round)) for job in to_do for number, round in group_rounds(job)]
    asked = spark.createDataFrame(pa.Table.from_batches(rounds, SCHEMA)).union(survivors)
    results = dealt(asked, groups).mapInArrow(partial(rewrite_groups, settings=settings), DDL)
    return {found.number: pickle.loads(found.payload) for found in results.collect()}  # noqa: S301


def _told(looked: Looked, job: Job, results: Sequence[GroupResult], settings: Settings) -> Looked:
    round = job.round
    error = next((result.error for result in results if result.error is not None), None)
    if error is not None:
        return _not_cleaned(looked, error)
    assert looked.found is not None
    stats = statistics.cleaned(
        round,
        looked.found,
        sum((result.stats for result in results), statistics.GroupStatistics()),
        sum(result.null_keys for result in results),
        looked.directory.checkpoints.first_dirty_offset is not None,
    )
    try:
        groups = zip(round.groups, (result.stats for result in results), strict=True)
        stats = with_deletion(stats, looked.directory.open(), settings.config, settings.now_ms, groups)
    except (KafkaLogError, OSError) as gone:
        return _not_cleaned(looked, gone)
    staged = tuple(result.staged for result in results if result.staged is not None)
    return replace(looked, statistics=stats, staged=staged)


def _not_cleaned(looked: Looked, error: Exception | str) -> Looked:
    logger.warning("%s-%d is not cleaned: %s", looked.directory.topic, looked.directory.partition, error)
    return replace(looked, statistics=failed(looked.directory, error))
