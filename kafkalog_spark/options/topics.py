"""Which topics and partitions a read is about: `subscribe`, `subscribePattern`, `assign`, or all. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.options.offset_json import TopicPartition
from native_log.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class AllTopics:
    """No topic option: every topic, internal ones only with includeInternal."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of the topics named, internal ones too."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose name the pattern is found, anywhere in it."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Assign:
    """The partitions named, as far as they exist; their topics must."""

    partitions: frozenset[TopicPartition]


Selection = AllTopics | Subscribe | SubscribePattern | Assign


def assigned_partitions(
    selection: Selection,
    topics: Mapping[str, Collection[int]],
    internal_topics: Collection[str],
    *,
    include_internal: bool = False,
    path: str | None = None,
) -> list[TopicPartition]:
    """The partitions to read, sorted. Raises UnknownTopicOrPartitionError for a topic that is not there."""
    if isinstance(selection, Assign):
        _check_known({tp.topic for tp in selection.partitions}, topics, path)
        return sorted(tp for tp in selection.partitions if tp.partition in topics[tp.topic])
    if isinstance(selection, Subscribe):
        _check_known(selection.topics, topics, path)
        chosen: Collection[str] = selection.topics
    else:
        chosen = [
            topic
            for topic in topics
            if (include_internal or topic not in internal_topics)
            and (isinstance(selection, AllTopics) or selection.pattern.search(topic))
        ]
    return sorted(TopicPartition(topic, partition) for topic in chosen for partition in topics[topic])


def _check_known(named: Collection[str], topics: Collection[str], path: str | None) -> None:
    unknown = sorted(set(named) - set(topics))
    if unknown:
        there = sorted(topics)
        more = f" and {len(there) - 20} more" if len(there) > 20 else ""
        raise UnknownTopicOrPartitionError(
            f"unknown topic {', '.join(map(repr, unknown))}: expected one of those in the log directory: "
            f"{', '.join(there[:20]) or '(none)'}{more}",
            path=path,
        )
