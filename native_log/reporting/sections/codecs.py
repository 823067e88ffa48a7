"""Codecs, and how well they compress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.codecs import CODECS
from native_log.reporting.figures import CodecFigures
from native_log.reporting.layout import Bars, Section, Series, Table
from native_log.reporting.samples import PARTITIONS_PER_TOPIC, SAMPLE_BYTES
from native_log.reporting.sections.top_items import top_bars, top_table
from native_log.reporting.summaries import by_topic
from native_log.reporting.text import count, number, percent
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from native_log.reporting.figures import ReportFigures

Codecs = dict[str, CodecFigures]


def codec_section(figures: ReportFigures) -> Section:
    samples = figures.samples
    sampled = _by_topic(samples.codecs)
    shares = _all_batches(figures) if figures.extent.batches else sampled
    paragraphs = [
        (
            f"Ratios are from samples of {format_size(samples.bytes_read)}: the first "
            f"{format_size(SAMPLE_BYTES)} of the newest segment with data, in up to {PARTITIONS_PER_TOPIC} "
            "partitions of each topic. A ratio is the size of keys, values and headers divided by the "
            "size of their batches on disk. Uncompressed data has a ratio below 1."
        ),
        "Codecs are from the headers of all batches."
        if figures.extent.batches
        else "Codecs are from the same samples. --batches reads the headers of all batches.",
    ]
    if samples.topics_left_out:
        paragraphs.append(f"No samples were taken of {count(samples.topics_left_out, 'smaller topic')}.")
    if not any(shares.values()):
        return Section("codecs", "Codecs and compression", (*paragraphs, "There are no batches."))
    order = [topic.topic for topic in by_topic(figures.partitions) if shares.get(topic.topic)]
    return Section(
        "codecs",
        "Codecs and compression",
        tuple(paragraphs),
        (_chart(order, shares), _totals(shares, sampled), _topics(order, shares, sampled)),
    )


def _by_topic(codecs: Mapping[tuple[str, str], CodecFigures]) -> dict[str, Codecs]:
    topics: dict[str, Codecs] = {}
    for (topic, codec), figures in codecs.items():
        topics.setdefault(topic, {})[codec] = figures
    return topics


def _all_batches(figures: ReportFigures) -> dict[str, Codecs]:
    topics: dict[str, Codecs] = {}
    for partition in figures.partitions:
        topic = topics.setdefault(partition.topic, {})
        for codec, codec_figures in (partition.codecs or {}).items():
            topic[codec] = topic.get(codec, CodecFigures()) + codec_figures
    return topics


def _present(topics: Mapping[str, Codecs]) -> list[str]:
    """Return the codecs that occur, in the order of their ids. Those of damaged headers come last."""
    names = {codec for codecs in topics.values() for codec in codecs}
    return [*(codec for codec in CODECS if codec in names), *sorted(names.difference(CODECS))]


def _chart(order: list[str], topics: Mapping[str, Codecs]) -> Bars:
    shown, labels = top_bars(order, str)
    totals = {topic: sum(codec.stored_bytes for codec in topics[topic].values()) or 1 for topic in shown}
    return Bars(
        "Share of codecs in the bytes of the largest topics, in percent",
        labels,
        tuple(
            Series(
                codec,
                tuple(
                    100 * topics[topic].get(codec, CodecFigures()).stored_bytes / totals[topic]
                    for topic in shown
                ),
            )
            for codec in _present({topic: topics[topic] for topic in shown})
        ),
        "number",
    )


def _totals(shares: Mapping[str, Codecs], sampled: Mapping[str, Codecs]) -> Table:
    total = sum(codec.stored_bytes for codecs in shares.values() for codec in codecs.values())
    rows = []
    for name in _present(shares):
        figures = sum((codecs.get(name, CodecFigures()) for codecs in shares.values()), CodecFigures())
        samples = sum((codecs.get(name, CodecFigures()) for codecs in sampled.values()), CodecFigures())
        rows.append(
            (
                name,
                number(figures.batches),
                format_size(figures.stored_bytes),
                percent(figures.stored_bytes, total),
                _ratio(samples),
            )
        )
    return Table(
        "Codecs", ("Codec", "Batches", "Size", "Share", "Ratio"), tuple(rows), frozenset({1, 2, 3, 4})
    )


def _topics(order: list[str], shares: Mapping[str, Codecs], sampled: Mapping[str, Codecs]) -> Table:
    def row(topic: str) -> tuple[str, ...]:
        codecs = shares[topic]
        total = sum(codec.stored_bytes for codec in codecs.values())
        batches = sum(codec.batches for codec in codecs.values())
        return (
            topic,
            ", ".join(
                f"{name} {percent(codecs[name].stored_bytes, total)}" for name in CODECS if name in codecs
            ),
            _ratio(sum(sampled.get(topic, {}).values(), CodecFigures())),
            format_size(total // batches) if batches else "–",
        )

    return top_table(
        "Codecs by topic, the largest topics first",
        ("Topic", "Codecs", "Ratio", "Mean batch"),
        order,
        row,
        numbers={2, 3},
        noun="topic",
    )


def _ratio(figures: CodecFigures) -> str:
    return "–" if figures.ratio is None else f"{figures.ratio:.2f}"
