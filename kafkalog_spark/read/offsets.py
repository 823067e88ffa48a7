"""Resolve the starting and ending options to offsets.

Nothing here reads a log: callers pass its offsets as values, and a function that looks up times. This module
behaves like Spark's kafka source (KafkaSourceProvider, KafkaOffsetReaderAdmin, KafkaSourceRDD,
KafkaDataConsumer). Names in capitals in messages are Spark's error conditions.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from kafkalog_spark.errors import DataLossError, OptionError
from kafkalog_spark.options.offset_json import TopicPartition
from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    OffsetsForTimes = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]]

LATEST = -1
"""The end of the log, in offsets JSON and as a timestamp."""
EARLIEST = -2
"""The start of the log, in offsets JSON and as a timestamp."""
MAX_TIMESTAMP = -3
"""As a timestamp: the record with the largest timestamp."""
EARLIEST_LOCAL = -4
"""As a timestamp: the first offset in a broker's local segments, here the start of the log."""
LATEST_TIERED = -5
"""As a timestamp: the last offset in remote storage, here no match."""

Strategy = Literal["error", "latest"]
"""What to do if no record is at or after a starting timestamp: raise an error, or start at the end."""

logger = logging.getLogger("kafkalog")


@dataclass(frozen=True, slots=True)
class Earliest:
    """The log start offset of every partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of every partition: the high watermark, or with read_committed the last stable offset."""


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset, EARLIEST or LATEST for each partition."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """The first offset of each partition with at least this timestamp."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """The first offset of each partition with at least the partition's timestamp."""

    timestamps_ms: Mapping[TopicPartition, int]


Limit = Earliest | Latest | SpecificOffsets | GlobalTimestamp | SpecificTimestamps


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start

    def intersection(self, available: OffsetRange) -> OffsetRange:
        """Return the part of the range that is in `available`. It may be empty."""
        start = min(max(self.start, available.start), max(available.end, available.start))
        return OffsetRange(self.topic, self.partition, start, max(start, min(self.end, available.end)))


def check_batch_start(start: Limit) -> None:
    """Raise OptionError for a start that only a stream can have. This needs no log."""
    if isinstance(start, Latest):
        raise OptionError(
            "startingOffsets: a batch query cannot start at latest, because it would read nothing"
        )
    if isinstance(start, SpecificOffsets):
        for partition, offset in start.offsets.items():
            if offset == LATEST:
                raise OptionError(f"startingOffsets: {partition} cannot be latest (-1) in a batch query")


def check_limits(start: Limit, end: Limit) -> None:
    """Raise OptionError for limits that no query can have. This needs no log."""
    if isinstance(end, Earliest):
        raise OptionError(
            "endingOffsets: a batch query cannot end at earliest, because it would read nothing"
        )
    if isinstance(start, SpecificOffsets):
        _check_specific("startingOffsets", start)
    if isinstance(end, SpecificOffsets):
        for partition, offset in end.offsets.items():
            if offset == EARLIEST:
                raise OptionError(f"endingOffsets: {partition} cannot be earliest (-2) in a batch query")
        _check_specific("endingOffsets", end)
    if isinstance(start, SpecificOffsets) and isinstance(end, SpecificOffsets):
        _check_pair(start.offsets, end.offsets, "offset")
    if isinstance(start, SpecificTimestamps) and isinstance(end, SpecificTimestamps):
        _check_pair(start.timestamps_ms, end.timestamps_ms, "timestamp")
    if (
        isinstance(start, GlobalTimestamp)
        and isinstance(end, GlobalTimestamp)
        and 0 <= end.timestamp_ms < start.timestamp_ms
    ):
        raise OptionError(
            "UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP: "
            f"startingTimestamp {start.timestamp_ms} is greater than endingTimestamp {end.timestamp_ms}"
        )


def _check_specific(option: str, limit: SpecificOffsets) -> None:
    for partition, offset in limit.offsets.items():
        if offset < EARLIEST:
            raise OptionError(
                f"{option}: {partition}: expected an offset of at least 0, {LATEST} (latest) or {EARLIEST} "
                f"(earliest), found {offset}"
            )


