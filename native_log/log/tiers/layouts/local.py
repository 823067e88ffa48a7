"""The names of Apache Kafka's LocalTieredStorage (Kafka: RemoteLogSegmentFileset).

<topic>-<partition>-<topic id>/<start offset>-<segment id>.<kind>
"""

from __future__ import annotations

import re

from native_log.log.tiers.layouts.names import UUID, ObjectName, PartitionName

ROOT = "kafka-tiered-storage"
"""The folder that LocalTieredStorage creates in its `dir`."""

REQUIRED = frozenset({"log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"})
"""The objects of a complete copy. There is a `txnindex` only if transactions were aborted."""

_PARTITION = re.compile(rf"(.+)-([0-9]+)-({UUID})")
_OBJECT = re.compile(rf"([0-9]+)-({UUID})\.(log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)")


def parse_partition(name: str) -> PartitionName | None:
    """Return the partition of a folder; None if that is not the name of one."""
    match = _PARTITION.fullmatch(name)
    return PartitionName(match[1], int(match[2]), match[3]) if match else None


def parse_object(name: str) -> ObjectName | None:
    """Return the parts of an object's name; None if that is not the name of one.

    Kafka pads offsets to 20 digits; any number of digits is accepted.
    """
    match = _OBJECT.fullmatch(name)
    return ObjectName(int(match[1]), match[2], match[3]) if match else None
