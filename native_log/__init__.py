"""A Kafka log for Python: the directories that Kafka brokers keep, read without a broker.

from native_log import LogDir

log = LogDir("/var/kafka-logs").partition("orders", 0)
for batch in log.read(columns=["offset", "timestamp", "value"]):
    ...  # pyarrow.RecordBatch
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from native_log.errors import (
    CorruptIndexError,
    CorruptRecordError,
    EmptyLogDirError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaLogError,
    LogDirInUseError,
    LogNeedsRecoveryError,
    LogTruncatedError,
    NotALogDirError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from native_log.cleaner import compact
    from native_log.config import InvalidConfigError
    from native_log.erasure import erase
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir
    from native_log.logdir.recovery import recover
    from native_log.logdir.reindexing import reindex
    from native_log.retention import delete_records, retain

__version__ = "0.1.0"

__all__ = [
    "CorruptIndexError",
    "CorruptRecordError",
    "EmptyLogDirError",
    "InvalidConfigError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaLogError",
    "LogDir",
    "LogDirInUseError",
    "LogNeedsRecoveryError",
    "LogTruncatedError",
    "NotALogDirError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "PartitionLog",
    "RecordTooLargeError",
    "TopicExistsError",
    "UnknownTopicOrPartitionError",
    "__version__",
    "compact",
    "delete_records",
    "erase",
    "recover",
    "reindex",
    "retain",
]

# Arrow and the kernel are loaded with these, not by whoever needs an error or the version.
_MODULES = {
    "InvalidConfigError": "native_log.config",
    "LogDir": "native_log.logdir",
    "PartitionLog": "native_log.log",
    "compact": "native_log.cleaner",
    "delete_records": "native_log.retention",
    "erase": "native_log.erasure",
    "recover": "native_log.logdir.recovery",
    "reindex": "native_log.logdir.reindexing",
    "retain": "native_log.retention",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
