"""Topic selection: `subscribe`, `subscribePattern`, `assign`, or all topics. Pure."""

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
    """Every topic; internal topics only with includeInternal."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of the named topics, which may be internal."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose name contains a match; internal topics only with includeInternal."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Assign:
    """The named partitions that exist. Their topics must exist."""

    partitions: frozenset[TopicPartition]


Selection = AllTopics | Subscribe | SubscribePattern | Assign


def select_partitions(
    selection: Selection,
    topics: Mapping[str, Collection[int]],
    internal_topics: Collection[str],
    *,
    include_internal: bool = False,
    path: str | None = None,
) -> list[TopicPartition]:
    """Return the partitions to read, sorted.

    Args:
        topics: the partitions of each existing topic.
        path: of the log directories, for the error.

    Raises:
        UnknownTopicOrPartitionError: a named topic does not exist.
    """
    if isinstance(selection, Assign):
        _check_topics({tp.topic for tp in selection.partitions}, topics, path)
        return sorted(tp for tp in selection.partitions if tp.partition in topics[tp.topic])
    if isinstance(selection, Subscribe):
        _check_topics(selection.topics, topics, path)
        selected: Collection[str] = selection.topics
    else:
        selected = [
            topic
            for topic in topics
            if (include_internal or topic not in internal_topics)
            and (isinstance(selection, AllTopics) or selection.pattern.search(topic))
        ]
    return sorted(TopicPartition(topic, partition) for topic in selected for partition in topics[topic])


def _check_topics(named: Collection[str], topics: Collection[str], path: str | None) -> None:
    unknown = sorted(set(named) - set(topics))
    if unknown:
        existing = sorted(topics)
        more = f" and {len(existing) - 20} more" if len(existing) > 20 else ""
        raise UnknownTopicOrPartitionError(
            f"unknown topic {', '.join(map(repr, unknown))}; expected one of the topics in the log "
            f"directory: {', '.join(existing[:20]) or '(none)'}{more}",
            path=path,
        )
