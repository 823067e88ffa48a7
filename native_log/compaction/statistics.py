"""What a cleaning did to a partition, as a row."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.records import RewriteStats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.compaction.eligibility import Cleanable
    from native_log.compaction.rounds import Round


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """One partition of a run. Sizes are of .log files.

    Attributes:
        status: "cleaned" (in a dry run: would be), "skipped" or "failed"; `reason` says why, or what was
            asked for of a cleaned log and not done.
        bytes_after: approximate in a dry run: it depends on the compressor and on the time of the run.
        first_dirty_offset, end_offset: of what was dirty. The end is the next round's first dirty offset.
        null_keys: records without key in the dirty part. Compaction drops them.
        live_keys, dead_keys: keys in the part that is clean now: whose newest record has a value, or is a
            tombstone (be it dropped by now).
        first_expiry_ms, last_expiry_ms: when tombstones and transaction markers expire that have a delete
            horizon: they go in the first cleaning after that.
        was_cleaned: cleaner-offset-checkpoint has the partition.
        last_cleaned_ms: when an earlier cleaning set a delete horizon last, if delete.retention.ms was then
            what it is now. None: nothing tells.
        segments_deleted, bytes_deleted: what retention deleted of the log as the cleaning left it, be it
            skipped. (All other figures are of before.)
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
    live_keys: int | None = None
    dead_keys: int | None = None
    first_expiry_ms: int | None = None
    last_expiry_ms: int | None = None
    was_cleaned: bool | None = None
    last_cleaned_ms: int | None = None
    segments_deleted: int = 0
    bytes_deleted: int = 0


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """What rewriting a group of segments came to; sums are of several groups.

    Attributes:
        keys: whose newest record lies there.
        horizons: (first, last) of the delete horizons that are left there, in epoch ms.
        last_set_before_ms: the last of those horizons that an earlier round set.
        largest_timestamp_ms: of the batches that are left; -1 if none has one.
    """

    rewritten: RewriteStats = field(default_factory=RewriteStats)
    keys: int = 0
    horizons: tuple[int, int] | None = None
    last_set_before_ms: int | None = None
    largest_timestamp_ms: int = -1

    def __add__(self, other: GroupStatistics) -> GroupStatistics:
        horizons = [one.horizons for one in (self, other) if one.horizons is not None]
        before = [one.last_set_before_ms for one in (self, other) if one.last_set_before_ms is not None]
        return GroupStatistics(
            self.rewritten + other.rewritten,
            self.keys + other.keys,
            (min(first for first, _ in horizons), max(last for _, last in horizons)) if horizons else None,
            max(before, default=None),
            max(self.largest_timestamp_ms, other.largest_timestamp_ms),
        )


_TYPES = {
    "str": pa.string(),
    "str | None": pa.string(),
    "float | None": pa.float64(),
    "bool | None": pa.bool_(),
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


def table(statistics: Iterable[PartitionStatistics]) -> pa.Table:
    ordered = sorted(statistics, key=lambda one: (one.topic, one.partition))
    columns = [[getattr(one, f.name) for one in ordered] for f in fields(PartitionStatistics)]
    return pa.table(columns, schema=STATISTICS_SCHEMA)


def skipped(topic: str, partition: int, reason: str, found: Cleanable | None = None) -> PartitionStatistics:
    if found is None:
        return PartitionStatistics(topic, partition, "skipped", reason)
    return PartitionStatistics(
        topic, partition, "skipped", reason, found.first_dirty_offset, found.end_offset, found.dirty_ratio
    )


def cleaned(
    round: Round,
    found: Cleanable,
    groups: GroupStatistics,
    null_keys: int,
    was_cleaned: bool,
    note: str | None = None,
) -> PartitionStatistics:
    """Of a round that was carried out, or would be; `groups`: the sum of all."""
    rewritten = groups.rewritten
    dead_keys = rewritten.tombstones_kept + rewritten.tombstones_dropped
    before, retention_ms = groups.last_set_before_ms, round.delete_horizon_ms - round.now_ms
    return PartitionStatistics(
        round.topic,
        round.partition,
        "cleaned",
        note,
        found.first_dirty_offset,
        round.end_offset,
        found.dirty_ratio,
        sum(len(group.sources) for group in round.groups),
        len(round.groups),
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
        groups.keys - dead_keys,
        dead_keys,
        None if groups.horizons is None else groups.horizons[0],
        None if groups.horizons is None else groups.horizons[1],
        was_cleaned,
        None if before is None else before - retention_ms,
    )
