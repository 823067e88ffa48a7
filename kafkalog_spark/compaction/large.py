"""The driver of what is done about large partitions: by many tasks each."""

from __future__ import annotations

import logging
import pickle
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import DDL, collect_rows, cores, job_description, repartition_by_number, task_rows
from kafkalog_spark.compaction.key_collection import gather_keys
from kafkalog_spark.compaction.messages import Inspected, Staged, failed
from kafkalog_spark.compaction.resolution import RoundLayout, decide
from kafkalog_spark.compaction.rewrite import rewrite_groups
from kafkalog_spark.compaction.rounds import plan_rounds
from kafkalog_spark.compaction.splits import SURVEY_BYTES, jobs, parts, work
from kafkalog_spark.read.splits import PACK_BYTES, target_bytes
from native_log.compaction import statistics
from native_log.compaction.delete_policy import with_deletion
from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from kafkalog_spark.compaction.messages import GroupResult, LargePartition, RoundPlan, Settings
    from kafkalog_spark.compaction.splits import Job
    from native_log.compaction.rounds import Round

logger = logging.getLogger(__name__)

ASKED = -1
"""The part of a row that stands before what tasks tell."""
GROUPS_BYTES = 1 << 30
"""Groups go together to tasks up to this size."""
TASKS_A_CORE = 4


def clean_large(
    spark: SparkSession, large: Sequence[LargePartition], settings: Settings, split_bytes: int
) -> list[Inspected]:
    """All but what changes logs. Those that have transactions are surveyed first."""
    done: list[Inspected] = []
    rounds: list[tuple[LargePartition, Round | None]] = [(one, None) for one in large if one.is_plain]
    with_transactions = [one for one in large if not one.is_plain]
    while rounds or with_transactions:
        for one, plan in zip(with_transactions, _surveyed(spark, with_transactions, settings), strict=True):
            if plan.round is None:
                done.append(_failed(one, plan.error or ""))
            else:
                rounds.append((one, plan.round))
        with_transactions = []
        for job, results in _results(spark, rounds, settings, split_bytes) if rounds else ():
            if any(result.has_transactions for result in results):
                with_transactions.append(job.large_partition)
            else:
                done.append(_told(job, results, settings))
        rounds = []
    return done


def _surveyed(spark: SparkSession, chosen: Sequence[LargePartition], settings: Settings) -> list[RoundPlan]:
    if not chosen:
        return []
    sizes = [size for one in chosen for _, size in one.segments]
    most_bytes = target_bytes(sizes, SURVEY_BYTES, 2 * cores(spark))
    asked = [part for number, one in enumerate(chosen) for part in parts(one, number, most_bytes)]
    surveys = task_rows(spark, asked).mapInArrow(partial(gather_keys, settings=settings), DDL)
    plans = repartition_by_number(
        task_rows(spark, chosen, part=ASKED).union(surveys), len(chosen)
    ).mapInArrow(partial(plan_rounds, settings=settings), DDL)
    with job_description(
        spark, "compact", f"surveying {len(chosen)} partitions with transactions, of {sum(sizes)} bytes"
    ):
        by_number = {found.number: found.payload for found in collect_rows(plans)}
    return [pickle.loads(by_number[number]) for number in range(len(chosen))]  # noqa: S301 (our own)


def _results(
    spark: SparkSession,
    rounds: Sequence[tuple[LargePartition, Round | None]],
    settings: Settings,
    split_bytes: int,
) -> Iterator[tuple[Job, list[GroupResult]]]:
    """Of each round, its groups as they were rewritten."""
    # In a dry run a bundle is in memory twice: as it came through the shuffle, and unpickled.
    bundle_bytes = settings.buffer_bytes // 2 if settings.dry_run else None
    to_do = jobs(rounds, cores(spark), bundle_bytes)
    bundles = to_do[-1].first_bundle + to_do[-1].bundles
    groups = to_do[-1].first_group + len(to_do[-1].round.groups)
    sizes = [group.size_bytes for job in to_do for group in job.round.groups]
    if split_bytes >= PACK_BYTES:
        split_bytes = target_bytes(sizes, split_bytes, 2 * cores(spark))
    asked = [one for number, job in enumerate(to_do, bundles) for one in work(job, number, split_bytes)]
    gathered = task_rows(spark, asked).mapInArrow(partial(gather_keys, settings=settings), DDL)
    plans = [job.round if job.is_surveyed else job.large_partition for job in to_do]
    layouts = [RoundLayout(job.first_bundle, job.first_group, tuple(job.borders)) for job in to_do]
    decided = repartition_by_number(
        task_rows(spark, plans, first=bundles, part=ASKED).union(gathered), bundles + len(plans)
    ).mapInArrow(partial(decide, settings=settings, layouts=layouts, bundles=bundles), DDL)
    tasks = -(-sum(sizes) // target_bytes(sizes, GROUPS_BYTES, TASKS_A_CORE * cores(spark)))
    results = repartition_by_number(decided, min(groups, tasks)).mapInArrow(
        partial(rewrite_groups, settings=settings), DDL
    )
    what = (
        f"compacting {len(to_do)} large partitions of {sum(sizes)} bytes: {len(asked)} splits, {bundles} "
        f"bundles of keys, {groups} groups of segments"
    )
    with job_description(spark, "compact", what):
        by_number = {found.number: found.payload for found in collect_rows(results)}
    for job in to_do:
        numbers = range(job.first_group, job.first_group + len(job.round.groups))
        yield job, [pickle.loads(by_number[number]) for number in numbers]  # noqa: S301 (of our own tasks)


def _told(job: Job, results: Sequence[GroupResult], settings: Settings) -> Inspected:
    error = next((result.error for result in results if result.error is not None), None)
    if error is not None:
        return _failed(job.large_partition, error)
    directory = job.large_partition.directory
    stats = statistics.cleaned(
        job.round,
        job.large_partition.found,
        sum((result.stats for result in results), statistics.GroupStatistics()),
        sum(result.null_keys for result in results),
        directory.checkpoints.first_dirty_offset is not None,
        job.large_partition.policy.note,
    )
    try:
        groups = zip(job.round.groups, (result.stats for result in results), strict=True)
        stats = with_deletion(
            stats, directory.open(), job.large_partition.policy.config, settings.now_ms, groups
        )
    except (KafkaLogError, OSError) as gone:
        return _failed(job.large_partition, str(gone))
    staged = tuple(
        Staged(group.base_offsets, result.attempt)
        for group, result in zip(job.round.groups, results, strict=True)
        if result.attempt is not None
    )
    return Inspected(directory, statistics=stats, staged=staged)


def _failed(one: LargePartition, error: str) -> Inspected:
    logger.warning("%s-%d is not cleaned: %s", one.directory.topic, one.directory.partition, error)
    return Inspected(one.directory, statistics=failed(one.directory, error))
