"""Where a read starts and ends: what the starting and ending options resolve to.

Pure: what a log holds, and how a time is looked up in it, come in as values and as a function. Behaviour and
conditions are those of Spark's kafka source (KafkaSourceProvider, KafkaOffsetReaderAdmin, KafkaSourceRDD,
KafkaDataConsumer); the names in capitals are the conditions under which it reports the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kafkalog_spark.errors import DataLossError, OptionError
from kafkalog_spark.options.offset_json import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

LATEST = -1
"""The log's end, in offsets JSON and in place of a timestamp."""
EARLIEST = -2
"""The log's start, likewise."""
MAX_TIMESTAMP = -3
"""In place of a timestamp: the record with the greatest one."""
EARLIEST_LOCAL = -4
"""In place of a timestamp: what a broker still holds itself, so the log's start."""
LATEST_TIERED = -5
"""In place of a timestamp: what a broker holds in remote storage, so nothing."""

Strategy = Literal["error", "latest"]
"""What to do where no record is at or after a starting timestamp."""

logger = logging.getLogger("kafkalog")


@dataclass(frozen=True, slots=True)
class Earliest:
    """The log start offset of every partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of every partition: its high watermark, or with read_committed its last stable offset."""


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
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

    def clamped(self, available: OffsetRange) -> OffsetRange:
        """The part of the range that the log holds; empty if there is none."""
        start = min(max(self.start, available.start), max(available.end, available.start))
        return OffsetRange(self.topic, self.partition, start, max(start, min(self.end, available.end)))


def check_batch_limits(start: Limit, end: Limit) -> None:
    """Refuses limits that a batch read cannot have, before any log is looked at. Raises OptionError."""
    if isinstance(start, Latest):
        raise OptionError(
            "startingOffsets: a batch query cannot start at latest: nothing would be left to read"
        )
    if isinstance(end, Earliest):
        raise OptionError(
            "endingOffsets: a batch query cannot end at earliest: nothing would be left to read"
        )
    if isinstance(start, SpecificOffsets):
        _check_specific("startingOffsets", start, {LATEST: "latest (-1)"}, EARLIEST)
    if isinstance(end, SpecificOffsets):
        _check_specific("endingOffsets", end, {EARLIEST: "earliest (-2)"}, LATEST)
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


def _check_specific(option: str, limit: SpecificOffsets, refused: Mapping[int, str], special: int) -> None:
    for partition, offset in limit.offsets.items():
        if offset in refused:
            raise OptionError(f"{option}: {partition} cannot be {refused[offset]} in a batch query")
        if offset < 0 and offset != special:
            raise OptionError(
                f"{option}: {partition} has {offset}; expected an offset of 0 or more, or {special} "
                f"({'earliest' if special == EARLIEST else 'latest'})"
            )


def _check_pair(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], what: str) -> None:
    if start.keys() != end.keys():
        raise OptionError(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: the starting and the ending "
            "option must name the same topic-partitions; "
            f"only one of them names {_names(start.keys() ^ end.keys())}"
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
    offset_for_timestamp: Callable[[TopicPartition, int], int | None],
) -> list[OffsetRange]:
    """The offsets asked for of each partition in `available` (what the logs hold), in its order.

    Raises OptionError where the options do not name just these partitions, or where no record is at or after
    a starting timestamp and the strategy is "error".
    """
    starts = _offsets(start, strategy, available, offset_for_timestamp, starting=True)
    ends = _offsets(end, strategy, available, offset_for_timestamp, starting=False)
    return [OffsetRange(*tp, starts[tp], ends[tp]) for tp in available]


