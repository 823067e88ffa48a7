"""How dirty compacted topics are, and what a compaction would free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.layout import Bars, Section, Series
from native_log.reporting.sections.top_items import top_bars, top_table
from native_log.reporting.text import count, number, percent
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import CompactionFigures, PartitionFigures, ReportFigures
    from native_log.reporting.layout import Table


def compaction_section(figures: ReportFigures) -> Section:
    compacted = [partition for partition in figures.partitions if partition.is_compacted]
    title = "Compaction and tombstones"
    if not compacted:
        return Section(
            "compaction",
            title,
            (
                (
                    "No topic is known to be compacted. The policy of a topic is in the cluster's "
                    "metadata, which may be in another directory of the broker."
                ),
            ),
        )
    paragraphs = [
        (
            "The dirty ratio is the share of a log's bytes that has not been compacted yet. The active "
            "segment does not count. A broker compacts a log if its ratio is above "
            "min.cleanable.dirty.ratio (0.5 by default)."
        )
    ]
    if figures.compaction is None:
        paragraphs.append(
            "What a compaction would free, and the number of tombstones, were not examined. Use --compaction "
            "or --full."
        )
        return Section("compaction", title, tuple(paragraphs), (_dirty_table(compacted),))
    paragraphs.append(
        "The figures of the dry run cover all logs with dirty records, including those that a broker would "
        "not compact yet. Sizes after compaction are approximate. Tombstones are counted in the segments "
        "that would be rewritten."
    )
    rewritten = sorted(
        (topic for topic in figures.compaction if topic.partitions),
        key=lambda topic: (topic.bytes_after - topic.bytes_before, topic.topic),
    )
    if not rewritten:
        paragraphs.append("The dry run found nothing to compact.")
        return Section("compaction", title, tuple(paragraphs), (_dirty_table(compacted),))
    parts = (_freed_chart(rewritten), _freed_table(rewritten), _dirty_table(compacted))
    return Section("compaction", title, tuple(paragraphs), parts)


def _dirty_table(compacted: Sequence[PartitionFigures]) -> Table:
    topics: dict[str, list[PartitionFigures]] = {}
    for partition in compacted:
        topics.setdefault(partition.topic, []).append(partition)
    ranked = sorted(
        topics.items(), key=lambda entry: (-max(_ratio(partition) for partition in entry[1]), entry[0])
    )
    return top_table(
        "Dirty ratios",
        ("Topic", "Partitions", "Size", "Mean dirty ratio", "Highest", "To be compacted now"),
        ranked,
        lambda entry: _dirty_row(*entry),
        numbers=range(1, 6),
        noun="topic",
    )


def _dirty_row(topic: str, partitions: Sequence[PartitionFigures]) -> tuple[str, ...]:
    return (
        topic,
        number(len(partitions)),
        format_size(sum(partition.size_bytes for partition in partitions)),
        f"{sum(map(_ratio, partitions)) / len(partitions):.2f}",
        f"{max(map(_ratio, partitions)):.2f}",
        number(sum(partition.is_cleanable for partition in partitions)),
    )


def _ratio(partition: PartitionFigures) -> float:
    return partition.dirty_ratio or 0.0


def _freed_chart(topics: Sequence[CompactionFigures]) -> Bars:
    shown, labels = top_bars(topics, lambda topic: topic.topic)
    return Bars(
        "What a compaction would keep and free",
        labels,
        (
            Series("kept", tuple(topic.bytes_after for topic in shown)),
            Series("freed", tuple(max(0, topic.bytes_before - topic.bytes_after) for topic in shown)),
        ),
        "bytes",
    )


def _freed_table(topics: Sequence[CompactionFigures]) -> Table:
    before = sum(topic.bytes_before for topic in topics)
    freed = before - sum(topic.bytes_after for topic in topics)
    return top_table(
        f"Dry run: {format_size(max(0, freed))} of {format_size(before)} would be freed in "
        f"{count(len(topics), 'topic')}",
        ("Topic", "Partitions", "Before", "After", "Freed", "Records before", "After", "Tombstones"),
        topics,
        lambda topic: (
            topic.topic,
            number(topic.partitions),
            format_size(topic.bytes_before),
            format_size(topic.bytes_after),
            percent(max(0, topic.bytes_before - topic.bytes_after), topic.bytes_before),
            number(topic.records_before),
            number(topic.records_after),
            number(topic.tombstones),
        ),
        numbers=range(1, 8),
        noun="topic",
    )
