"""Work spread over a cluster: plain values, as rows, through mapInArrow.

A row is (number, part, payload, note): `number` says which task a row goes to next, `part` its place among
those of that number, `payload` and `note` are bytes. Payloads may be of megabytes: few rows travel at a time.
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

SETTINGS = {
    # Rows of an Arrow batch between the JVM and Python: they may be of megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
    # Tasks are dealt out by number, there is nothing to adapt; each stage would be a job of its own.
    "spark.sql.adaptive.enabled": "false",
    # Compiling takes longer than it saves where rows are few.
    "spark.sql.codegen.wholeStage": "false",
    # A row that the driver gives is a task of its own: at most this many at a time.
    "spark.sql.leafNodeDefaultParallelism": str(1 << 20),
}


_DESCRIPTION = "spark.job.description"


class Row(NamedTuple):
    number: int
    part: int
    payload: Any
    """Bytes (memoryview of u8), or None; as is `note`."""
    note: Any


def row_batch(number: int, payload: Any, part: int = 0, note: bytes | None = None) -> pa.RecordBatch:
    """A batch of one row."""
    arrays = [
        pa.array([value], field.type)
        for value, field in zip((number, part, payload, note), SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of a task's batches; bytes are not copied."""
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
    """The rows of a task's batches, those of a number together in the order of their parts."""
    found: dict[int, list[Row]] = {}
    for one in rows(batches):
        found.setdefault(one.number, []).append(one)
    for chosen in found.values():
        chosen.sort(key=lambda one: one.part)
    return found


def _view(buffer: pa.Buffer | None) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B")


def task_rows(spark: SparkSession, values: Iterable[object], first: int = 0, part: int = 0) -> DataFrame:
    """One row a value, numbered from `first` on, the value pickled: each a task of its own."""
    batches = [row_batch(number, pickle.dumps(value), part) for number, value in enumerate(values, first)]
    # From Arrow: Spark would run a job of its own to take rows in from Python.
    return spark.createDataFrame(pa.Table.from_batches(batches, SCHEMA))


def repartition_by_number(frame: DataFrame, tasks: int) -> DataFrame:
    """The rows of number n in the n-th of that many tasks."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(tasks, "number")
    return frame.repartition(tasks, "number")  # Spark 4.0: by a hash, so some tasks get more, some none


def collect_rows(frame: DataFrame) -> Iterator[Row]:
    """The rows, on the driver: as Arrow, which takes less time and memory than Spark's rows do."""
    return rows(frame.toArrow().to_batches())


def cores(spark: SparkSession) -> int:
    """How many tasks run at a time; with dynamic allocation, once there are all executors there may be."""
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect tells a client nothing of its cluster
        return max(16, os.cpu_count() or 1)
    now, conf = int(context.defaultParallelism), context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        executors = int(conf.get("spark.dynamicAllocation.maxExecutors", "0") or 0)
        return max(1, now, executors * int(conf.get("spark.executor.cores", "1") or 1))
    return max(1, now)


@contextmanager
def tuned_session(spark: SparkSession) -> Iterator[None]:
    """The session's settings as these queries need them, while they are planned and run."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    _set(spark, SETTINGS)
    try:
        yield
    finally:
        with suppress(Exception):  # the session was stopped, which whoever waited for it is told anyway
            _set(spark, before)


@contextmanager
def job_description(spark: SparkSession, program: str, what: str) -> Iterator[None]:
    """Tell the log, and Spark's UI of the jobs that this thread runs in this block, what is done."""
    logger.info(what)
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has none
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    told = f"kafkalog {program}: {what}"
    context.setLocalProperty(_DESCRIPTION, told if before is None else f"{before}: {told}")
    try:
        yield
    finally:
        with suppress(Exception):  # as above
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
