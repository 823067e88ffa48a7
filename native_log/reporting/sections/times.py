"""The time that the data covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.layout import Section, Table, TimeHistogram, TimeRanges
from native_log.reporting.sections.limits import MAX_ROWS
from native_log.reporting.sections.top_items import top_bars
from native_log.reporting.summaries import by_topic, is_future, split_top, time_bins
from native_log.reporting.text import count, duration, percent, time
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import ReportFigures
    from native_log.reporting.summaries import TimeBins, TopicSummary


def time_section(figures: ReportFigures) -> Section:
    bins = time_bins(figures.partitions, figures.created_ms)
    source = "all batch headers" if figures.extent.batches else "the last entries of time indexes"
    paragraphs = [
        (
            f"The size of each segment counts at the time of its newest record, taken from {source}. Times "
            "are UTC. With message.timestamp.type=CreateTime, they are from the clocks of producers."
        )
    ]
    unread = sum(partition.unread_indexes for partition in figures.partitions)
    if unread:
        paragraphs.append(
            f"The time indexes of {count(unread, 'segment')} were not read. These segments count at the time "
            "of the next segment of their partition. --batches reads the times of all segments."
        )
    if bins.undated_bytes:
        paragraphs.append(f"{format_size(bins.undated_bytes)} are in segments of unknown time.")
    if bins.future_bytes:
        paragraphs.append(f"{format_size(bins.future_bytes)} are dated in the future and not in the charts.")
    if not bins.sizes:
        return Section("time", "Time covered", (*paragraphs, "No segment has a known time."))
    topics = [
        topic
        for topic in by_topic(figures.partitions)
        if topic.first_timestamp_ms is not None
        and topic.last_timestamp_ms is not None
        and not is_future(topic.last_timestamp_ms, figures.created_ms)
    ]
    return Section(
        "time",
        "Time covered",
        tuple(paragraphs),
        (
            TimeHistogram(
                f"Size of segments by the time of their newest record, in steps of {duration(bins.width_ms)}",
                bins.starts_ms,
                bins.width_ms,
                bins.sizes,
            ),
            _largest_bins(bins),
            _ranges(topics),
        ),
    )


def _largest_bins(bins: TimeBins) -> Table:
    """Return the largest bins in the order of time. The topics' times are in the table of topics."""
    occupied = [(size, start) for start, size in zip(bins.starts_ms, bins.sizes, strict=True) if size]
    shown, others = split_top(sorted(occupied, reverse=True), MAX_ROWS)
    note = f"The largest of {count(len(occupied), 'step')} with data." if others else ""
    total = sum(bins.sizes)
    return Table(
        "Segments over time",
        ("From", "To", "Size", "Share"),
        tuple(
            (time(start), time(start + bins.width_ms), format_size(size), percent(size, total))
            for size, start in sorted(shown, key=lambda entry: entry[1])
        ),
        frozenset({2, 3}),
        note,
    )


def _ranges(topics: Sequence[TopicSummary]) -> TimeRanges:
    shown, labels = top_bars(topics, lambda topic: topic.topic)
    return TimeRanges(
        "First to last record of the largest topics",
        labels,
        tuple((topic.first_timestamp_ms or 0, topic.last_timestamp_ms or 0) for topic in shown),
    )
