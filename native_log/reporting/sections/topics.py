"""The sizes of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.layout import Bars, Section, Series, Table
from native_log.reporting.sections.limits import MAX_ROWS
from native_log.reporting.sections.top_items import top_bars
from native_log.reporting.summaries import by_topic, split_top, time_range
from native_log.reporting.text import count, number, percent, time, with_remote
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import ReportFigures
    from native_log.reporting.summaries import TopicSummary

_HEAD = (
    "Topic",
    "Partitions",
    "Size",
    "Share",
    "Segments",
    "Offsets",
    "First record",
    "Last record",
    "Policy",
)


def topic_section(figures: ReportFigures) -> Section:
    topics = by_topic(figures.partitions)
    if not topics:
        return Section("topics", "Topics by size", ("No partition could be opened.",))
    return Section(
        "topics",
        "Topics by size",
        (
            (
                f"{_basis(topics)} A topic may have fewer records than offsets, because compaction and "
                "transactions leave gaps. Times are UTC."
            ),
        ),
        (_chart(topics), _table(topics, figures)),
    )


def _basis(topics: Sequence[TopicSummary]) -> str:
    if any(topic.remote_segments for topic in topics):
        return (
            "Sizes include .log files but not indexes. Remote segments count at their original size, before "
            "they were compressed or encrypted for remote storage. Offsets include local and remote segments."
        )
    return "Sizes include .log files but not indexes. Offsets include local segments only."


def _chart(topics: Sequence[TopicSummary]) -> Bars:
    shown, labels = top_bars(topics, lambda topic: topic.topic)
    title = "Size by topic"
    if len(shown) < len(topics):
        title = f"The {len(shown)} largest of {count(len(topics), 'topic')}"
    return Bars(title, labels, (Series("size", tuple(topic.size_bytes for topic in shown)),), "bytes")


def _table(topics: Sequence[TopicSummary], figures: ReportFigures) -> Table:
    shown, others = split_top(topics, MAX_ROWS)
    total = sum(topic.size_bytes for topic in topics)
    rows = [_row(topic.topic, [topic], total, topic.policy or "unknown") for topic in shown]
    if others:
        rows.append(_row(f"({count(len(others), 'other topic')})", others, total, ""))
    first, last = time_range(figures.partitions)
    return Table(
        f"Topics: {count(len(topics), 'topic')}, {format_size(total)}, {time(first)} to {time(last)}",
        _HEAD,
        tuple(rows),
        frozenset({1, 2, 3, 4, 5}),
    )


def _row(name: str, topics: Sequence[TopicSummary], total: int, policy: str) -> tuple[str, ...]:
    size_bytes = sum(topic.size_bytes for topic in topics)
    first = [topic.first_timestamp_ms for topic in topics if topic.first_timestamp_ms is not None]
    last = [topic.last_timestamp_ms for topic in topics if topic.last_timestamp_ms is not None]
    return (
        name,
        number(sum(len(topic.sizes) for topic in topics)),
        with_remote(size_bytes, sum(topic.remote_bytes for topic in topics), format_size),
        percent(size_bytes, total),
        with_remote(sum(topic.segments for topic in topics), sum(topic.remote_segments for topic in topics)),
        number(sum(topic.offsets for topic in topics)),
        time(min(first, default=None)),
        time(max(last, default=None)),
        policy,
    )
