"""Copy a topic to Parquet files: its history from a log directory, and later records from a broker.

    spark-submit examples/handover.py /backup/kafka-logs orders data/orders data/checkpoint
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 \\
        examples/handover.py localhost:9092 orders data/orders data/checkpoint

Both runs use the same checkpoint, so the second one starts at exactly the next offset. See docs/handover.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def copy(
    spark: SparkSession, source: str, topic: str, files: str, checkpoint: str, **options: Any
) -> StreamingQuery:
    """Copy what is there, and return the query, which has ended.

    Args:
        source: a log directory, or the bootstrap servers of a broker.
        options: more options of the source.
    """
    reader = spark.readStream.option("subscribe", topic).option("startingOffsets", "earliest")
    reader = reader.option("kafka.isolation.level", "read_committed").options(**options)
    if Path(source).is_dir():
        records = reader.format("kafkalog").load(source)
    else:
        records = reader.format("kafka").option("kafka.bootstrap.servers", source).load()
    query = (
        records.writeStream.format("parquet")
        .option("path", files)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def committed_offsets(checkpoint: str) -> str:
    """Return the offsets up to which a query has read, as JSON for the option startingOffsets."""
    commits = [int(file.name) for file in Path(checkpoint, "commits").iterdir() if file.name.isdecimal()]
    return Path(checkpoint, "offsets", str(max(commits))).read_text().splitlines()[-1]


if __name__ == "__main__":
    copy(SparkSession.builder.getOrCreate(), *sys.argv[1:])
