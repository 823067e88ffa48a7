"""Write the orders of a stream to several topics, each exactly once, with foreachBatch.

    spark-submit examples/fan_out.py examples/kafka-logs data/kafka-logs data/checkpoint

Spark runs a micro-batch again after a crash. A write whose txnAppId and txnVersion the log directory has
recorded is then skipped: see docs/spark-write.md.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

APP_ID = "fan-out"
"""Names the writes of this query. Change it together with the checkpoint."""


def write_batch(target: str) -> Callable[[DataFrame, int], None]:
    """Return the function for foreachBatch: it writes a micro-batch to the log directory `target`."""

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        records = batch.select("key", "value", "timestamp")
        # Each write needs an id of its own, or a topic of its own.
        append(records, "all-orders", batch_id)
        append(records.filter("headers IS NOT NULL"), "orders-with-headers", batch_id)
        # The column topic distributes the rows of one write, here by the partition they came from.
        by_partition = batch.withColumn("topic", F.concat(F.lit("orders-of-"), F.col("partition")))
        append(by_partition.select("key", "value", "timestamp", "topic"), None, batch_id)
        batch.unpersist()

    def append(rows: DataFrame, topic: str | None, batch_id: int) -> None:
        writer = rows.write.format("kafkalog").mode("append")
        writer = writer.option("txnAppId", APP_ID).option("txnVersion", batch_id)
        (writer if topic is None else writer.option("topic", topic)).save(target)

    return write


def fan_out(spark: SparkSession, source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Distribute the topic orders of the log directory `source`. Return the query, which has ended."""
    query = (
        spark.readStream.format("kafkalog")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load(source)
        .writeStream.foreachBatch(write_batch(target))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


if __name__ == "__main__":
    fan_out(SparkSession.builder.getOrCreate(), *sys.argv[1:])
