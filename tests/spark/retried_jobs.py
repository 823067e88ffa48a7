"""Functions that test_retries runs in a driver whose tasks may fail twice. Paths are passed as strings."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pyspark import TaskContext

from kafkalog_spark import compact, retain, retention
from kafkalog_spark.compaction import job, large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

FAILURE = "this attempt fails after it wrote"
ROWS = 1000


def fail_first_attempt(work: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Any]:
    """Return `work`, extended so that the first attempt of each task fails after a part of the work."""

    def run(batches: Iterator[pa.RecordBatch], **arguments: Any) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in work(batches, **arguments):
            yield batch
            if context.attemptNumber() == 0:
                raise RuntimeError(FAILURE)

    return run


def write(spark: SparkSession, logs: str) -> None:
    """Write rows to two partitions; the first attempt of each task fails after its last row."""

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise RuntimeError(FAILURE)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    rows = spark.range(0, ROWS, 1, 4).selectExpr("concat('k', id) key", "concat('v', id) value")
    df = rows.mapInArrow(fail_once, rows.schema)
    df.write.format("kafkalog").mode("append").options(topic="t", partitions=2).save(logs)


def compact_in_parts(spark: SparkSession, data: str, options: dict[str, Any]) -> list[str]:
    """Compact, and return the statuses of the partitions."""
    patches = [(job, "inspect_partitions")]
    patches += [(large, name) for name in ("collect_keys", "plan_rounds", "resolve", "rewrite_groups")]
    with ExitStack() as stack:
        for module, name in patches:
            stack.enter_context(patch.object(module, name, fail_first_attempt(getattr(module, name))))
        return [row.status for row in compact(spark, data, **options).collect()]


def retain_old(spark: SparkSession, data: str, options: dict[str, Any], kill_at: int | None = None) -> None:
    """Enforce retention. With `kill_at`, the driver is killed at this change of a name, counted from 0."""
    rename, renamed = os.rename, 0

    def count_and_kill(*arguments: Any, **options: Any) -> None:
        nonlocal renamed
        if renamed == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        renamed += 1
        rename(*arguments, **options)

    flaky = fail_first_attempt(retention.plan_partitions)
    with patch.object(retention, "plan_partitions", flaky), patch.object(os, "rename", count_and_kill):
        retain(spark, data, **options).collect()
