"""Run the Spark jobs that compact large partitions, each with many tasks."""

from __future__ import annotations

import logging
import pickle
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import DDL, collect_rows, cores, job_description, repartition_by_number, task_rows
from kafkalog_spark.compaction.key_collection import collect_keys
from kafkalog_spark.compaction.messages import PartitionResult, StagedGroup
from kafkalog_spark.compaction.resolution import RoundLayout, plan_rounds, resolve
from kafkalog_spark.compaction.rewrite import rewrite_groups
from kafkalog_spark.compaction.splits import SURVEY_BYTES, divide_round, divide_survey, schedule_rounds
from kafkalog_spark.read.splits import PACK_BYTES, target_bytes
from native_log.compaction.delete_policy import add_planned_deletions
from native_log.compaction.statistics import cleaned_partition, failed_partition
from native_log.errors import KafkaLogError
from native_log.log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from kafkalog_spark.compaction.messages import GroupResult, LargePartition, RoundPlan, RunSettings
    from kafkalog_spark.compaction.splits import ScheduledRound
    from native_log.compaction.rounds import Round

logger = logging.getLogger(__name__)

SUBJECT_PART = -1
"""The part of the row that contains the LargePartition or Round. It comes before the reports of the tasks."""
GROUPS_BYTES = 1 << 30
"""Groups share a task up to this size."""
TASKS_PER_CORE = 4


def compact_large(
    spark: SparkSession, large: Sequence[LargePartition], settings: RunSettings, split_bytes: int
) -> list[PartitionResult]:
    """Compact large partitions into their staging directories. No log is changed.

    Logs with transactions are surveyed first. Other logs are surveyed while their keys are collected. If that
    finds a transaction, the log is surveyed, and its keys are collected again.
    """
    results: list[PartitionResult] = []
    rounds: list[tuple[LargePartition, Round | None]] = [
        (partition, None) for partition in large if partition.assume_no_transactions
    ]
    to_survey = [partition for partition in large if not partition.assume_no_transactions]
    while rounds or to_survey:
        for partition, plan in zip(to_survey, _survey(spark, to_survey, settings), strict=True):
            if plan.round is None:
                results.append(_failed_result(partition, plan.error or ""))
            else:
                rounds.append((partition, plan.round))
        to_survey = []
        for scheduled, groups in _run_rounds(spark, rounds, settings, split_bytes) if rounds else ():
            if any(group.has_transactions for group in groups):
                to_survey.append(scheduled.large_partition)
            else:
                results.append(_partition_result(scheduled, groups, settings))
        rounds = []
    return results


def _survey(spark: SparkSession, large: Sequence[LargePartition], settings: RunSettings) -> list[RoundPlan]:
    """Survey whole logs, and plan a round for each."""
    if not large:
        return []
    sizes = [size for partition in large for _, size in partition.segments]
    max_bytes = target_bytes(sizes, SURVEY_BYTES, 2 * cores(spark))
    parts = [part for number, p in enumerate(large) for part in divide_survey(p, number, max_bytes)]
    reports = task_rows(spark, parts).mapInArrow(partial(collect_keys, settings=settings), DDL)
    plans = repartition_by_number(
        task_rows(spark, large, part=SUBJECT_PART).union(reports), len(large)
    ).mapInArrow(partial(plan_rounds, settings=settings), DDL)
    with job_description(
        spark, "compact", f"surveying {len(large)} partitions with transactions, of {sum(sizes)} bytes"
    ):
        by_number = {row.number: row.payload for row in collect_rows(plans)}
    return [pickle.loads(by_number[number]) for number in range(len(large))]  # noqa: S301 (our tasks')


def _run_rounds(
    spark: SparkSession,
    rounds: Sequence[tuple[LargePartition, Round | None]],
    settings: RunSettings,
    split_bytes: int,
) -> Iterator[tuple[ScheduledRound, list[GroupResult]]]:
    """Carry out the rounds in one Spark job. Yield each round with the results of its groups."""
    # In a dry run a bundle is in memory twice: as it comes from the shuffle, and unpickled.
    max_bundle_bytes = settings.buffer_bytes // 2 if settings.dry_run else None
    schedule = schedule_rounds(rounds, cores(spark), max_bundle_bytes)
    bundles = schedule[-1].first_bundle + schedule[-1].bundles
    groups = schedule[-1].first_group + len(schedule[-1].round.groups)
    sizes = [group.size_bytes for scheduled in schedule for group in scheduled.round.groups]
    if split_bytes >= PACK_BYTES:
        split_bytes = target_bytes(sizes, split_bytes, 2 * cores(spark))
    reads = [
        task
        for number, scheduled in enumerate(schedule, bundles)
        for task in divide_round(scheduled, number, split_bytes)
    ]
    collected = task_rows(spark, reads).mapInArrow(partial(collect_keys, settings=settings), DDL)
    subjects = [s.round if s.is_surveyed else s.large_partition for s in schedule]
    layouts = [RoundLayout(s.first_bundle, s.first_group, tuple(s.bounds)) for s in schedule]
    resolved = repartition_by_number(
        task_rows(spark, subjects, first=bundles, part=SUBJECT_PART).union(collected),
        bundles + len(subjects),
    ).mapInArrow(partial(resolve, settings=settings, layouts=layouts, bundles=bundles), DDL)
    tasks = -(-sum(sizes) // target_bytes(sizes, GROUPS_BYTES, TASKS_PER_CORE * cores(spark)))
    results = repartition_by_number(resolved, min(groups, tasks)).mapInArrow(
        partial(rewrite_groups, settings=settings), DDL
    )
    description = (
        f"compacting {len(schedule)} large partitions of {sum(sizes)} bytes: {len(reads)} splits, {bundles} "
        f"bundles of keys, {groups} groups of segments"
    )
    with job_description(spark, "compact", description):
        by_number = {row.number: row.payload for row in collect_rows(results)}
    for scheduled in schedule:
        numbers = range(scheduled.first_group, scheduled.first_group + len(scheduled.round.groups))
        yield scheduled, [pickle.loads(by_number[number]) for number in numbers]  # noqa: S301 (our tasks')


def _partition_result(
    scheduled: ScheduledRound, groups: Sequence[GroupResult], settings: RunSettings
) -> PartitionResult:
    partition, round = scheduled.large_partition, scheduled.round
    error = next((group.error for group in groups if group.error is not None), None)
    if error is not None:
        return _failed_result(partition, error)
    directory = partition.directory
    group_stats = [group.stats for group in groups]
    stats = cleaned_partition(
        round,
        partition.cleanable,
        group_stats,
        sum(group.null_keys for group in groups),
        directory.checkpoints.first_dirty_offset is not None,
        partition.policy.note,
    )
    try:
        compacted = zip(round.groups, group_stats, strict=True)
        log = PartitionLog(directory.open())
        stats = add_planned_deletions(stats, log, partition.policy.config, settings.now_ms, compacted)
    except (KafkaLogError, OSError) as failure:
        return _failed_result(partition, str(failure))
    staged = tuple(
        StagedGroup(group.base_offsets, result.attempt)
        for group, result in zip(round.groups, groups, strict=True)
        if result.attempt is not None
    )
    return PartitionResult(directory, statistics=stats, staged=staged)


def _failed_result(partition: LargePartition, error: str) -> PartitionResult:
    topic, number = partition.directory.topic, partition.directory.partition
    logger.warning("compaction of %s-%d failed: %s", topic, number, error)
    return PartitionResult(partition.directory, statistics=failed_partition(topic, number, error))
