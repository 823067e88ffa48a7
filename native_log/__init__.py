"""Read, write and maintain the log directories of Kafka brokers from Python, without a broker.

from native_log import LogDir

log = LogDir("/var/kafka-logs").partition("orders", 0)
for batch in log.read(columns=["offset", "timestamp", "value"]):
    ...  # pyarrow.RecordBatch
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from native_log.errors import (
    BufferExhaustedError,
    CorruptIndexError,
    CorruptRecordError,
    EmptyLogDirError,
    InvalidBatchError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaLogError,
    KafkaTimeoutError,
    LogDirInUseError,
    LogNeedsRecoveryError,
    LogTruncatedError,
    LostOffsetsError,
    NotALogDirError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerClosedError,
    ProducerFencedError,
    RecordTooLargeError,
    SerializationError,
    TopicExistsError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from native_log.arguments import Compression, HighWatermark, IsolationLevel, Mode, Origin, Replicas
    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.compaction import STATISTICS_SCHEMA, compact
    from native_log.config import InvalidConfigError, LogConfig
    from native_log.erasure import ERASURE_SCHEMA, erase
    from native_log.filters import FilterError, RecordFilter
    from native_log.internal_topics.schemas import (
        CLUSTER_METADATA_SCHEMA,
        CONSUMER_OFFSETS_SCHEMA,
        GROUPS_SCHEMA,
        LAG_SCHEMA,
        SHARE_GROUPS_SCHEMA,
        TRANSACTION_STATE_SCHEMA,
    )
    from native_log.log import LogFollower, LogRange, LogScan, PartitionCheckpoints, PartitionLog
    from native_log.log.producers.transactions import TRANSACTION_SCHEMA
    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.logdir import (
        DirectoryState,
        LogDir,
        MetaProperties,
        OffsetCheckpoints,
        PartitionDir,
        PartitionKind,
    )
    from native_log.logdir.comparison import DIFFERENCE_SCHEMA, diff
    from native_log.logdir.recovery import recover
    from native_log.logdir.recovery_report import RECOVERY_SCHEMA, PartitionRecovery
    from native_log.logdir.reindexing import REINDEX_SCHEMA, PartitionReindexing, reindex
    from native_log.logdir.verification import PROBLEM_SCHEMA, verify
    from native_log.records import BATCH_SCHEMA, RECORD_SCHEMA
    from native_log.reporting import report
    from native_log.restoring import RESTORE_SCHEMA, restore
    from native_log.retention import DELETION_SCHEMA, RETENTION_SCHEMA, delete_records, retain
    from native_log.salvaging import SALVAGE_SCHEMA, salvage
    from native_log.scanning import scan, scan_polars, search
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

__version__ = "0.1.0"

__all__ = [
    "BATCH_SCHEMA",
    "CLUSTER_METADATA_SCHEMA",
    "CONSUMER_OFFSETS_SCHEMA",
    "DELETION_SCHEMA",
    "DIFFERENCE_SCHEMA",
    "ERASURE_SCHEMA",
    "GROUPS_SCHEMA",
    "LAG_SCHEMA",
    "PROBLEM_SCHEMA",
    "RECORD_SCHEMA",
    "RECOVERY_SCHEMA",
    "REINDEX_SCHEMA",
    "RESTORE_SCHEMA",
    "RETENTION_SCHEMA",
    "SALVAGE_SCHEMA",
    "SHARE_GROUPS_SCHEMA",
    "STATISTICS_SCHEMA",
    "TRANSACTION_SCHEMA",
    "TRANSACTION_STATE_SCHEMA",
    "BufferExhaustedError",
    "Compression",
    "CorruptIndexError",
    "CorruptRecordError",
    "DamagedRange",
    "DirectoryState",
    "EmptyLogDirError",
    "EpochEntry",
    "FilterError",
    "HighWatermark",
    "InvalidBatchError",
    "InvalidConfigError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTxnStateError",
    "IsolationLevel",
    "KafkaLogError",
    "KafkaTimeoutError",
    "LogConfig",
    "LogDir",
    "LogDirInUseError",
    "LogFollower",
    "LogNeedsRecoveryError",
    "LogRange",
    "LogRecovery",
    "LogScan",
    "LogSegment",
    "LogTruncatedError",
    "LostOffsetsError",
    "MetaProperties",
    "Mode",
    "NotALogDirError",
    "OffsetCheckpoints",
    "OffsetOutOfRangeError",
    "Origin",
    "OutOfOrderSequenceError",
    "PartitionCheckpoints",
    "PartitionDir",
    "PartitionKind",
    "PartitionLog",
    "PartitionRecovery",
    "PartitionReindexing",
    "ProducerClosedError",
    "ProducerFencedError",
    "RecordFilter",
    "RecordTooLargeError",
    "Replicas",
    "SerializationError",
    "TopicExistsError",
    "TransactionAbortedError",
    "UnknownTopicOrPartitionError",
    "__version__",
    "compact",
    "delete_records",
    "diff",
    "erase",
    "recover",
    "reindex",
    "report",
    "restore",
    "retain",
    "salvage",
    "scan",
    "scan_polars",
    "search",
    "verify",
]

# These are imported on first use: importing an error or the version must not load Arrow and the kernel.
_MODULES = {
    "BATCH_SCHEMA": "native_log.records",
    "Compression": "native_log.arguments",
    "CLUSTER_METADATA_SCHEMA": "native_log.internal_topics.schemas",
    "CONSUMER_OFFSETS_SCHEMA": "native_log.internal_topics.schemas",
    "DELETION_SCHEMA": "native_log.retention",
    "DIFFERENCE_SCHEMA": "native_log.logdir.comparison",
    "DamagedRange": "native_log.segment.damage",
    "ERASURE_SCHEMA": "native_log.erasure",
    "EpochEntry": "native_log.checkpoints.leader_epochs",
    "HighWatermark": "native_log.arguments",
    "InvalidConfigError": "native_log.config",
    "FilterError": "native_log.filters",
    "IsolationLevel": "native_log.arguments",
    "GROUPS_SCHEMA": "native_log.internal_topics.schemas",
    "LAG_SCHEMA": "native_log.internal_topics.schemas",
    "LogConfig": "native_log.config",
    "LogDir": "native_log.logdir",
    "DirectoryState": "native_log.logdir",
    "LogFollower": "native_log.log",
    "LogRange": "native_log.log",
    "LogRecovery": "native_log.log.recovery.log_recovery",
    "LogScan": "native_log.log",
    "LogSegment": "native_log.segment.segment",
    "MetaProperties": "native_log.logdir",
    "Mode": "native_log.arguments",
    "OffsetCheckpoints": "native_log.logdir",
    "Origin": "native_log.arguments",
    "PartitionCheckpoints": "native_log.log",
    "PartitionDir": "native_log.logdir",
    "PartitionKind": "native_log.logdir",
    "PartitionLog": "native_log.log",
    "PartitionRecovery": "native_log.logdir.recovery_report",
    "PartitionReindexing": "native_log.logdir.reindexing",
    "PROBLEM_SCHEMA": "native_log.logdir.verification",
    "RecordFilter": "native_log.filters",
    "RECORD_SCHEMA": "native_log.records",
    "RECOVERY_SCHEMA": "native_log.logdir.recovery_report",
    "REINDEX_SCHEMA": "native_log.logdir.reindexing",
    "RETENTION_SCHEMA": "native_log.retention",
    "RESTORE_SCHEMA": "native_log.restoring",
    "SALVAGE_SCHEMA": "native_log.salvaging",
    "SHARE_GROUPS_SCHEMA": "native_log.internal_topics.schemas",
    "STATISTICS_SCHEMA": "native_log.compaction",
    "TRANSACTION_SCHEMA": "native_log.log.producers.transactions",
    "TRANSACTION_STATE_SCHEMA": "native_log.internal_topics.schemas",
    "Replicas": "native_log.arguments",
    "compact": "native_log.compaction",
    "delete_records": "native_log.retention",
    "diff": "native_log.logdir.comparison",
    "erase": "native_log.erasure",
    "recover": "native_log.logdir.recovery",
    "reindex": "native_log.logdir.reindexing",
    "report": "native_log.reporting",
    "retain": "native_log.retention",
    "restore": "native_log.restoring",
    "salvage": "native_log.salvaging",
    "scan": "native_log.scanning",
    "scan_polars": "native_log.scanning",
    "search": "native_log.scanning",
    "verify": "native_log.logdir.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
