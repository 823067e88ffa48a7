"""What the cluster of test_cluster does: in its driver, and in tasks. Paths are strings there."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pyspark import TaskContext

from kafkalog_spark import compact, retain, retention
from kafkalog_spark.compaction import job, large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS = 24_000
"""In four tasks: of 3 KB each, so that tasks stage files before they are done."""
SCHEMA = "key string, value string"


def number_of_task() -> tuple[int, int]:
    """Which task this is, and of which attempt at it."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


def is_first(flag: str) -> bool:
    """Whether no one was here before."""
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def kill_executor_once(flag: str) -> None:
    """The JVM above this Python worker, and its parent."""
    if is_first(flag):
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(stat[stat.rindex(")") + 2 :].split()[1]), signal.SIGKILL)
        time.sleep(60)


def be_slow_once(flag: str) -> None:
    """The first attempt at the first task; others leave a flag, too."""
    task, attempt = number_of_task()
    if task == 0 and attempt == 0 and is_first(f"{flag}-0"):
        time.sleep(60)
    elif task == 0 and attempt > 0:
        Path(f"{flag}-1").touch()


def dying(work: Callable[..., Iterator[pa.RecordBatch]], flag: str) -> Callable[..., Any]:
    """The executor of one of the tasks dies when a part of the work is done."""

    def run(batches: Iterator[pa.RecordBatch], **how: Any) -> Iterator[pa.RecordBatch]:
        for batch in work(batches, **how):
            yield batch
            kill_executor_once(flag)

    return run


def slow(work: Callable[..., Iterator[pa.RecordBatch]], flag: str) -> Callable[..., Any]:
    """One of the tasks does not come to its end until it was tried again."""

    def run(batches: Iterator[pa.RecordBatch], **how: Any) -> Iterator[pa.RecordBatch]:
        yield from work(batches, **how)
        be_slow_once(flag)

    return run


def some_rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 4).selectExpr("concat('k', id) key", "repeat('value', 600) value")


def save(df: DataFrame, logs: str, **options: Any) -> None:
    how = {"topic": "t", "partitions": 2, **options}
    df.write.format("kafkalog").mode("append").options(**how).save(logs)


def write_while_an_executor_dies(spark: SparkSession, logs: str, flag: str) -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task, _ = number_of_task()
        if task == 1:
            while not list(Path(logs).rglob(f"{task:06d}-*.batches")):
                time.sleep(0.01)
            kill_executor_once(flag)

    save(some_rows(spark).mapInArrow(work, SCHEMA), logs)


def write_with_a_slow_attempt(spark: SparkSession, logs: str, flag: str) -> None:
    save(some_rows(spark).mapInArrow(slow(iter, flag), SCHEMA), logs)


def read_rows(spark: SparkSession, data: str) -> list[Any]:
    read = spark.read.format("kafkalog").option("minPartitions", 8)
    return sorted(
        map(list, read.load(data).selectExpr("topic", "partition", "offset", "hex(value)").collect())
    )


def count_segments(spark: SparkSession, data: str) -> int:
    return spark.read.format("kafkalog").option("view", "segments").load(data).count()


def compact_in_parts(spark: SparkSession, data: str, how: dict[str, Any], flags: str) -> list[Any]:
    with patch.multiple(
        large,
        gather_keys=dying(large.gather_keys, f"{flags}-gather"),
        decide=slow(large.decide, f"{flags}-decide"),
        rewrite_groups=dying(large.rewrite_groups, f"{flags}-rewrite"),
    ):
        told = compact(spark, data, **how, small_bytes=0, split_bytes=20_000)
    return [list(row) for row in told.collect()]


def compact_small(spark: SparkSession, data: str, how: dict[str, Any], flags: str) -> list[Any]:
    with patch.object(job, "look", slow(dying(job.look, f"{flags}-killed"), flags)):
        return [list(row) for row in compact(spark, data, **how).collect()]


def compact_interrupted(spark: SparkSession, data: str, how: dict[str, Any], flag: str) -> str:
    """As by Ctrl-C, while a task has staged something."""
    look = job.look

    def stops(batches: Iterator[pa.RecordBatch], **how: Any) -> Iterator[pa.RecordBatch]:
        yield from list(look(batches, **how))
        Path(flag).touch()
        time.sleep(60)

    def interrupt() -> None:
        while not Path(flag).exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with patch.object(job, "look", stops):
            compact(spark, data, **how)
    except BaseException as error:  # that, or the end of Spark's job, which PySpark waits for first
        return "interrupted" if KeyboardInterrupt in (type(error), type(error.__context__)) else str(error)
    return "done"


def retain_old(spark: SparkSession, data: str, how: dict[str, Any], flags: str) -> list[Any]:
    with patch.object(
        retention, "inspect_partition", slow(dying(retention.inspect_partition, f"{flags}-killed"), flags)
    ):
        return [list(row) for row in retain(spark, data, **how).collect()]


def job_description(spark: SparkSession) -> str | None:
    return spark.sparkContext.getLocalProperty("spark.job.description")


def stream(spark: SparkSession, path: str, stop_at: str = "") -> None:
    """A micro-batch for each file; in that of a file called `stop_at` one of two tasks stops."""

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


def compact_plainly(spark: SparkSession, data: str) -> None:
    compact(spark, data, "compact-idem", config={"min.cleanable.dirty.ratio": 0})


def retain_plainly(spark: SparkSession, data: str) -> None:
    retain(spark, data)


def write_plainly(spark: SparkSession, data: str) -> None:
    save(some_rows(spark), data)
