"""Read, write and maintain Kafka log directories with Spark, without a broker.

    spark.read.format("kafkalog").load("/var/kafka-logs")
    df.write.format("kafkalog").mode("append").option("topic", "orders").save("/data/kafka-logs")

The format needs no registration if this package was installed before the session first looked for data
sources. Otherwise register it:

    from kafkalog_spark import KafkaLogDataSource
    spark.dataSource.register(KafkaLogDataSource)

`compact(spark, path, ...)` and `retain(spark, path, ...)` are Spark jobs. They apply the cleanup policies
`compact` and `delete` to log directories.

`map_in_arrow(spark, path, function, schema)` applies a function to batches where they are decoded.

`storage_options(spark, url)` returns the session's settings for an object store, as options of a read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalog_spark.compaction import compact
    from kafkalog_spark.datasource import KafkaLogDataSource
    from kafkalog_spark.mapping import map_in_arrow
    from kafkalog_spark.retention import retain
    from kafkalog_spark.session_storage import storage_options

__all__ = ["KafkaLogDataSource", "compact", "map_in_arrow", "retain", "storage_options"]


def __getattr__(name: str) -> Any:
    # Spark imports this package to look for data sources, so the jobs are imported on first use. The command
    # that finds the jobs works without pyspark, which only spark-submit brings on some machines.
    if name == "KafkaLogDataSource":
        from kafkalog_spark.datasource import KafkaLogDataSource

        return KafkaLogDataSource
    if name == "compact":
        from kafkalog_spark.compaction import compact

        return compact
    if name == "retain":
        from kafkalog_spark.retention import retain

        return retain
    if name == "map_in_arrow":
        from kafkalog_spark.mapping import map_in_arrow

        return map_in_arrow
    if name == "storage_options":
        from kafkalog_spark.session_storage import storage_options

        return storage_options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
