"""Describe a partition by its files, its checkpoints and a few of its batch headers."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from native_log.compaction.eligibility import SegmentSizes, cleanable_range
from native_log.log.tiers.tier_of_segments import remote_segments
from native_log.reporting.batches import BatchPass, first_time_ms, last_time_ms
from native_log.reporting.figures import PartitionFigures
from native_log.reporting.transactions import describe_open_transactions, find_open_transactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from native_log.log import PartitionLog
    from native_log.policies import CompactionPolicy
    from native_log.reporting.figures import CodecFigures, OpenTransaction
    from native_log.segment.segment import LogSegment

_INDEXES = 20_000
_TRANSACTION_BYTES, _MIN_TRANSACTION_BYTES = 512 << 20, 64 << 10


def describe_partition(
    log: PartitionLog,
    policy: str | None,
    compaction: CompactionPolicy,
    *,
    lag_end_offset: int,
    limits: Limits | None,
    now_ms: int,
) -> PartitionFigures:
    """Return the figures of a partition.

    Args:
        log: its log.
        policy: the cleanup.policy of the topic; None: unknown.
        compaction: whether and how the topic is compacted.
        lag_end_offset: where the lag of groups ends: see LogDir.lag_end_offset.
        limits: how much of the log to read. Times come from the last entries of time indexes, and from the
            first and the last batch. None: read the headers of all batches.
        now_ms: the time from which ages are measured.

    Raises:
        KafkaLogError, OSError.
    """
    batch_figures = _read_all_batches(log) if limits is None else _read_few_batches(log, limits)
    sizes = tuple([segment.size_bytes for segment in log.segments])
    remote = remote_segments(log.state.source)
    # Most logs have none, and making the path of each segment takes time.
    remote_sizes = [each.size_bytes for each in log.segments if each.path in remote] if remote else []
    figures = PartitionFigures(
        topic=log.topic,
        partition=log.partition,
        log_dir=os.path.dirname(log.path),  # noqa: PTH120 (a hot path of strings)
        log_start_offset=log.log_start_offset,
        local_log_start_offset=log.local_log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=log.checkpointed_high_watermark,
        lag_end_offset=lag_end_offset,
        size_bytes=sum(sizes),
        segment_sizes=sizes,
        remote_segments=len(remote_sizes),
        remote_bytes=sum(remote_sizes),
        policy=policy,
        missing_start=log.missing_start,
        missing_end=log.missing_end,
        missing_segments=log.missing_segments,
        **batch_figures,
    )
    return figures if compaction.skipped is not None else _with_dirty_ratio(log, figures, compaction, now_ms)


class _BatchFigures(TypedDict):
    """The figures that come from batches: see PartitionFigures."""

    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    segment_times_ms: tuple[int | None, ...]
    unread_indexes: int
    open_transactions: tuple[OpenTransaction, ...] | None
    codecs: Mapping[str, CodecFigures] | None
    damaged_ranges: int | None


def _read_all_batches(log: PartitionLog) -> _BatchFigures:
    batches = BatchPass.over(log)
    return {
        "first_timestamp_ms": batches.first_timestamp_ms,
        "last_timestamp_ms": batches.last_timestamp_ms,
        "segment_times_ms": tuple(
            batches.largest_timestamps.get(segment.base_offset) for segment in log.segments
        ),
        "unread_indexes": 0,
        "open_transactions": describe_open_transactions(log, batches.undecided),
        "codecs": batches.codecs,
        "damaged_ranges": batches.damaged_ranges,
    }


def _read_few_batches(log: PartitionLog, limits: Limits) -> _BatchFigures:
    last = last_time_ms(log)
    chosen = every_nth(len(log.segments), limits.indexes)
    times: list[int | None] = [None] * len(log.segments)
    for index in chosen[:-1]:
        times[index] = _largest_timestamp_ms(log.segments[index])
    if times:
        times[-1] = _active_segment_time_ms(log, last)
    return {
        "first_timestamp_ms": first_time_ms(log),
        "last_timestamp_ms": last,
        "segment_times_ms": tuple(with_next_times(times)),
        "unread_indexes": len(times) - len(chosen),
        "open_transactions": find_open_transactions(log, limits.transaction_bytes),
        "codecs": None,
        "damaged_ranges": None,
    }


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of one partition to read, so that many partitions take seconds.

    Attributes:
        indexes: the number of time indexes.
        transaction_bytes: the size of an active segment that is read to find open transactions.
    """

    indexes: int
    transaction_bytes: int

    @classmethod
    def for_partitions(cls, partitions: int) -> Self:
        """Divide the effort among this number of partitions."""
        share = max(1, partitions)
        return cls(max(2, _INDEXES // share), max(_MIN_TRANSACTION_BYTES, _TRANSACTION_BYTES // share))


def every_nth(count: int, at_most: int) -> range:
    """Return at most `at_most` indexes below `count`, at equal distances. The last one is `count` - 1."""
    step = -(-count // at_most) or 1
    return range((count - 1) % step, count, step)


def with_next_times(times: Sequence[int | None]) -> list[int | None]:
    """Replace each unknown time by the next one that is known."""
    known: list[int | None] = []
    following = None
    for time in reversed(times):
        following = following if time is None else time
        known.append(following)
    return known[::-1]


def _active_segment_time_ms(log: PartitionLog, last_timestamp_ms: int | None) -> int | None:
    """Return the largest timestamp of the active segment. Its time index ends before the last batch."""
    known = log.state.tail.segment_timestamp_ms
    if known is not None:
        return known if known >= 0 else None
    indexed = _largest_timestamp_ms(log.segments[-1])
    return indexed if last_timestamp_ms is None else max(last_timestamp_ms, indexed or last_timestamp_ms)


def _largest_timestamp_ms(segment: LogSegment) -> int | None:
    """Return the timestamp of the last entry in the time index, if it is plausible."""
    entry = segment.last_time_entry()
    if entry is None or entry[0] < 0 or not segment.base_offset <= entry[1] < segment.end_offset:
        return None
    return entry[0]


def _with_dirty_ratio(
    log: PartitionLog, figures: PartitionFigures, policy: CompactionPolicy, now_ms: int
) -> PartitionFigures:
    sizes = [SegmentSizes(segment.base_offset, segment.size_bytes) for segment in log.segments]
    if not sizes:
        return replace(figures, is_compacted=True)
    config = policy.config
    largest = [
        segment.mtime_ms if time_ms is None else time_ms
        for segment, time_ms in zip(log.segments, figures.segment_times_ms, strict=True)
    ]
    undecided = [transaction.first_offset for transaction in figures.open_transactions or ()]
    cleanable = cleanable_range(
        sizes,
        checkpoint=log.checkpoints.first_dirty_offset,
        log_start_offset=log.local_log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=min([log.high_watermark, *undecided]),
        config=config,
        now_ms=now_ms,
        largest_timestamp_ms=largest.__getitem__,
        first_timestamp_ms=lambda index: first_time_ms(log, index) or -1,
    )
    return replace(
        figures,
        is_compacted=True,
        dirty_ratio=cleanable.dirty_ratio,
        is_cleanable=cleanable.is_candidate(config),
        cleanable_since_ms=_time_of(figures, sizes, cleanable.first_dirty_offset)
        if cleanable.cleanable_bytes
        else None,
    )


def _time_of(figures: PartitionFigures, sizes: Sequence[SegmentSizes], offset: int) -> int | None:
    """Return the largest timestamp of the segment with `offset`."""
    index = max(0, bisect_right([size.base_offset for size in sizes], offset) - 1)
    return figures.segment_times_ms[index]