def _check_pair(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], what: str) -> None:
    if start.keys() != end.keys():
        raise OptionError(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: the starting and the ending "
            "option must name the same partitions; only one of them names "
            f"{partition_names(start.keys() ^ end.keys())}"
        )
    for partition, first in start.items():
        if first >= 0 and end[partition] >= 0 and first > end[partition]:
            raise OptionError(
                f"UNRESOLVED_START_{what.upper()}_GREATER_THAN_END_{what.upper()}: "
                f"the starting {what} {first} is greater than the ending {end[partition]} for {partition}"
            )


def resolve(
    start: Limit,
    end: Limit,
    strategy: Strategy,
    available: Mapping[TopicPartition, OffsetRange],
    offsets_for_times: OffsetsForTimes,
) -> list[OffsetRange]:
    """Return the requested offsets of each partition, in the order of `available`.

    Args:
        strategy: what to do if no record is at or after a starting timestamp.
        available: the offsets that each log holds.
        offsets_for_times: returns the first offset of each partition with at least that timestamp (epoch ms),
            or None.

    Raises:
        OptionError: the options name other partitions than `available`, or no record is at or after a
            starting timestamp and the strategy is "error".
    """
    starts = resolve_starts(start, strategy, available, offsets_for_times)
    ends = _offsets(end, strategy, available, offsets_for_times, starting=False)
    return [OffsetRange(*tp, starts[tp], ends[tp]) for tp in available]


def resolve_starts(
    start: Limit,
    strategy: Strategy,
    available: Mapping[TopicPartition, OffsetRange],
    offsets_for_times: OffsetsForTimes,
) -> dict[TopicPartition, int]:
    """Return the starting offset of each partition. Arguments and errors are as for resolve."""
    return _offsets(start, strategy, available, offsets_for_times, starting=True)


def _offsets(
    limit: Limit,
    strategy: Strategy,
    available: Mapping[TopicPartition, OffsetRange],
    offsets_for_times: OffsetsForTimes,
    *,
    starting: bool,
) -> dict[TopicPartition, int]:
    match limit:
        case Earliest():
            return {tp: held.start for tp, held in available.items()}
        case Latest():
            return {tp: held.end for tp, held in available.items()}
        case SpecificOffsets(offsets):
            _check_partitions(offsets.keys(), available.keys(), starting, "offset")
            return {tp: _resolve_special(offsets[tp], held) for tp, held in available.items()}
        case GlobalTimestamp(timestamp_ms):
            times: Mapping[TopicPartition, int] = dict.fromkeys(available, timestamp_ms)
        case SpecificTimestamps(timestamps_ms):
            _check_partitions(timestamps_ms.keys(), available.keys(), starting, "timestamp offset")
            times = timestamps_ms
    offsets_by_time = {}
    for tp, offset in _offsets_at(times, available, offsets_for_times).items():
        if offset is None and starting and strategy == "error":
            raise OptionError(
                f"No offset matched for {tp} and timestamp {times[tp]}: no record has that time or a "
                "later one; set startingOffsetsByTimestampStrategy=latest to start there at the end"
            )
        offsets_by_time[tp] = available[tp].end if offset is None else offset
    return offsets_by_time


def _resolve_special(offset: int, held: OffsetRange) -> int:
    return {EARLIEST: held.start, LATEST: held.end}.get(offset, offset)


def _offsets_at(
    times_ms: Mapping[TopicPartition, int],
    available: Mapping[TopicPartition, OffsetRange],
    offsets_for_times: OffsetsForTimes,
) -> dict[TopicPartition, int | None]:
    """Return what a broker's ListOffsets returns. Some negative timestamps have a special meaning there."""
    offsets: dict[TopicPartition, int | None] = {}
    to_find = {}
    for tp, held in available.items():
        special = {LATEST: held.end, EARLIEST: held.start, EARLIEST_LOCAL: held.start, LATEST_TIERED: None}
        if times_ms[tp] in special:
            offsets[tp] = special[times_ms[tp]]
        else:
            to_find[tp] = times_ms[tp]
    offsets |= offsets_for_times(to_find)
    return {tp: offsets[tp] for tp in available}


