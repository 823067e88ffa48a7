"""Fill a topic with the producer, then read it with Spark. No broker runs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from native_log.producer import KafkaLogProducer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC = "readings"
START_MS = 1_760_000_000_000


def fill(logs: Path, readings: int) -> None:
    """Send readings of five sensors. A sensor is the key, so its readings are in one partition, in order."""
    settings = {"compression.type": "lz4", "num.partitions": 3}
    with KafkaLogProducer(logs, settings) as producer:
        futures = [
            producer.send(
                TOPIC,
                value=json.dumps({"celsius": 15 + number % 10}),
                key=f"sensor-{number % 5}",
                headers=[("unit", b"celsius")],
                timestamp_ms=START_MS + 1000 * number,
            )
            for number in range(readings)
        ]
        producer.flush()
        for future in futures:
            future.get()  # raises the error of a record that was not written


def summarize(spark: SparkSession, logs: Path) -> DataFrame:
    """Return the readings of each sensor: their partition, number, average and last time."""
    records = spark.read.format("kafkalog").option("subscribe", TOPIC).load(str(logs))
    celsius = F.get_json_object(F.col("value").cast("string"), "$.celsius").cast("double")
    return (
        records.groupBy(F.col("key").cast("string").alias("sensor"), "partition")
        .agg(
            F.count("*").alias("readings"), F.avg(celsius).alias("celsius"), F.max("timestamp").alias("last")
        )
        .orderBy("sensor")
    )


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kafkalog producer")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "kafka-logs")
        fill(logs, 10_000)
        summarize(spark, logs).show(truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
