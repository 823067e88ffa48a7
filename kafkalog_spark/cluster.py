"""Run Python functions as Spark tasks: plain values travel as rows through mapInArrow.

A row is (number, part, payload, note). `number` selects the task that gets the row next. `part` orders the
rows of one number. `payload` and `note` are bytes. A payload may have several megabytes, so an Arrow batch
contains few rows.
"""

from __future__ import annotations

import logging
import os
import pickle
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [("number", pa.int32()), ("part", pa.int32()), ("payload", pa.binary()), ("note", pa.binary())]
)
DDL = "number int, part int, payload binary, note binary"
"""SCHEMA as Spark's DDL."""

SESSION_SETTINGS = {
    # The number of rows of an Arrow batch between the JVM and Python. A row may have several megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
    # Rows are partitioned by number, so adaptive execution has nothing to improve. It would run each stage as
    # a separate job.
    "spark.sql.adaptive.enabled": "false",
    # With few rows, generating code takes longer than it saves.
    "spark.sql.codegen.wholeStage": "false",
    # Each row of task_rows becomes one task. This limits the number of tasks.
    "spark.sql.leafNodeDefaultParallelism": str(1 << 20),
}


_DESCRIPTION = "spark.job.description"


class Row(NamedTuple):
    """A row. `payload` and `note` are a memoryview of u8, or None."""

    number: int
    part: int
    payload: Any
    note: Any


def row_batch(number: int, payload: Any, part: int = 0, note: bytes | None = None) -> pa.RecordBatch:
    """Return a batch that contains one row."""
    arrays = [
        pa.array([value], field.type)
        for value, field in zip((number, part, payload, note), SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of the batches. The bytes are not copied."""
    for batch in batches:
        numbers, parts, payloads, notes = batch.columns
        for index in range(batch.num_rows):
            yield Row(
                numbers[index].as_py(),
                parts[index].as_py(),
                _view(payloads[index].as_buffer()),
                _view(notes[index].as_buffer()),
            )


def group_by_number(batches: Iterable[pa.RecordBatch]) -> dict[int, list[Row]]:
    """Return the rows of the batches by number. The rows of a number are sorted by part."""
    groups: dict[int, list[Row]] = {}
    for row in rows(batches):
        groups.setdefault(row.number, []).append(row)
    for group in groups.values():
        group.sort(key=lambda row: row.part)
    return groups


def _view(buffer: pa.Buffer | None) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B")


def task_rows(spark: SparkSession, values: Iterable[object], first: int = 0, part: int = 0) -> DataFrame:
    """Return a DataFrame with one row, and so one task, for each value.

    The rows are numbered from `first` on. Their payload is the pickled value.
    """
    batches = [row_batch(number, pickle.dumps(value), part) for number, value in enumerate(values, first)]
    # Spark would need an additional job to create a DataFrame from Python rows instead of Arrow.
    return spark.createDataFrame(pa.Table.from_batches(batches, SCHEMA))


def repartition_by_number(frame: DataFrame, tasks: int) -> DataFrame:
    """Repartition into that many tasks. Task n gets the rows of number n."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(tasks, "number")
    # Spark 4.0 partitions by a hash of the number: some tasks get the rows of several numbers, others none.
    return frame.repartition(tasks, "number")


def collect_rows(frame: DataFrame) -> Iterator[Row]:
    """Yield the rows on the driver. Arrow is faster here and takes less memory than collect()."""
    return rows(frame.toArrow().to_batches())


def cores(spark: SparkSession) -> int:
    """Return how many tasks can run at the same time. Includes executors that dynamic allocation may add."""
    try:
        context = spark.sparkContext
    except Exception:  # a Spark Connect client cannot see the cluster
        return max(16, os.cpu_count() or 1)
    now, conf = int(context.defaultParallelism), context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        executors = int(conf.get("spark.dynamicAllocation.maxExecutors", "0") or 0)
        return max(1, now, executors * int(conf.get("spark.executor.cores", "1") or 1))
    return max(1, now)


@contextmanager
def tuned_session(spark: SparkSession) -> Iterator[None]:
    """Apply SESSION_SETTINGS, and restore the previous settings at the end.

    Queries must be planned and run inside the block.
    """
    before = {name: spark.conf.get(name, None) for name in SESSION_SETTINGS}
    _apply(spark, SESSION_SETTINGS)
    try:
        yield
    finally:
        # This fails if the session was stopped. The caller of the query gets that error anyway.
        with suppress(Exception):
            _apply(spark, before)


@contextmanager
def job_description(spark: SparkSession, program: str, text: str) -> Iterator[None]:
    """Log `text`, and show it in Spark's UI for the jobs that this thread runs inside the block."""
    logger.info(text)
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has no context
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    description = f"kafkalog {program}: {text}"
    context.setLocalProperty(_DESCRIPTION, description if before is None else f"{before}: {description}")
    try:
        yield
    finally:
        with suppress(Exception):  # the session was stopped
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def _apply(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
