"""Log directories: which partitions lie there, and what the broker noted beside them.

`LogDir` puts one or several together; the modules below it each read one kind of thing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from native_log.logdir.checkpoints import OffsetCheckpoints
    from native_log.logdir.directory import LogDirectory
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.lock import lock_holder
    from native_log.logdir.logdir import LogDir
    from native_log.logdir.meta_properties import MetaProperties
    from native_log.logdir.names import INTERNAL_TOPICS, PartitionKind, is_legal_topic, parse_partition_name

__all__ = [
    "INTERNAL_TOPICS",
    "LogDir",
    "LogDirectory",
    "MetaProperties",
    "OffsetCheckpoints",
    "PartitionDir",
    "PartitionKind",
    "is_legal_topic",
    "lock_holder",
    "parse_partition_name",
]

# Completing a topic in a shell needs names alone, and neither Arrow nor the kernel.
_MODULES = {
    "INTERNAL_TOPICS": "names",
    "LogDir": "logdir",
    "LogDirectory": "directory",
    "MetaProperties": "meta_properties",
    "OffsetCheckpoints": "checkpoints",
    "PartitionDir": "discovery",
    "PartitionKind": "names",
    "is_legal_topic": "names",
    "lock_holder": "lock",
    "parse_partition_name": "names",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"native_log.logdir.{_MODULES[name]}"), name)
