"""Register format("kafkalog") with Spark.

Spark imports every top-level module whose name starts with pyspark_ and registers its `DefaultSource`. If one
of these modules fails to import, Spark registers none of them. This module must therefore never fail.
"""

from __future__ import annotations

from kafkalog_spark.datasource import KafkaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
