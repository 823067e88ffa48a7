"""The result of a compaction: one row for each partition."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.effective_config import SETTINGS_TYPE, settings_value
from native_log.outcomes import as_planned
from native_log.records import RewriteStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from native_log.compaction.eligibility import CleanableRange
    from native_log.compaction.rounds import Round
    from native_log.effective_config import AppliedSetting


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """The result for one partition. Byte sizes are those of .log files.

    Attributes:
        status: "cleaned", "skipped" or "failed". The report of a dry run has "would be cleaned".
        reason: why the partition was skipped or failed, or what was requested for a cleaned partition and not
            done.
        first_dirty_offset, end_offset: the dirty range, end exclusive. The end is the first dirty offset of
            the next round.
        bytes_after: approximate in a dry run, because it depends on the compressor and on the time of the
            run.
        null_keys: the number of dirty records without a key. Compaction drops them.
        live_keys: the number of keys in the range that is clean now whose newest record has a value.
        dead_keys: the number of keys in that range whose newest record is a tombstone, whether the round kept
            or dropped the tombstone.
        first_expiry_ms, last_expiry_ms: the smallest and the greatest delete horizon of the batches that are
            left. The first compaction after its delete horizon drops a tombstone or transaction marker.
        was_cleaned: whether cleaner-offset-checkpoint had an entry for the partition.
        last_cleaned_ms: the time at which an earlier compaction last set a delete horizon, provided that
            delete.retention.ms has not changed since; None if no batch has such a horizon.
        segments_deleted, bytes_deleted: the segments that the delete policy removed after compaction, also
            from a skipped log. The other figures do not include this.
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
    """The result of rewriting one group of segments, or the sum of several groups.

    Attributes:
        keys: the number of keys whose newest record is in the group.
        horizons: the smallest and the greatest delete horizon of the batches that are left, in epoch ms; None
            if no batch has one.
        last_set_before_ms: the greatest of those horizons that an earlier round set, in epoch ms.
        largest_timestamp_ms: the largest timestamp of the batches that are left, in epoch ms; -1 if no batch
            has one.
    """

    rewritten: RewriteStats = field(default_factory=RewriteStats)
    keys: int = 0
    horizons: tuple[int, int] | None = None
    last_set_before_ms: int | None = None
    largest_timestamp_ms: int = -1

    def __add__(self, other: GroupStatistics) -> GroupStatistics:
        both = (self, other)
        horizons = [stats.horizons for stats in both if stats.horizons is not None]
        before = [stats.last_set_before_ms for stats in both if stats.last_set_before_ms is not None]
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
    + [("settings", SETTINGS_TYPE)]
)
"""One row for each partition: the fields of PartitionStatistics in camelCase, and `settings`.

`settings` are the settings that decided what is done to the topic, and where they come from (see
native_log.effective_config.AppliedSetting). For a topic that is skipped for its policy, only the policy.
"""


def statistics_table(
    partitions: Iterable[PartitionStatistics],
    settings: Mapping[tuple[str, int], tuple[AppliedSetting, ...]],
    dry_run: bool,
) -> pa.Table:
    """Return the rows (STATISTICS_SCHEMA), sorted by topic and partition.

    Args:
        settings: the settings of each partition, by topic and partition.
    """
    ordered = sorted(partitions, key=lambda stats: (stats.topic, stats.partition))
    columns = [[getattr(stats, f.name) for stats in ordered] for f in fields(PartitionStatistics)]
    columns.append([settings_value(settings.get((stats.topic, stats.partition), ())) for stats in ordered])
    table = pa.table(columns, schema=STATISTICS_SCHEMA)
    return as_planned(table, "status", ("cleaned",)) if dry_run else table


def skipped_partition(
    topic: str, partition: int, reason: str, cleanable: CleanableRange | None = None
) -> PartitionStatistics:
    if cleanable is None:
        return PartitionStatistics(topic, partition, "skipped", reason)
    return PartitionStatistics(
        topic,
        partition,
        "skipped",
        reason,
        cleanable.first_dirty_offset,
        cleanable.end_offset,
        cleanable.dirty_ratio,
    )


def failed_partition(topic: str, partition: int, reason: str) -> PartitionStatistics:
    return PartitionStatistics(topic, partition, "failed", reason)


def cleaned_partition(
    round: Round,
    cleanable: CleanableRange,
    groups: Iterable[GroupStatistics],
    null_keys: int,
    was_cleaned: bool,
    note: str | None = None,
) -> PartitionStatistics:
    """Return the row of a partition whose round was carried out or, in a dry run, would be.

    Args:
        groups: the results of all groups of the round.
        note: what was requested and not done.
    """
    total = sum(groups, GroupStatistics())
    rewritten = total.rewritten
    dead_keys = rewritten.tombstones_kept + rewritten.tombstones_dropped
    before, retention_ms = total.last_set_before_ms, round.delete_horizon_ms - round.now_ms
    return PartitionStatistics(
        round.source.topic,
        round.source.partition,
        "cleaned",
        note,
        cleanable.first_dirty_offset,
        round.end_offset,
        cleanable.dirty_ratio,
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
        total.keys - dead_keys,
        dead_keys,
        None if total.horizons is None else total.horizons[0],
        None if total.horizons is None else total.horizons[1],
        was_cleaned,
        None if before is None else before - retention_ms,
    )
