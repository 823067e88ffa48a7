"""Names of topics and of partition directories (Kafka: Topic, UnifiedLog.parseTopicPartitionName)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

METADATA_TOPIC = "__cluster_metadata"
"""The log of KRaft's quorum."""

INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", METADATA_TOPIC}
)
"""Topics that Kafka keeps for itself: read only when they are named."""

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
"""Where the segments in remote storage are recorded. Its records have no keys."""

BROKER_TOPICS = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}
"""Topics in which brokers keep their state: changed only when they are named. (To Kafka's consumers, the last
one is a topic like any other.)"""

MAX_NAME_LENGTH = 255
"""Of a directory's name: a broker cuts the topic in it so that the name is not longer."""

_MAX_INT = 2**31 - 1
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# The broker recognises the three suffixes first, and only then strips from the last dot: a topic may legally
# be called "x-delete", but its directory "x-delete-0" does not end so.
_MARKED = re.compile(r"(\S+-\S+)\.(\S+)-(delete|future|stray)")
_PARTITION = re.compile(r"(.+)-([0-9]+)")


class PartitionKind(StrEnum):
    """What a partition directory is to its broker. Of several kinds for one partition the first is read."""

    NORMAL = "normal"
    STRAY = "stray"  # not assigned to this broker any more (Kafka 3.7)
    DELETE = "delete"  # its topic was deleted; unlinked after file.delete.delay.ms
    FUTURE = "future"  # a copy under way to another log directory (KIP-113)


@dataclass(frozen=True, slots=True)
class PartitionName:
    """What the name of a partition directory says.

    The topic of a `-delete` or `-stray` directory may be truncated: the broker cuts it so that the whole name
    has at most MAX_NAME_LENGTH characters.
    """

    topic: str
    partition: int
    kind: PartitionKind


def is_legal_topic(topic: str) -> bool:
    """True for 1 to 249 of [a-zA-Z0-9._-], other than "." and ".."."""
    return _LEGAL_TOPIC.fullmatch(topic) is not None and topic not in (".", "..")


def deleted_name(topic: str, partition: int, uid: str) -> str:
    """Name of the directory of a deleted partition. A broker that finds it removes it: so a new partition is
    made under such a name, and comes to its own as a whole."""
    end = f"-{partition}.{uid}-delete"
    return topic[: MAX_NAME_LENGTH - len(end)] + end


def parse_partition_name(name: str) -> PartitionName | None:
    """Topic, partition and kind of the partition directory called `name`; None if it is no such name.

    `topic-N`, and `topic-N.<uid>-delete`, `-future` or `-stray`.
    """
    kind = PartitionKind.NORMAL
    if name.endswith(("-delete", "-future", "-stray")):
        marked = _MARKED.fullmatch(name)
        if marked is None:
            return None
        name, kind = marked[1], PartitionKind(marked[3])
    match = _PARTITION.fullmatch(name)
    if match is None or not is_legal_topic(match[1]) or int(match[2]) > _MAX_INT:
        return None
    return PartitionName(match[1], int(match[2]), kind)
