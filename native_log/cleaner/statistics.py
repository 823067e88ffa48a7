"""What a cleaning did to a partition, as a row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.cleaner.eligibility import Cleanable
    from native_log.records import RewriteStats


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """One partition of a run. Sizes are of .log files.

    Attributes:
        status: "cleaned" (in a dry run: would be), "skipped" or "failed"; `reason` says why.
        first_dirty_offset, end_offset: of what was dirty. The end is the next round's first dirty offset.
        null_keys: records without key in the dirty part. Compaction drops them.
    """

    topic: str
    partition: int
    status: str
    reason: str | None = None
    first_dirty_offset: int | None = None
    end_offset: int | None = None
    dirty_ratio: float | None = None
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    batches_copied: int = 0
    batches_emptied: int = 0
    tombstones_kept: int = 0
    tombstones_dropped: int = 0
    horizons_set: int = 0
    null_keys: int = 0


_TYPES = {
    "str": pa.string(),
    "str | None": pa.string(),
    "float | None": pa.float64(),
}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


STATISTICS_SCHEMA = pa.schema(
    [
        (_camel_case(f.name), pa.int32() if f.name == "partition" else _TYPES.get(str(f.type), pa.int64()))
        for f in fields(PartitionStatistics)
    ]
)
"""One row a partition: the fields of PartitionStatistics in camelCase."""


def row(statistics: PartitionStatistics) -> dict[str, Any]:
    return {_camel_case(f.name): getattr(statistics, f.name) for f in fields(statistics)}


def table(statistics: Iterable[PartitionStatistics]) -> pa.Table:
    ordered = sorted(statistics, key=lambda one: (one.topic, one.partition))
    return pa.Table.from_pylist([row(one) for one in ordered], schema=STATISTICS_SCHEMA)


def skipped(topic: str, partition: int, reason: str, found: Cleanable | None = None) -> PartitionStatistics:
    if found is None:
        return PartitionStatistics(topic, partition, "skipped", reason)
    return PartitionStatistics(
        topic, partition, "skipped", reason, found.first_dirty_offset, found.end_offset, found.dirty_ratio
    )


def cleaned(
    topic: str,
    partition: int,
    found: Cleanable,
    *,
    end_offset: int,
    segments: tuple[int, int],
    rewritten: RewriteStats,
    null_keys: int,
) -> PartitionStatistics:
    """`segments`: how many there were in the round, and how many they became."""
    return PartitionStatistics(
        topic,
        partition,
        "cleaned",
        None,
        found.first_dirty_offset,
        end_offset,
        found.dirty_ratio,
        *segments,
        rewritten.bytes_read,
        rewritten.bytes_kept,
        rewritten.records_read,
        rewritten.records_kept,
        rewritten.batches_copied,
        rewritten.batches_emptied,
        rewritten.tombstones_kept,
        rewritten.tombstones_dropped,
        rewritten.horizons_set,
        null_keys,
    )
