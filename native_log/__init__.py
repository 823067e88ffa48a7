"""A Kafka log for Python: the directories that Kafka brokers keep, read without a broker.

from native_log import LogDir

log = LogDir("/var/kafka-logs").partition("orders", 0)
for batch in log.read(columns=["offset", "timestamp", "value"]):
    ...  # pyarrow.RecordBatch
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.errors import (
    CorruptIndexError,
    CorruptRecordError,
    EmptyLogDirError,
    KafkaLogError,
    LogDirInUseError,
    LogTruncatedError,
    NotALogDirError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from native_log.cleaner import compact
    from native_log.erasure import erase
    from native_log.logdir import LogDir
    from native_log.logdir.recovery import recover
    from native_log.logdir.reindexing import reindex
    from native_log.retention import delete_records, retain

__version__ = "0.1.0"

__all__ = [
    "CorruptIndexError",
    "CorruptRecordError",
    "EmptyLogDirError",
    "KafkaLogError",
    "LogDir",
    "LogDirInUseError",
    "LogTruncatedError",
    "NotALogDirError",
    "OffsetOutOfRangeError",
    "UnknownTopicOrPartitionError",
    "__version__",
    "compact",
    "delete_records",
    "erase",
    "recover",
    "reindex",
    "retain",
]


def __getattr__(name: str) -> Any:
    # Arrow and the kernel are loaded with LogDir, not by whoever needs an error or the version.
    if name == "LogDir":
        from native_log.logdir import LogDir

        return LogDir
    if name == "compact":
        from native_log.cleaner import compact

        return compact
    if name == "erase":
        from native_log.erasure import erase

        return erase
    if name in ("delete_records", "retain"):
        from native_log import retention

        return getattr(retention, name)
    if name == "recover":
        from native_log.logdir.recovery import recover

        return recover
    if name == "reindex":
        from native_log.logdir.reindexing import reindex

        return reindex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
