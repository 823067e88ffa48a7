"""Functions that test_cluster runs in the cluster's driver and tasks. Paths are passed as strings."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pyspark import TaskContext

from kafkalog_spark import compact, retain, retention
from kafkalog_spark.compaction import job, large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS = 12_000
"""Rows of 3 KB in four tasks, so that tasks stage files before they finish: a task with two partitions stages
2 MB of each."""
SCHEMA = "key string, value string"


def task_and_attempt() -> tuple[int, int]:
    """Return the number of this task and of its attempt."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


def is_first(flag: str) -> bool:
    """Return whether this is the first call with this flag file."""
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def kill_executor_once(flag: str) -> None:
    """Kill the executor's JVM, the parent of the parent of this Python worker, in the first call."""
    if is_first(flag):
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(stat[stat.rindex(")") + 2 :].split()[1]), signal.SIGKILL)
        time.sleep(60)


def be_slow_once(flag: str) -> None:
    """Make the first attempt of the first task slow. Later attempts of that task create another flag file."""
    task, attempt = task_and_attempt()
    if task == 0 and attempt == 0 and is_first(f"{flag}-0"):
        time.sleep(60)
    elif task == 0 and attempt > 0:
        Path(f"{flag}-1").touch()


def kill_during(work: Callable[..., Iterator[pa.RecordBatch]], flag: str) -> Callable[..., Any]:
    """Return `work`, extended to kill the executor of one task after a part of the work."""

    def run(batches: Iterator[pa.RecordBatch], **arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in work(batches, **arguments):
            yield batch
            kill_executor_once(flag)

    return run


def slow_down(work: Callable[..., Iterator[pa.RecordBatch]], flag: str) -> Callable[..., Any]:
    """Return `work`, extended so that one task does not finish until Spark starts a second attempt."""

    def run(batches: Iterator[pa.RecordBatch], **arguments: Any) -> Iterator[pa.RecordBatch]:
        yield from work(batches, **arguments)
        be_slow_once(flag)

    return run


def some_rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 4).selectExpr("concat('k', id) key", "repeat('value', 600) value")


def save(df: DataFrame, logs: str, **options: Any) -> None:
    options = {"topic": "t", "partitions": 2, **options}
    df.write.format("kafkalog").mode("append").options(**options).save(logs)


def write_while_an_executor_dies(spark: SparkSession, logs: str, flag: str) -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task, _ = task_and_attempt()
        if task == 1:
            while not list(Path(logs).rglob(f"{task:06d}-*.batches")):
                time.sleep(0.01)
            kill_executor_once(flag)

    save(some_rows(spark).mapInArrow(work, SCHEMA), logs)


def write_with_a_slow_attempt(spark: SparkSession, logs: str, flag: str) -> None:
    save(some_rows(spark).mapInArrow(slow_down(iter, flag), SCHEMA), logs)


def read_rows(
    spark: SparkSession, data: str | list[str], options: Mapping[str, str] = MappingProxyType({})
) -> list[Any]:
    read = spark.read.format("kafkalog").option("minPartitions", 8).options(**options)
    return sorted(
        map(list, read.load(data).selectExpr("topic", "partition", "offset", "hex(value)").collect())
    )


def stream_rows(
    spark: SparkSession, data: str, options: Mapping[str, str], checkpoint: str, output: str
) -> list[Any]:
    stream = spark.readStream.format("kafkalog").options(**options).option("startingOffsets", "earliest")
    rows = stream.load(data).selectExpr("topic", "partition", "offset", "hex(value)")
    query = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", checkpoint)
    query.format("parquet").start(output).awaitTermination()
    return sorted(map(list, spark.read.parquet(output).collect()))


def count_segments(spark: SparkSession, data: str) -> int:
    return spark.read.format("kafkalog").option("view", "segments").load(data).count()


def compact_in_parts(spark: SparkSession, data: str, options: dict[str, Any], flags: str) -> list[Any]:
    with patch.multiple(
        large,
        collect_keys=kill_during(large.collect_keys, f"{flags}-collect"),
        resolve=slow_down(large.resolve, f"{flags}-resolve"),
        rewrite_groups=kill_during(large.rewrite_groups, f"{flags}-rewrite"),
    ):
        rows = compact(spark, data, **options, small_bytes=0, split_bytes=20_000)
    return [list(row) for row in rows.collect()]


def compact_small(spark: SparkSession, data: str, options: dict[str, Any], flags: str) -> list[Any]:
    with patch.object(
        job, "inspect_partitions", slow_down(kill_during(job.inspect_partitions, f"{flags}-killed"), flags)
    ):
        return [list(row) for row in compact(spark, data, **options).collect()]


def compact_interrupted(spark: SparkSession, data: str, options: dict[str, Any], flag: str) -> str:
    """Interrupt the driver, as Ctrl-C does, after a task has staged files."""
    inspect_partitions = job.inspect_partitions

    def stop(batches: Iterator[pa.RecordBatch], **arguments: Any) -> Iterator[pa.RecordBatch]:
        yield from list(inspect_partitions(batches, **arguments))
        Path(flag).touch()
        time.sleep(60)

    def interrupt() -> None:
        while not Path(flag).exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with patch.object(job, "inspect_partitions", stop):
            compact(spark, data, **options)
    except BaseException as error:
        # This may be the error of the Spark job: PySpark waits for it before KeyboardInterrupt.
        return "interrupted" if KeyboardInterrupt in (type(error), type(error.__context__)) else str(error)
    return "done"


def retain_old(spark: SparkSession, data: str, options: dict[str, Any], flags: str) -> list[Any]:
    with patch.object(
        retention,
        "plan_partitions",
        slow_down(kill_during(retention.plan_partitions, f"{flags}-killed"), flags),
    ):
        return [list(row) for row in retain(spark, data, **options).collect()]


def job_description(spark: SparkSession) -> str | None:
    return spark.sparkContext.getLocalProperty("spark.job.description")


def stream(spark: SparkSession, path: str, stop_at: str = "") -> None:
    """Write a micro-batch for each file. A task stops in the micro-batch that contains the key `stop_at`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if stop_at and stop_at in batch.column("key").to_pylist():
                Path(path, "stopped").touch()
                time.sleep(60)

    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{path}/files")
    rows = files.repartition(2, "key").mapInArrow(work, SCHEMA)
    query = (
        rows.writeStream.format("kafkalog")
        .option("checkpointLocation", f"{path}/checkpoint")
        .options(topic="t", partitions=2)
        .trigger(availableNow=True)
        .start(f"{path}/logs")
    )
    query.awaitTermination()


def compact_once(spark: SparkSession, data: str) -> None:
    compact(spark, data, "compact-idem", config={"min.cleanable.dirty.ratio": 0})


def retain_once(spark: SparkSession, data: str) -> None:
    retain(spark, data)


def write_once(spark: SparkSession, data: str) -> None:
    save(some_rows(spark), data)
