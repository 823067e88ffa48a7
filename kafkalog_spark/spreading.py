"""Work spread over a cluster: plain values, as rows, through mapInArrow.

A row is (number, part, payload, note): `number` says which task a row goes to next, `part` its place among
those of that number, `payload` and `note` are bytes. Payloads may be of megabytes: few rows travel at a time.
"""

from __future__ import annotations

import os
import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [("number", pa.int32()), ("part", pa.int32()), ("payload", pa.binary()), ("note", pa.binary())]
)
DDL = "number int, part int, payload binary, note binary"

ROWS_IN_FLIGHT = 4


class Row(NamedTuple):
    number: int
    part: int
    payload: Any
    """Bytes (memoryview of u8), or None; as is `note`."""
    note: Any


def row(number: int, payload: Any, part: int = 0, note: bytes | None = None) -> pa.RecordBatch:
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


def _view(buffer: pa.Buffer | None) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B")


def task_rows(spark: SparkSession, values: Iterable[object]) -> DataFrame:
    """One row a value, numbered, the value pickled. On the driver still: see `dealt`."""
    batches = [row(number, pickle.dumps(value)) for number, value in enumerate(values)]
    # From Arrow: Spark would run a job of its own to take rows in from Python.
    return spark.createDataFrame(pa.Table.from_batches(batches, SCHEMA))


def dealt(frame: DataFrame, tasks: int) -> DataFrame:
    """The rows of number n in the n-th of that many tasks."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(tasks, "number")
    return frame.repartition(tasks, "number")  # Spark 4.0: by a hash, so some tasks get more, some none


def cores(spark: SparkSession) -> int:
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except Exception:  # Spark Connect tells a client nothing of its cluster
        return max(16, os.cpu_count() or 1)


@contextmanager
def few_rows_in_flight(spark: SparkSession) -> Iterator[None]:
    """Keeps Arrow batches between the JVM and Python small, while queries are planned and run."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, str(ROWS_IN_FLIGHT))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