def _offsets(
    limit: Limit,
    strategy: Strategy,
    available: Mapping[TopicPartition, OffsetRange],
    offset_for_timestamp: Callable[[TopicPartition, int], int | None],
    *,
    starting: bool,
) -> dict[TopicPartition, int]:
    match limit:
        case Earliest():
            return {tp: held.start for tp, held in available.items()}
        case Latest():
            return {tp: held.end for tp, held in available.items()}
        case SpecificOffsets(offsets):
            _check_assigned(offsets.keys(), available.keys(), starting, "offset")
            return {tp: _bound(offsets[tp], held) for tp, held in available.items()}
        case GlobalTimestamp(timestamp_ms):
            times: Mapping[TopicPartition, int] = dict.fromkeys(available, timestamp_ms)
        case SpecificTimestamps(timestamps_ms):
            _check_assigned(timestamps_ms.keys(), available.keys(), starting, "timestamp offset")
            times = timestamps_ms
    found = {}
    for tp, held in available.items():
        offset = _offset_at(tp, times[tp], held, offset_for_timestamp)
        if offset is None and starting and strategy == "error":
            raise OptionError(
                f"No offset matched for {tp} and timestamp {times[tp]}: no record is at or after that time; "
                "with startingOffsetsByTimestampStrategy=latest such a partition is read from its end on"
            )
        found[tp] = held.end if offset is None else offset
    return found


def _bound(offset: int, held: OffsetRange) -> int:
    return {EARLIEST: held.start, LATEST: held.end}.get(offset, offset)


def _offset_at(
    tp: TopicPartition,
    timestamp_ms: int,
    held: OffsetRange,
    lookup: Callable[[TopicPartition, int], int | None],
) -> int | None:
    """As a broker's ListOffsets answers, to which some negative timestamps have a meaning of their own."""
    if timestamp_ms == LATEST:
        return held.end
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return held.start
    if timestamp_ms == LATEST_TIERED:
        return None
    return lookup(tp, timestamp_ms)


def _check_assigned(
    named: Collection[TopicPartition], assigned: Collection[TopicPartition], starting: bool, what: str
) -> None:
    if set(named) != set(assigned):
        condition = (
            f"KAFKA_{'START' if starting else 'END'}_OFFSET" if what == "offset" else "KAFKA_TIMESTAMP_OFFSET"
        )
        missing, unknown = set(assigned) - set(named), set(named) - set(assigned)
        details = [f"not named: {_names(missing)}"] if missing else []
        details += [f"named but not read: {_names(unknown)}"] if unknown else []
        raise OptionError(
            f"{condition}_DOES_NOT_MATCH_ASSIGNED: the {'starting' if starting else 'ending'} {what}s "
            f"do not match the partitions that are read ({'; '.join(details)}). Name just these"
        )


def _names(partitions: Collection[TopicPartition], most: int = 10) -> str:
    shown = ", ".join(map(str, sorted(partitions)[:most]))
    return shown if len(partitions) <= most else f"{shown} and {len(partitions) - most} more"


def check_not_reversed(ranges: Collection[OffsetRange]) -> None:
    """Raises OptionError for a range that ends before it starts."""
    for r in ranges:
        if r.start > r.end:
            raise OptionError(
                f"RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: the start offset {r.start} is greater than "
                f"the end offset {r.end} for topic {r.topic} partition {r.partition}"
            )


def starts_at_earliest(asked: OffsetRange, available: OffsetRange, start: Limit) -> bool:
    """Whether a range starts where the log does, and not because that offset was given."""
    is_named = isinstance(start, SpecificOffsets) and start.offsets.get(asked.topic_partition) != EARLIEST
    return asked.start == available.start and not is_named


def check_data_loss(
    asked: OffsetRange,
    available: OffsetRange,
    *,
    fail: bool,
    path: object | None = None,
    reason: str | None = None,
) -> None:
    """Report where the log does not hold all of a range: raise DataLossError if `fail`, else log a warning.

    An empty range loses nothing, wherever it lies; nor do gaps inside the log (compaction, control records).

    Args:
        reason: why the log does not hold what lies before `available`, if that is known.
    """
    if asked.size <= 0 or (asked.start >= available.start and asked.end <= available.end):
        return
    message = (
        f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: offsets [{asked.start}, {asked.end}) of "
        f"{asked.topic_partition} were asked for, the log holds [{available.start}, {available.end}): "
    )
    if reason and asked.start < available.start:
        message += f"{reason}; "
    if fail:
        raise DataLossError(
            message + "the others are out of range. With failOnDataLoss=false what is there is read",
            path=path,
            offset=asked.start if asked.start < available.start else max(asked.start, available.end),
        )
    part = asked.clamped(available)
    logger.warning(
        "%sreading %s, as failOnDataLoss=false says",
        message,
        f"[{part.start}, {part.end})" if part.size else "nothing of it",
    )
