"""Log directories and the partitions in them.

| module | contents |
|---|---|
| logdir | LogDir: the partitions in one or several log directories |
| listing_ahead | list many partition directories in a bucket with few requests |
| live_logdir, live_directory | LiveLogDir: log directories that are kept up to date |
| followed_logdir | follow partitions: those that exist, and those that appear later |
| discovery | find partition directories |
| catalog | the partition directories that were found, and the ones that are read |
| directory_state | the state of one log directory: checkpoints, lock, clean shutdown |
| create | create log directories, topics and partitions |
| known_topics, cluster_metadata | the stored configurations of topics |
| internal_tables | Kafka's internal topics as tables |
| selection, selected_partitions | select partitions by topic and number |
| maintenance | open and lock log directories for changes, and select what may be changed |
| verification, recovery, reindexing | verify, recover and reindex for many partitions |
| recovery_report | the rows of the report of a recovery |
| comparison | compare the copies of partitions |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from native_log.checkpoints.lock import lock_holder
    from native_log.checkpoints.meta_properties import MetaProperties
    from native_log.checkpoints.names import (
        INTERNAL_TOPICS,
        PartitionKind,
        is_legal_topic,
        parse_partition_name,
    )
    from native_log.checkpoints.offset_checkpoints import OffsetCheckpoints
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.logdir import LogDir

__all__ = [
    "INTERNAL_TOPICS",
    "DirectoryState",
    "LogDir",
    "MetaProperties",
    "OffsetCheckpoints",
    "PartitionDir",
    "PartitionKind",
    "is_legal_topic",
    "lock_holder",
    "parse_partition_name",
]

# These are imported on first use: shell completion of topics must not load Arrow and the kernel.
_MODULES = {
    "INTERNAL_TOPICS": "checkpoints.names",
    "LogDir": "logdir.logdir",
    "DirectoryState": "logdir.directory_state",
    "MetaProperties": "checkpoints.meta_properties",
    "OffsetCheckpoints": "checkpoints.offset_checkpoints",
    "PartitionDir": "logdir.discovery",
    "PartitionKind": "checkpoints.names",
    "is_legal_topic": "checkpoints.names",
    "lock_holder": "checkpoints.lock",
    "parse_partition_name": "checkpoints.names",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"native_log.{_MODULES[name]}"), name)
