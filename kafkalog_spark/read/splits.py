"""Offset ranges and limits -> the ranges of the tasks. Pure.

`divide_ranges` gives the same tasks as Spark's kafka source (KafkaOffsetRangeCalculator) for `minPartitions`
and `maxRecordsPerPartition`. Bytes, which it does not know, come in through `target_bytes` and `pack`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_spark.read.offsets import OffsetRange

PACK_BYTES = 16 << 20
"""What small ranges are packed up to: about the work that a Python task's fixed cost (~50 ms) is worth."""
FILE_COST_BYTES = 16 << 10
"""Opening a file costs about as much as reading this many bytes."""

T = TypeVar("T")


def divide(r: OffsetRange, parts: int) -> list[OffsetRange]:
    """`parts` consecutive ranges of about equal size, the remainder in the last ones; none is empty."""
    divided, start, left = [], r.start, r.size
    parts = min(parts, r.size)
    for i in range(parts):
        size = left // (parts - i)
        if size > 0:
            divided.append(replace(r, start=start, end=start + size))
        start, left = start + size, left - size
    return divided


def divides(ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None) -> bool:
    """Whether the limits ask for more tasks than the ranges make."""
    return (min_partitions is not None and min_partitions > len(ranges)) or (
        max_records is not None and any(r.size > max_records for r in ranges)
    )


def divide_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """The ranges cut so that none has more than `max_records` offsets, and into about `min_partitions`.

    Empty and reversed ranges are dropped. Sizes are numbers of offsets, not of rows.
    """
    pieces = [r for r in ranges if r.size > 0]
    if max_records is not None:
        pieces = [part for r in pieces for part in divide(r, -(-r.size // max_records))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(r.size for r in pieces)
    # Ranges whose share is one task keep it; the others share the tasks that are left. A partition any piece
    # of which is kept whole is kept as it is altogether, as in Spark.
    whole = [r for r in pieces if _share(r.size, total, min_partitions) == 1]
    kept = {r.topic_partition for r in whole}
    total_left = total - sum(r.size for r in whole)
    tasks_left = max(min_partitions - len(whole), 1)
    return [
        part
        for r in pieces
        for part in ([r] if r.topic_partition in kept else divide(r, _share(r.size, total_left, tasks_left)))
    ]


def _share(size: int, total: int, tasks: int) -> int:
    return max(1, int(size / total * tasks + 0.5))  # Java's Math.round: halves go up


def cut(r: OffsetRange, offsets: Iterable[int]) -> list[OffsetRange]:
    """The range cut at those of the (ascending) offsets that lie inside."""
    inner = [offset for offset in offsets if r.start < offset < r.end]
    return [replace(r, start=s, end=e) for s, e in zip([r.start, *inner], [*inner, r.end], strict=True)]


def target_bytes(sizes: Iterable[int], max_bytes: int, cores: int) -> int:
    """How many bytes a task should read: at most `max_bytes`, less where that would leave cores idle."""
    return min(max_bytes, max(PACK_BYTES, -(-sum(sizes) // cores)))


def pack(items: Iterable[T], cost: Callable[[T], int], most: int) -> list[list[T]]:
    """Consecutive items together while they cost no more than `most`."""
    packed: list[list[T]] = []
    filled = 0
    for item in items:
        added = cost(item)
        if not packed or filled + added > most:
            packed.append([])
            filled = 0
        packed[-1].append(item)
        filled += added
    return packed
