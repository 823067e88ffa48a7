"""The sizes of partitions, and how evenly topics are divided into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.layout import Histogram, Section, SizeRanges
from native_log.reporting.sections.top_items import top_bars, top_table
from native_log.reporting.summaries import by_topic, size_classes
from native_log.reporting.text import count, number, with_remote
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import PartitionFigures, ReportFigures
    from native_log.reporting.layout import Table
    from native_log.reporting.summaries import TopicSummary

_SKEW = "Skew is the size of a topic's largest partition divided by the mean size of its partitions."


def partition_section(figures: ReportFigures) -> Section:
    partitions = figures.partitions
    if not partitions:
        return Section("partitions", "Partitions and skew", ("No partition could be opened.",))
    topics = [topic for topic in by_topic(partitions) if len(topic.sizes) > 1 and topic.size_bytes]
    empty = sum(partition.size_bytes == 0 for partition in partitions)
    return Section(
        "partitions",
        "Partitions and skew",
        (
            *([_SKEW] if topics else ()),
            *([f"{count(empty, 'partition has', 'partitions have')} no data."] if empty else ()),
        ),
        (
            _size_histogram(partitions),
            *([_skew_chart(topics), _skew_table(topics)] if topics else ()),
            _largest(partitions),
        ),
    )


def _size_histogram(partitions: Sequence[PartitionFigures]) -> Histogram:
    classes = size_classes(partition.size_bytes for partition in partitions)
    labels = ("empty" if high == 1 else f"< {format_size(high)}" for _, high, _ in classes)
    counts = tuple(number for *_, number in classes)
    return Histogram("Number of partitions by size", tuple(labels), counts, "partitions")


def _skew_chart(topics: Sequence[TopicSummary]) -> SizeRanges:
    shown, labels = top_bars(topics, lambda topic: topic.topic)
    return SizeRanges(
        "Smallest, median (dot) and largest partition of the largest topics",
        labels,
        tuple((topic.sizes[0], topic.median_bytes, topic.sizes[-1]) for topic in shown),
    )


def _skew_table(topics: Sequence[TopicSummary]) -> Table:
    return top_table(
        "Topics by skew",
        ("Topic", "Partitions", "Smallest", "Median", "Largest", "Skew"),
        sorted(topics, key=lambda topic: (-topic.skew, -topic.size_bytes)),
        lambda topic: (
            topic.topic,
            number(len(topic.sizes)),
            format_size(topic.sizes[0]),
            format_size(round(topic.median_bytes)),
            format_size(topic.sizes[-1]),
            f"{topic.skew:.1f}",
        ),
        numbers=range(1, 6),
        noun="topic",
    )


def _largest(partitions: Sequence[PartitionFigures]) -> Table:
    return top_table(
        "Largest partitions",
        ("Partition", "Size", "Segments", "Start offset", "End offset", "High watermark"),
        sorted(partitions, key=lambda partition: (-partition.size_bytes, partition.name)),
        lambda partition: (
            partition.name,
            format_size(partition.size_bytes),
            with_remote(len(partition.segment_sizes), partition.remote_segments),
            number(partition.local_log_start_offset),
            number(partition.log_end_offset),
            "–" if partition.high_watermark is None else number(partition.high_watermark),
        ),
        numbers=range(1, 6),
        noun="partition",
    )
