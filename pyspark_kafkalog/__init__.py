"""Makes format("kafkalog") known to Spark.

Spark imports every top-level module called pyspark_* and registers its `DefaultSource`. If one such
module fails to import, Spark registers none at all: nothing here may.
"""

from __future__ import annotations

from kafkalog_spark.datasource import KafkaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
