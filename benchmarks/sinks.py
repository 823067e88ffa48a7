"""Measure sinks inside a Spark session: each of them gets the same cached rows."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.timing import Pass, measure_in_turn
from benchmarks.toy import ToySink

BATCHED = {"kafka.batch.size": "65536", "kafka.linger.ms": "20"}
SINK = "Spark's kafka sink"
BATCHED_SINK = "Spark's kafka sink, batched"
KEY_BYTES, VALUE_BYTES = 16, 100


def work(cores: int) -> str:
    return f"4 M records of 100 B to a sink, local[{cores}]"


def measure(spark: SparkSession, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spark.dataSource.register(ToySink)
    rows = request["rows"]
    frame = _rows(spark, rows).cache()
    frame.count()
    for codec in ("none", "lz4"):
        kafka = {"kafka.bootstrap.servers": request["bootstrap"], "topic": f"sink-{codec}"}
        contenders = {
            "kafkalog": _kafkalog(frame, rows, codec, Path(request["folder"])),
            SINK: _sink(frame, rows, "kafka", kafka | {"kafka.compression.type": codec}),
            BATCHED_SINK: _sink(frame, rows, "kafka", kafka | {"kafka.compression.type": codec} | BATCHED),
            "ceiling": _sink(frame, rows, "toy_sink", {}),
        }
        for measurement in measure_in_turn(
            work(request["cores"]),
            codec,
            contenders,
            size_bytes=rows * (KEY_BYTES + VALUE_BYTES),
            rows=rows,
            runs=request["runs"],
            warmups=1,
        ):
            yield asdict(measurement)


def _rows(spark: SparkSession, count: int) -> DataFrame:
    identity = F.sha2(F.col("id").cast("string"), 256)
    value = F.rpad(F.concat(F.lit('{"user":"'), identity), VALUE_BYTES, "x")
    return spark.range(0, count, 1, 4).select(
        F.format_string("key-%012d", F.col("id")).cast("binary").alias("key"),
        value.cast("binary").alias("value"),
    )


def _sink(frame: DataFrame, rows: int, source: str, options: dict[str, str]) -> Callable[[], Pass]:
    def run() -> Pass:
        frame.write.format(source).mode("append").options(**options).save()
        return Pass(rows)

    return run


def _kafkalog(frame: DataFrame, rows: int, codec: str, folder: Path) -> Callable[[], Pass]:
    options = {"topic": f"sink-{codec}", "partitions": "4", "kafka.compression.type": codec} | BATCHED

    def run() -> Pass:
        shutil.rmtree(folder, ignore_errors=True)
        started = perf_counter()
        frame.write.format("kafkalog").mode("append").options(**options).save(str(folder))
        seconds = perf_counter() - started
        written = sum(log.stat().st_size for log in folder.glob("*/*.log"))
        return Pass(rows, seconds, written)

    return run
