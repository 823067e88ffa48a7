"""Read a log directory that a Kafka broker wrote, as a Spark table. No broker runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

LOGS = str(Path(__file__).parent / "kafka-logs")


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kafkalog demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    records = spark.read.format("kafkalog").load(LOGS)
    print(f"Records of {LOGS}, by topic and time:")
    (
        records.select(
            "topic",
            "partition",
            "offset",
            "timestamp",
            F.col("key").cast("string").alias("key"),
            F.col("value").cast("string").alias("value"),
        )
        .orderBy("topic", "timestamp", "partition", "offset")
        .show(15, truncate=72)
    )

    print("Content of each topic:")
    (
        records.groupBy("topic")
        .agg(
            F.count("*").alias("records"),
            F.min("timestamp").alias("first"),
            F.max("timestamp").alias("last"),
            F.sum(F.length("value")).alias("value_bytes"),
        )
        .orderBy("topic")
        .show(truncate=False)
    )

    committed = spark.read.format("kafkalog").option("kafka.isolation.level", "read_committed").load(LOGS)
    aborted = records.where("topic = 'payments'").count() - committed.where("topic = 'payments'").count()
    print(f"{aborted} payments belong to an aborted transaction. A read_committed reader does not see them.")
    spark.stop()


if __name__ == "__main__":
    main()
