"""Divide offset ranges among tasks. Pure.

For `minPartitions` and `maxRecordsPerPartition`, `divide_ranges` makes the same tasks as Spark's kafka source
(KafkaOffsetRangeCalculator). `target_bytes` and `pack` divide by bytes, which Spark's kafka source does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kafkalog_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_spark.read.offsets import OffsetRange

PACK_BYTES = 16 << 20
"""Small ranges share a task up to this size, because each Python task has a fixed cost of about 50 ms."""
FILE_COST_BYTES = 16 << 10
"""Opening a file takes about as long as reading this many bytes."""

MAX_TASKS = 1_000_000
"""The most tasks that limits of offsets may make. Each costs memory on the driver."""

T = TypeVar("T")


def divide(r: OffsetRange, parts: int) -> list[OffsetRange]:
    """Divide a range into `parts` consecutive ranges of about equal size.

    The remainder goes to the last ranges. No range is empty, so a short range has fewer parts.
    """
    divided, start, left = [], r.start, r.size
    parts = min(parts, r.size)
    for i in range(parts):
        size = left // (parts - i)
        if size > 0:
            divided.append(replace(r, start=start, end=start + size))
        start, left = start + size, left - size
    return divided


def needs_division(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> bool:
    """Return whether the limits require more tasks than there are ranges."""
    return (min_partitions is not None and min_partitions > len(ranges)) or (
        max_records is not None and any(r.size > max_records for r in ranges)
    )


def divide_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Divide ranges into at most `max_records` offsets each, and into about `min_partitions` ranges in total.

    Empty and reversed ranges are dropped. Sizes are numbers of offsets, not of rows.

    Raises OptionError if this makes more than MAX_TASKS ranges.
    """
    parts = [r for r in ranges if r.size > 0]
    if max_records is not None:
        _check_tasks("maxRecordsPerPartition", max_records, sum(-(-r.size // max_records) for r in parts))
        parts = [part for r in parts for part in divide(r, -(-r.size // max_records))]
    if min_partitions is None or len(parts) >= min_partitions:
        return parts
    total = sum(r.size for r in parts)
    _check_tasks("minPartitions", min_partitions, min(min_partitions, total))
    # A range whose share is one task stays whole. The other ranges share the remaining tasks. As in Spark, if
    # one part of a partition stays whole, all parts of the partition do.
    whole = [r for r in parts if _share(r.size, total, min_partitions) == 1]
    undivided = {r.topic_partition for r in whole}
    total_left = total - sum(r.size for r in whole)
    tasks_left = max(min_partitions - len(whole), 1)
    return [
        part
        for r in parts
        for part in (
            [r] if r.topic_partition in undivided else divide(r, _share(r.size, total_left, tasks_left))
        )
    ]


def _check_tasks(option: str, value: int, tasks: int) -> None:
    if tasks > MAX_TASKS:
        raise OptionError(
            f"{option}={value} makes {tasks} tasks, expected at most {MAX_TASKS} (offsets without records "
            "count, too). Give another number, or maxBytesPerPartition instead"
        )


def _share(size: int, total: int, tasks: int) -> int:
    return max(1, int(size / total * tasks + 0.5))  # Java's Math.round rounds halves up


def cut(r: OffsetRange, offsets: Iterable[int]) -> list[OffsetRange]:
    """Cut a range at those of the ascending offsets that are inside it."""
    inner = [offset for offset in offsets if r.start < offset < r.end]
    return [replace(r, start=s, end=e) for s, e in zip([r.start, *inner], [*inner, r.end], strict=True)]


def target_bytes(sizes: Iterable[int], max_bytes: int, cores: int) -> int:
    """Return how many bytes a task should read: `max_bytes`, or less if that would leave cores idle."""
    return min(max_bytes, max(PACK_BYTES, -(-sum(sizes) // cores)))


def pack(items: Iterable[T], cost: Callable[[T], int], max_cost: int) -> list[list[T]]:
    """Group consecutive items. A group costs at most `max_cost`, unless a single item costs more."""
    groups: list[list[T]] = []
    group_cost = 0
    for item in items:
        item_cost = cost(item)
        if not groups or group_cost + item_cost > max_cost:
            groups.append([])
            group_cost = 0
        groups[-1].append(item)
        group_cost += item_cost
    return groups
