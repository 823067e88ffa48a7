"""Sum the figures of partitions: by topic, by size and over time. These functions are pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.reporting.figures import PartitionFigures

Item = TypeVar("Item")

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_WIDTHS_MS = (
    *(_MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 7 * _DAY, 30 * _DAY, 91 * _DAY, 365 * _DAY),
)
_MAX_BARS = 60
_SIZE_FACTOR = 4
_MAX_FUTURE_MS = _DAY


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """The partitions of one topic.

    Attributes:
        sizes: the sizes of the partitions in bytes, ascending.
        offsets: the number of offsets in the segments that are read.
        remote_segments, remote_bytes: number and size of the segments in remote storage.
        first_timestamp_ms, last_timestamp_ms: the least and the greatest known time; None: unknown.
    """

    topic: str
    sizes: tuple[int, ...]
    offsets: int
    segments: int
    remote_segments: int
    remote_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    policy: str | None

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes)

    @property
    def median_bytes(self) -> float:
        return median(self.sizes)

    @property
    def skew(self) -> float:
        """The largest partition divided by the mean; 1.0 if the topic is empty."""
        return self.sizes[-1] * len(self.sizes) / self.size_bytes if self.size_bytes else 1.0


def by_topic(partitions: Iterable[PartitionFigures]) -> list[TopicSummary]:
    """Return the topics, the largest first."""
    grouped: dict[str, list[PartitionFigures]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition)
    topics = [_summary(topic, members) for topic, members in grouped.items()]
    return sorted(topics, key=lambda topic: (-topic.size_bytes, topic.topic))


def _summary(topic: str, partitions: Sequence[PartitionFigures]) -> TopicSummary:
    first, last = time_range(partitions)
    return TopicSummary(
        topic,
        tuple(sorted(partition.size_bytes for partition in partitions)),
        sum(partition.offsets for partition in partitions),
        sum(len(partition.segment_sizes) for partition in partitions),
        sum(partition.remote_segments for partition in partitions),
        sum(partition.remote_bytes for partition in partitions),
        first,
        last,
        partitions[0].policy,
    )


def time_range(partitions: Iterable[PartitionFigures]) -> tuple[int | None, int | None]:
    """Return the least and the greatest known time of records, in epoch ms."""
    times = [time for partition in partitions for time in partition.known_times_ms]
    return min(times, default=None), max(times, default=None)


def split_top(items: Sequence[Item], at_most: int) -> tuple[Sequence[Item], Sequence[Item]]:
    """Divide items into those that are shown and the others. A single other item is shown, too."""
    shown = len(items) if len(items) <= at_most + 1 else at_most
    return items[:shown], items[shown:]


def size_classes(sizes: Iterable[int]) -> list[tuple[int, int, int]]:
    """Count sizes in classes, each four times as wide as the one before it.

    Returns:
        (lower bound, upper bound exclusive, count) of each class from the smallest to the largest that
        occurs. Size 0 has a class of its own, (0, 1, count).
    """
    present = list(sizes)
    if not present:
        return []
    bounds = [0, 1, 1024]
    while bounds[-1] <= max(present):
        bounds.append(bounds[-1] * _SIZE_FACTOR)
    counts = [0] * (len(bounds) - 1)
    for size in present:
        counts[bisect_right(bounds, size) - 1] += 1
    classes = list(zip(bounds[:-1], bounds[1:], counts, strict=True))
    occurring = [index for index, (_, _, count) in enumerate(classes) if count]
    return classes[occurring[0] : occurring[-1] + 1]


@dataclass(frozen=True, slots=True)
class TimeBins:
    """Bytes of segments by the time of their last record.

    Attributes:
        starts_ms: the beginning of each bin, in epoch ms.
        undated_bytes: the size of segments of unknown time.
        future_bytes: the size of segments that are dated more than a day after the report.
    """

    starts_ms: tuple[int, ...]
    width_ms: int
    sizes: tuple[int, ...]
    undated_bytes: int
    future_bytes: int


def time_bins(partitions: Iterable[PartitionFigures], now_ms: int) -> TimeBins:
    """Distribute the bytes of all segments over time."""
    undated = future = 0
    dated: list[tuple[int, int]] = []
    for partition in partitions:
        for size_bytes, time in zip(partition.segment_sizes, partition.segment_times_ms, strict=True):
            if time is None:
                undated += size_bytes
            elif is_future(time, now_ms):
                future += size_bytes
            elif size_bytes:
                dated.append((time, size_bytes))
    if not dated:
        return TimeBins((), _DAY, (), undated, future)
    first, last = min(dated)[0], max(dated)[0]
    width = _width_ms(first, last)
    start = first // width * width
    sizes = [0] * ((last - start) // width + 1)
    for time, size_bytes in dated:
        sizes[(time - start) // width] += size_bytes
    return TimeBins(
        tuple(start + index * width for index in range(len(sizes))), width, tuple(sizes), undated, future
    )


def is_future(time_ms: int | None, now_ms: int) -> bool:
    """Return whether a time is so long after the report that clocks cannot explain it."""
    return time_ms is not None and time_ms > now_ms + _MAX_FUTURE_MS


def _width_ms(first_ms: int, last_ms: int) -> int:
    """Return a width with which the time range has at most _MAX_BARS bins."""
    fitting = (width for width in _WIDTHS_MS if (last_ms - first_ms) // width + 2 <= _MAX_BARS)
    years = 365 * _DAY
    return next(fitting, years * ((last_ms - first_ms) // years // (_MAX_BARS - 2) + 1))
