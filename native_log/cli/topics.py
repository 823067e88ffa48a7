"""Select the partitions that a command processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.errors import UnknownTopicOrPartitionError
from native_log.logdir import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from native_log.logdir import LogDir, PartitionDir


def select_partitions(
    log_dir: LogDir, topics: Collection[str], exclude_topics: Collection[str] = (), *, internal: bool = True
) -> list[PartitionDir]:
    """Return the partitions of these topics, or of all topics, without excluded ones.

    Args:
        internal: whether all topics include Kafka's internal ones. A partition directory that was given by
            its own path is always included.

    Raises:
        UnknownTopicOrPartitionError: a topic does not exist, or no topic is left.
    """
    for topic in sorted({*topics, *exclude_topics} - log_dir.topics().keys()):
        log_dir.partition(topic, 0)  # raises an error that lists the topics

    selected = [
        partition
        for partition in log_dir.partitions()
        if is_selected(
            partition.topic, topics, exclude_topics, internal=internal or partition.path in log_dir.paths
        )
    ]
    if not selected and log_dir.topics():
        existing = ", ".join(log_dir.topics())
        raise UnknownTopicOrPartitionError(
            "expected a topic that is not excluded, found none"
            if exclude_topics
            else f"expected a topic that is not internal, found only {existing}; name one with --topic"
        )
    return selected


def is_selected(
    topic: str, topics: Collection[str], exclude_topics: Collection[str], *, internal: bool
) -> bool:
    """Return whether a topic is one of these, or of all topics, and not excluded.

    Args:
        internal: whether all topics include Kafka's internal ones.
    """
    if topics or topic in exclude_topics:
        return topic in topics and topic not in exclude_topics
    return internal or topic not in INTERNAL_TOPICS


def filter_by_number(partitions: list[PartitionDir], numbers: Iterable[range]) -> list[PartitionDir]:
    """Return the partitions whose number is in one of the ranges; all partitions if there is no range.

    Raises:
        UnknownTopicOrPartitionError: a range contains no partition.
    """
    ranges = list(numbers)
    existing = sorted({partition.partition for partition in partitions})
    for allowed in ranges:
        if not any(number in allowed for number in existing):
            text = str(allowed.start) if len(allowed) == 1 else f"{allowed.start} to {allowed.stop - 1}"
            topics = ", ".join(sorted({partition.topic for partition in partitions}))
            raise UnknownTopicOrPartitionError(
                f"expected a partition {text} of {topics}, found {', '.join(map(str, existing))}"
            )
    return [
        partition
        for partition in partitions
        if not ranges or any(partition.partition in numbers for numbers in ranges)
    ]
