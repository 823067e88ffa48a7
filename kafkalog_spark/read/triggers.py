"""Decide how far a trigger reads (Spark: KafkaMicroBatchStream.rateLimit, delayBatch).

Only `first_batches` of a backlog reads anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from native_log.prefetch import look_up_together

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.read.stream_offsets import Offsets

_MAX_LONG = 2**63 - 1


class Backlog(Protocol):
    """What a partition has to read: a LogRange."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def first_batches(self, max_bytes: int) -> Self: ...


def limit_offsets(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_offsets: int
) -> Offsets:
    """Return the ends of a trigger that reads about `max_offsets` offsets in total.

    Each partition gets a part in proportion to its backlog, and at least one offset, so the total may differ
    from the limit. Offsets are counted, not records.

    Args:
        starts: where each partition of `ends` is read from.
        ends: the offsets that are available, exclusive.
    """
    sizes = backlogs(starts, ends)
    total = float(sum(sizes.values()))
    if total < 1:
        return dict(ends)
    limited = dict(ends)
    for tp, size in sizes.items():
        share = max_offsets * (size / total)  # in this order, because Spark rounds so
        count = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = min(ends[tp], starts[tp] + min(count, _MAX_LONG))
    return limited


def limit_bytes(
    ranges: Mapping[TopicPartition, Backlog], max_bytes: int, *, are_local: bool = True
) -> Offsets:
    """Return the ends of a trigger that reads at most `max_bytes` of the logs, in whole batches.

    Each partition gets a part in proportion to the size of its backlog. Partitions whose part is less than a
    batch get one batch as long as bytes are left. If no batch fits, the trigger reads a single one.

    Args:
        ranges: what each partition has to read. Empty backlogs are allowed.
        max_bytes: the limit.
        are_local: whether all logs are on local disks.

    Returns:
        The end offset of each partition in `ranges`, exclusive.
    """
    total = sum(backlog.size_bytes for backlog in ranges.values())
    if total <= max_bytes:
        return {tp: backlog.end_offset for tp, backlog in ranges.items()}
    ends = {tp: backlog.start_offset for tp, backlog in ranges.items()}
    shares = {tp: max_bytes * backlog.size_bytes // total for tp, backlog in ranges.items()}
    parts = look_up_together(lambda tp: ranges[tp].first_batches(shares[tp]), ranges, are_local=are_local)
    left = max_bytes
    waiting = []
    for tp, part in parts.items():
        if part.size_bytes <= shares[tp]:
            ends[tp] = part.end_offset
            left -= part.size_bytes
        else:
            waiting.append((part.size_bytes, tp, part.end_offset))
    is_empty = left == max_bytes
    for size_bytes, tp, end in sorted(waiting):
        if size_bytes <= left or is_empty:
            ends[tp] = end
            left -= size_bytes
            is_empty = False
    return ends


def delays_trigger(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], min_offsets: int
) -> bool:
    """Return whether a trigger waits, because fewer than `min_offsets` offsets are new.

    The offsets of new partitions are counted from 0, as in Spark.
    """
    return sum(end - starts.get(tp, 0) for tp, end in ends.items()) < min_offsets


def backlogs(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Return the number of offsets to read of each partition in both that has any."""
    return {tp: end - starts[tp] for tp, end in ends.items() if tp in starts and end > starts[tp]}
