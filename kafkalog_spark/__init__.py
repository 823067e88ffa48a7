"""Kafka log directories as Spark tables, with no broker.

    spark.read.format("kafkalog").load("/var/kafka-logs")

needs no registration where this package was installed before the session began to look for data sources.
Elsewhere:

    from kafkalog_spark import KafkaLogDataSource
    spark.dataSource.register(KafkaLogDataSource)
"""

from __future__ import annotations

from kafkalog_spark.datasource import KafkaLogDataSource

__all__ = ["KafkaLogDataSource"]
