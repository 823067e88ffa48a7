"""A Kafka log for Python: the directories that Kafka brokers keep, read without a broker.

    from native_log import LogDir

    log = LogDir("/var/kafka-logs").partition("orders", 0)
    for batch in log.read(columns=["offset", "timestamp", "value"]):
        ...  # pyarrow.RecordBatch
"""

from __future__ import annotations

from native_log.errors import (
    CorruptIndexError,
    CorruptRecordError,
    EmptyLogDirError,
    KafkaLogError,
    LogTruncatedError,
    NotALogDirError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)

__version__ = "0.1.0"

__all__ = [
    "CorruptIndexError",
    "CorruptRecordError",
    "EmptyLogDirError",
    "KafkaLogError",
    "LogTruncatedError",
    "NotALogDirError",
    "OffsetOutOfRangeError",
    "UnknownTopicOrPartitionError",
    "__version__",
]