def _check_partitions(
    named: Collection[TopicPartition], assigned: Collection[TopicPartition], starting: bool, what: str
) -> None:
    if set(named) != set(assigned):
        condition = (
            f"KAFKA_{'START' if starting else 'END'}_OFFSET" if what == "offset" else "KAFKA_TIMESTAMP_OFFSET"
        )
        missing, unknown = set(assigned) - set(named), set(named) - set(assigned)
        details = [f"missing: {partition_names(missing)}"] if missing else []
        details += [f"not read: {partition_names(unknown)}"] if unknown else []
        raise OptionError(
            f"{condition}_DOES_NOT_MATCH_ASSIGNED: the {'starting' if starting else 'ending'} {what}s "
            f"do not match the partitions that are read ({'; '.join(details)}); name exactly these partitions"
        )


def partition_names(partitions: Collection[TopicPartition], max_names: int = 10) -> str:
    """Join the names with commas. If there are more than `max_names`, give the number of the others."""
    shown = ", ".join(map(str, sorted(partitions)[:max_names]))
    return shown if len(partitions) <= max_names else f"{shown} and {len(partitions) - max_names} more"


def as_requested(resolved: OffsetRange, start: Limit, end: Limit) -> OffsetRange:
    """Return a range as it was requested, with EARLIEST and LATEST in place of the ends of its log.

    Timestamps stay offsets. In this form, Spark decides whether to divide ranges.
    """

    def bound(limit: Limit, offset: int) -> int:
        match limit:
            case Earliest():
                return EARLIEST
            case Latest():
                return LATEST
            case SpecificOffsets(offsets):
                return offsets[resolved.topic_partition]
        return offset

    return replace(resolved, start=bound(start, resolved.start), end=bound(end, resolved.end))


def check_not_reversed(ranges: Iterable[OffsetRange]) -> None:
    """Raise OptionError for a range that ends before it starts."""
    for r in ranges:
        if r.start > r.end:
            raise OptionError(
                f"RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: the start offset {r.start} is greater than "
                f"the end offset {r.end} for topic {r.topic} partition {r.partition}"
            )


def starts_at_earliest(requested: OffsetRange, available: OffsetRange, start: Limit) -> bool:
    """Return whether a range starts at the start of the log, unless the user named that offset."""
    is_named = isinstance(start, SpecificOffsets) and start.offsets.get(requested.topic_partition) != EARLIEST
    return requested.start == available.start and not is_named


def check_data_loss(
    requested: OffsetRange,
    available: OffsetRange,
    *,
    fail: bool,
    path: object | None = None,
    reason: str | None = None,
) -> None:
    """Raise DataLossError, or log a warning, if the log does not hold all offsets of a range.

    An empty range loses nothing, even outside the log. Gaps inside the log are not data loss: compaction
    and control records leave them.

    Args:
        fail: whether to raise DataLossError; otherwise log a warning.
        path: of the partition, for the error.
        reason: why the log does not hold the offsets before `available`, if that is known.
    """
    if requested.size <= 0 or (requested.start >= available.start and requested.end <= available.end):
        return
    message = (
        f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: expected offsets [{requested.start}, {requested.end}) "
        f"of {requested.topic_partition}, but the log holds [{available.start}, {available.end}): "
    )
    if reason and requested.start < available.start:
        message += f"{reason}; "
    if fail:
        raise DataLossError(
            message + "other offsets are out of range; set failOnDataLoss=false to read what the log holds",
            path=path,
            offset=requested.start
            if requested.start < available.start
            else max(requested.start, available.end),
        )
    part = requested.intersection(available)
    logger.warning(
        "%s%s lost; reading %s, because failOnDataLoss=false",
        message,
        format_count(requested.size - part.size, "offset"),
        f"[{part.start}, {part.end})" if part.size else "none of them",
    )
