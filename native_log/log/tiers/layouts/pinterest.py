"""The names of Pinterest's tiered storage (ts-segment-uploader).

    <prefix>/[<bits>/]<cluster>/<topic>-<partition>/<start offset>.<kind>

`<bits>` are the first digits of a hash, in binary, if the uploader is set so. The objects are the files of a
broker, unchanged.
"""

from __future__ import annotations

import re

from native_log.log.tiers.layouts.names import ObjectName, PartitionName

REQUIRED = frozenset({"log", "index", "timeindex"})
"""The objects of a complete copy."""

_PARTITION = re.compile(r"(.+)-([0-9]+)")
_OBJECT = re.compile(r"([0-9]{20})\.(log|index|timeindex)")


def parse_partition(name: str) -> PartitionName | None:
    """Return the partition of a folder; None if that is not the name of one."""
    match = _PARTITION.fullmatch(name)
    return PartitionName(match[1], int(match[2]), None) if match else None


def parse_object(name: str) -> ObjectName | None:
    """Return the parts of an object's name; None if that is not the name of one."""
    match = _OBJECT.fullmatch(name)
    return ObjectName(int(match[1]), "", match[2]) if match else None
