"""Enforce retention with Spark: tasks plan many partitions, and the driver deletes."""

from __future__ import annotations

import logging
import pickle
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.cluster import (
    DDL,
    collect_rows,
    cores,
    job_description,
    row_batch,
    rows,
    task_rows,
    tuned_session,
)
from kafkalog_spark.errors import PathNotVisibleError
from kafkalog_spark.read.splits import pack
from kafkalog_spark.session_storage import storage_options_for
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_changeable
from native_log.policies import Request, RetentionPolicy, retention_policy
from native_log.prefetch import look_up_together
from native_log.retention.enforcement import finish_and_plan
from native_log.retention.execution import execute_plans
from native_log.retention.plan import RetentionPlan, plan_partition, planned_table, retention_table
from native_log.storage import LOCAL
from native_log.system import current_ms

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from native_log.logdir import LogDir, PartitionDir
    from native_log.storage import CarriedSecrets

logger = logging.getLogger(__name__)

TASKS_PER_CORE = 4
MIN_FILES_PER_TASK = 500
"""A task has at least so many files, because starting it takes as long as planning some dozens of
partitions."""


def retain(
    spark: SparkSession,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    exclude_topics: str | Iterable[str] = (),
) -> DataFrame:
    """Delete old segments as `native_log.retain` does, with the tasks of a Spark session.

    All executors must see the directories under the same paths as the driver. The driver holds the locks of
    the log directories until this returns. Only the driver changes files. For URLs, where only a dry run
    is possible, the session's settings apply: see `storage_options`.

    Args:
        path, topics, config, now_ms, dry_run, exclude_topics: as for `native_log.retain`.

    Returns:
        One row for each segment, as `native_log.retain` returns it (RETENTION_SCHEMA in
        native_log.retention): `decision` is "deleted" (in a dry run: "would be deleted") or "kept", `rule` is
        the rule that decided, `reason` contains the figures, and `settings` the settings with their sources.
        A partition that failed has one row with the decision
        failed. For a compacted topic, only segments below the log start offset are deleted, unless `topics`
        names it and `config` contains cleanup.policy=delete. The work is done when this returns.

    Raises:
        PathNotVisibleError: an executor does not see a partition directory.
        LogDirInUseError and others: as for `native_log.retain`.
    """
    request = Request.of(topics, config)
    now = current_ms() if now_ms is None else now_ms
    storage = storage_options_for(spark, path)
    with ExitStack() as stack:
        log_dir = stack.enter_context(open_for_maintenance(path, dry_run, storage_options=storage))
        selected = select_changeable(log_dir, request.topics, exclude_topics)
        decided = decide_policies(log_dir, selected, partial(retention_policy, request=request))
        stack.enter_context(tuned_session(spark))
        to_execute: list[RetentionPlan] = []
        tables: list[pa.Table] = []
        with job_description(spark, "retain", f"planning {len(selected)} partitions"):
            partitions = _sized_partitions(log_dir, selected, decided)
            work = partial(plan_partitions, now_ms=now, dry_run=dry_run, secrets=storage.carried())
            for result in _plan_partitions(spark, partitions, work):
                to_execute += result.plans
                tables.append(pa.ipc.open_stream(result.rows).read_all())
        if to_execute:
            logger.info("deleting old segments of %d partitions", len(to_execute))
            by_path = {str(d.path): (d, policy) for d, policy in zip(selected, decided, strict=True)}
            for index, plan in enumerate(to_execute):
                if plan.is_interrupted:
                    directory, policy = by_path[plan.path]
                    to_execute[index] = finish_and_plan(
                        directory, log_dir.checkpoints(directory), policy, now
                    )
            tables.append(retention_table(execute_plans(to_execute, now)))
    report = _sorted_rows(tables)
    return spark.createDataFrame(planned_table(report) if dry_run else report)


PartitionToPlan = tuple[DirectorySource, RetentionPolicy]
"""A partition, and the policy of its topic."""


@dataclass(frozen=True, slots=True)
class PlanningResult:
    """What a task found out about its partitions.

    Attributes:
        rows: the rows of the partitions that need no change (RETENTION_SCHEMA, as an Arrow stream).
        plans: the plans of the other partitions.
        invisible: the path of a directory that the executor does not see, and the executor's host.
    """

    rows: bytes
    plans: tuple[RetentionPlan, ...] = ()
    invisible: tuple[str, str] | None = None


def _plan_partitions(
    spark: SparkSession,
    partitions: Sequence[tuple[PartitionToPlan, int]],
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Iterator[PlanningResult]:
    if not partitions:
        return
    files = sum(count for _, count in partitions)
    files_per_task = max(MIN_FILES_PER_TASK, -(-files // (TASKS_PER_CORE * cores(spark))))
    tasks = [
        [partition for partition, _ in packed]
        for packed in pack(partitions, lambda sized: sized[1], files_per_task)
    ]
    for row in collect_rows(task_rows(spark, tasks).mapInArrow(work, DDL)):
        result: PlanningResult = pickle.loads(row.payload)  # noqa: S301 (written by our tasks)
        if result.invisible is not None:
            path, host = result.invisible
            raise PathNotVisibleError.on_host(host, path)
        yield result


def _sized_partitions(
    log_dir: LogDir, selected: Iterable[PartitionDir], decided: Iterable[RetentionPolicy]
) -> list[tuple[PartitionToPlan, int]]:
    """Return the partitions, each with the number of its files."""
    selected = list(selected)
    files = look_up_together(lambda each: len(each.folder.list()), selected, are_local=log_dir.is_local)
    sources = (
        DirectorySource(
            str(directory.path),
            *directory.key,
            log_dir.checkpoints(directory),
            storage=directory.storage,
        )
        for directory in selected
    )
    return list(zip(zip(sources, decided, strict=True), files.values(), strict=True))


def plan_partitions(
    batches: Iterator[pa.RecordBatch], now_ms: int, dry_run: bool, secrets: CarriedSecrets
) -> Iterator[pa.RecordBatch]:
    """Yield a PlanningResult for each row, which contains a list of PartitionToPlan. Runs in tasks.

    Args:
        secrets: credentials, which this process knows from now on.
    """
    del secrets
    for row in rows(batches):
        partitions: list[PartitionToPlan] = pickle.loads(row.payload)  # noqa: S301 (written by the driver)
        yield row_batch(row.number, pickle.dumps(_plan_all(partitions, now_ms, dry_run)))


def _plan_all(partitions: Iterable[PartitionToPlan], now_ms: int, dry_run: bool) -> PlanningResult:
    unchanged: list[RetentionPlan] = []
    to_execute: list[RetentionPlan] = []
    for directory, policy in partitions:
        if directory.storage is LOCAL and not Path(directory.path).is_dir():
            return PlanningResult(
                _to_stream(retention_table([])), invisible=(directory.path, socket.gethostname())
            )
        plan = plan_partition(
            directory.folder, directory.topic, directory.partition, directory.checkpoints, policy, now_ms
        )
        is_change = not dry_run and (plan.is_interrupted or not plan.changes_nothing)
        (to_execute if is_change else unchanged).append(plan)
    return PlanningResult(_to_stream(retention_table(unchanged)), tuple(to_execute))


def _to_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _sorted_rows(tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables([retention_table([]), *tables])
    return rows.sort_by([(name, "ascending") for name in ("topic", "partition", "baseOffset")])
