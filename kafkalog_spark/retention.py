"""Retention as a Spark job, over many partitions: tasks look, the driver deletes."""

from __future__ import annotations

import logging
import pickle
import socket
import time
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
from kafkalog_spark.partitions import OpenablePartition
from kafkalog_spark.read.splits import pack
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_partitions
from native_log.policies import Request, RetentionPolicy, retention_policy
from native_log.retention.enforcement import settled
from native_log.retention.execution import apply
from native_log.retention.plan import RetentionPlan, look, table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)

TASKS_A_CORE = 4
FEWEST_FILES = 500
"""A task costs as much as a look at some dozens of partitions."""


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
    """Deletes old segments as `native_log.retain` does, with the tasks of a Spark session.

    All executors must see the directories under the same path, as the driver does. The driver holds the log
    directories' locks meanwhile, and it alone changes anything.

    Args:
        path, topics, config, now_ms, dry_run, exclude_topics: as for `native_log.retain`.

    Returns:
        One row a segment, as `native_log.retain` tells it (native_log.retention.RETENTION_SCHEMA): `decision`
        is deleted (in a dry run: would be) or kept, `rule` by which, `reason` with what figures; or failed,
        one row for the partition. Size and time delete nothing from a topic that is compacted, unless
        `topics` names it and `config` has cleanup.policy=delete. It is done when this returns.

    Raises:
        PathNotVisibleError: an executor does not see a partition's directory.
        LogDirInUseError and the others: as `native_log.retain`.
    """
    request = Request.of(topics, config)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with ExitStack() as held:
        log_dir = open_for_maintenance(path, dry_run, held)
        chosen = select_partitions(log_dir, request.topics, exclude_topics)
        decided = decide_policies(log_dir, chosen, partial(retention_policy, request=request))
        held.enter_context(tuned_session(spark))
        to_do: list[RetentionPlan] = []
        told: list[pa.Table] = []
        with job_description(spark, "retain", f"looking into {len(chosen)} partitions"):
            for seen in _looked(spark, _to_look_at(log_dir, chosen, decided), now, dry_run):
                to_do += seen.plans
                told.append(pa.ipc.open_stream(seen.told).read_all())
        if to_do:
            logger.info("deleting old segments of %d partitions", len(to_do))
            by_path = {str(one.path): (one, policy) for one, policy in zip(chosen, decided, strict=True)}
            for index, plan in enumerate(to_do):
                if plan.is_interrupted:
                    one, policy = by_path[plan.path]
                    to_do[index] = settled(one, log_dir.checkpoints(one), policy, now)
            told.append(table(apply(to_do, now)))
    return spark.createDataFrame(_in_order(told))


Judged = tuple[OpenablePartition, RetentionPolicy]
"""A partition and its topic's policy."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a task saw.

    Attributes:
        told: rows of the partitions that nothing is to be done to (RETENTION_SCHEMA, as an Arrow stream).
        plans: those of the others.
        invisible: a directory that is not there, and the host.
    """

    told: bytes
    plans: tuple[RetentionPlan, ...] = ()
    invisible: tuple[str, str] | None = None


def _looked(
    spark: SparkSession,
    directories: Sequence[tuple[Judged, int]],
    now_ms: int,
    dry_run: bool,
) -> Iterator[Seen]:
    if not directories:
        return
    files = sum(count for _, count in directories)
    most = max(FEWEST_FILES, -(-files // (TASKS_A_CORE * cores(spark))))
    tasks = [[directory for directory, _ in packed] for packed in pack(directories, lambda one: one[1], most)]
    work = partial(inspect_partition, now_ms=now_ms, dry_run=dry_run)
    for found in collect_rows(task_rows(spark, tasks).mapInArrow(work, DDL)):
        seen: Seen = pickle.loads(found.payload)  # noqa: S301 (of our own tasks)
        if seen.invisible is not None:
            path, host = seen.invisible
            raise PathNotVisibleError.on_host(host, path)
        yield seen


def _to_look_at(
    log_dir: LogDir, chosen: Iterable[PartitionDir], decided: Iterable[RetentionPolicy]
) -> list[tuple[Judged, int]]:
    """The partitions, and how many files each has."""
    return [
        (
            (OpenablePartition(str(one.path), one.topic, one.partition, log_dir.checkpoints(one)), policy),
            sum(1 for _ in one.path.iterdir()),
        )
        for one, policy in zip(chosen, decided, strict=True)
    ]


def inspect_partition(
    batches: Iterator[pa.RecordBatch], now_ms: int, dry_run: bool
) -> Iterator[pa.RecordBatch]:
    """Lists of Judged -> Seen."""
    for asked in rows(batches):
        directories: list[Judged] = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        yield row_batch(asked.number, pickle.dumps(_seen(directories, now_ms, dry_run)))


def _seen(directories: Iterable[Judged], now_ms: int, dry_run: bool) -> Seen:
    only_told: list[RetentionPlan] = []
    to_do: list[RetentionPlan] = []
    for one, policy in directories:
        if not Path(one.path).is_dir():
            return Seen(_stream(table([])), invisible=(one.path, socket.gethostname()))
        plan = look(one.path, one.topic, one.partition, one.checkpoints, policy, now_ms)
        is_to_do = not dry_run and (plan.is_interrupted or not plan.changes_nothing)
        (to_do if is_to_do else only_told).append(plan)
    return Seen(_stream(table(only_told)), tuple(to_do))


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _in_order(told: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables([table([]), *told])
    return rows.sort_by([(name, "ascending") for name in ("topic", "partition", "baseOffset")])
