"""What retention would delete."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from native_log.policies import COMPACTED, POLICY, REMOTE
from native_log.reporting.layout import Bars, Section, Series
from native_log.reporting.sections.top_items import top_bars, top_table
from native_log.reporting.text import count, number, percent
from native_log.retention.decisions import START_OFFSET
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.reporting.figures import ReportFigures, RetentionFigures
    from native_log.reporting.layout import Table

_TITLE = "Retention"
_KEPT = {
    COMPACTED: ("compacted topic", None),
    POLICY: ("topic without known retention settings", "topics without known retention settings"),
    REMOTE: ("topic with tiered storage", "topics with tiered storage"),
}
"""What the topics are, in words, from which size and time delete nothing."""

_RULES = {START_OFFSET: "log start offset"}


def retention_section(figures: ReportFigures) -> Section:
    if figures.retention is None:
        return _section("Not examined. Use --retention or --full to see what retention would delete.")
    paragraphs = [
        (
            "This is a dry run with the stored settings of topics, at the time of this report. Retention "
            "deletes the oldest segments of a partition: those below the log start offset, those that exceed "
            "retention.bytes, and those whose newest record is older than retention.ms."
        )
    ]
    kept = Counter(topic.kept_by for topic in figures.retention if topic.kept_by is not None)
    if kept:
        kinds = ", ".join(count(kept[rule], *words) for rule, words in _KEPT.items() if kept[rule])
        paragraphs.append(f"Not examined by size and time: {kinds}.")
    if kept[POLICY]:
        paragraphs.append(
            "The defaults in a broker's server.properties are not in its log directories. To see what they "
            "would delete, give them to kafkalog retain --dry-run with --conf."
        )
    deleted = sorted(
        (topic for topic in figures.retention if topic.segments),
        key=lambda topic: (-topic.size_bytes, topic.topic),
    )
    if not deleted:
        return _section(*paragraphs, "Nothing would be deleted.")
    sizes: Counter[str] = Counter()
    for partition in figures.partitions:
        sizes[partition.topic] += partition.size_bytes
    return Section("retention", _TITLE, tuple(paragraphs), (_chart(deleted, sizes), _table(deleted, sizes)))


def _section(*paragraphs: str) -> Section:
    return Section("retention", _TITLE, paragraphs)


def _chart(topics: Sequence[RetentionFigures], sizes: Mapping[str, int]) -> Bars:
    shown, labels = top_bars(topics, lambda topic: topic.topic)
    return Bars(
        "What retention would keep and delete",
        labels,
        (
            Series("kept", tuple(max(0, sizes[topic.topic] - topic.size_bytes) for topic in shown)),
            Series("deleted", tuple(topic.size_bytes for topic in shown)),
        ),
        "bytes",
    )


def _table(topics: Sequence[RetentionFigures], sizes: Mapping[str, int]) -> Table:
    total = sum(topic.size_bytes for topic in topics)
    segments = sum(topic.segments for topic in topics)
    return top_table(
        f"Dry run: {format_size(total)} in {count(segments, 'segment')} of {count(len(topics), 'topic')} "
        "would be deleted",
        ("Topic", "Partitions", "Segments", "Deleted", "Share of topic", "Because of"),
        topics,
        lambda topic: (
            topic.topic,
            number(topic.partitions),
            number(topic.segments),
            format_size(topic.size_bytes),
            percent(topic.size_bytes, sizes[topic.topic]),
            ", ".join(_RULES.get(rule, rule) for rule in sorted(topic.rules)),
        ),
        numbers={1, 2, 3, 4},
        noun="topic",
    )
