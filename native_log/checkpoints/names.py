"""Names of topics and of partition directories (Kafka: Topic, UnifiedLog.parseTopicPartitionName)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

METADATA_TOPIC = "__cluster_metadata"
"""The log of the KRaft controller quorum."""

OFFSETS_TOPIC = "__consumer_offsets"
"""The log of the group coordinators."""

TRANSACTIONS_TOPIC = "__transaction_state"
"""The log of the transaction coordinators."""

SHARE_STATE_TOPIC = "__share_group_state"
"""The log of the share coordinators."""

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, METADATA_TOPIC})
"""Internal topics of Kafka. They are read only if they are named."""

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
"""The topic in which brokers record the segments in remote storage. Its records have no keys."""

BROKER_TOPICS = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}
"""Topics in which brokers keep their state. They are changed only if they are named. (Consumers do not treat
__remote_log_metadata as internal.)"""

BOOTSTRAP_FILE = "bootstrap.checkpoint"
"""The file in a log directory to which kafka-storage writes the first metadata of a cluster."""

MAX_NAME_LENGTH = 255
"""The maximum length of a directory name. A broker truncates the topic in it if needed."""

_MAX_INT = 2**31 - 1
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# As a broker does, recognize the three suffixes first, and only then remove the part after the last dot. A
# topic may be called "x-delete", but its directory "x-delete-0" does not end in the suffix.
_MARKED = re.compile(r"([^\s/]+-[^\s/]+)\.([^\s/]+)-(delete|future|stray)")
_PARTITION = re.compile(r"(.+)-([0-9]+)")


class PartitionKind(StrEnum):
    """The role of a partition directory for its broker.

    If a partition has directories of several kinds, the kind that is listed first here is read.
    """

    NORMAL = "normal"
    STRAY = "stray"  # no longer assigned to this broker (Kafka 3.7)
    DELETE = "delete"  # its topic was deleted; the directory is removed after file.delete.delay.ms
    FUTURE = "future"  # an incomplete copy that moves to another log directory (KIP-113)


@dataclass(frozen=True, slots=True)
class PartitionName:
    """The parts of a partition directory's name.

    The topic of a `-delete` or `-stray` directory may be truncated: a broker shortens it so that the name has
    at most MAX_NAME_LENGTH characters.
    """

    topic: str
    partition: int
    kind: PartitionKind


def is_legal_topic(topic: str) -> bool:
    """Return whether `topic` is 1 to 249 characters of [a-zA-Z0-9._-], other than "." and ".."."""
    return _LEGAL_TOPIC.fullmatch(topic) is not None and topic not in (".", "..")


def deleted_name(topic: str, partition: int, uid: str) -> str:
    """Return a directory name for a deleted partition.

    A broker removes directories with such names. So a new partition is created under one and renamed when it
    is complete.
    """
    end = f"-{partition}.{uid}-delete"
    return topic[: MAX_NAME_LENGTH - len(end)] + end


def parse_partition_name(name: str) -> PartitionName | None:
    """Parse the name of a partition directory; None if it is not a valid one, such as a path.

    Valid names are `topic-N`, and `topic-N.<uid>` followed by `-delete`, `-future` or `-stray`.
    """
    parsed = _parse(name)
    return parsed if parsed is not None and is_legal_topic(parsed.topic) else None


def is_broker_directory(name: str) -> bool:
    """Return whether a broker starts if its log directory contains a directory of this name.

    It also accepts topics that it would not create. Kafka: UnifiedLog.parseTopicPartitionName.
    """
    return _parse(name) is not None


def _parse(name: str) -> PartitionName | None:
    kind = PartitionKind.NORMAL
    if name.endswith(("-delete", "-future", "-stray")):
        marked = _MARKED.fullmatch(name)
        if marked is None:
            return None
        name, kind = marked[1], PartitionKind(marked[3])
    match = _PARTITION.fullmatch(name)
    if match is None or int(match[2]) > _MAX_INT:
        return None
    return PartitionName(match[1], int(match[2]), kind)
