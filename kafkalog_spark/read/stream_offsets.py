"""Offsets of a stream: the next offset to read of each partition, and their JSON (Spark: KafkaSourceOffset).

Spark stores the JSON in the checkpoint and compares it as text. So it has one order: that of topics, then of
partition numbers. The shape is that of the kafka source, and of the option `startingOffsets`.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from kafkalog_spark.options.offset_json import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

Offsets = dict[TopicPartition, int]
"""The next offset to read of each partition."""

OffsetsJson = dict[str, dict[str, int]]
"""{"topic": {"partition": offset}}, in order."""


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Return the offsets in the shape and order in which Spark stores them."""
    tree: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        tree.setdefault(topic, {})[str(partition)] = offset
    return tree


def from_json(tree: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets that `to_json` converted. Raises ValueError, TypeError, AttributeError."""
    return {
        TopicPartition(topic, int(partition)): operator.index(offset)
        for topic, by_partition in tree.items()
        for partition, offset in by_partition.items()
    }
