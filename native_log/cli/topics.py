"""Which partitions a command works on."""

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
    """The partitions of these topics, by default of all, less those excluded.

    Args:
        internal: whether "all" includes Kafka's internal topics. A partition directory that was given by its
            own path is always included.

    Raises UnknownTopicOrPartitionError: a topic that is not there, or none is left.
    """
    for topic in sorted({*topics, *exclude_topics} - log_dir.topics().keys()):
        log_dir.partition(topic, 0)  # raises, with what is there

    def is_chosen(one: PartitionDir) -> bool:
        if topics or one.topic in exclude_topics:
            return one.topic in topics and one.topic not in exclude_topics
        return internal or one.topic not in INTERNAL_TOPICS or one.path in log_dir.paths

    found = [one for one in log_dir.partitions() if is_chosen(one)]
    if not found and log_dir.topics():
        there = ", ".join(log_dir.topics())
        raise UnknownTopicOrPartitionError(
            "expected a topic that is not excluded"
            if exclude_topics
            else f"there are internal topics only ({there}): name one with --topic"
        )
    return found


def with_numbers(partitions: list[PartitionDir], numbers: Iterable[range]) -> list[PartitionDir]:
    """Those whose number is in one of the ranges; all if there is no range.

    Raises UnknownTopicOrPartitionError: a range without any partition.
    """
    ranges = list(numbers)
    there = sorted({one.partition for one in partitions})
    for one in ranges:
        if not any(number in one for number in there):
            wanted = str(one.start) if len(one) == 1 else f"{one.start} to {one.stop - 1}"
            raise UnknownTopicOrPartitionError(
                f"no partition {wanted} of {', '.join(sorted({one.topic for one in partitions}))}; "
                f"there are {', '.join(map(str, there))}"
            )
    return [one for one in partitions if not ranges or any(one.partition in r for r in ranges)]
