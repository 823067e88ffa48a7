"""When committed offsets expire (Kafka: OffsetMetadataManager, OffsetExpirationCondition).

A broker writes tombstones for expired offsets from time to time (offsets.retention.check.interval.ms). Until
then, and in the copy of a log, they are still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.internal_topics.group import Group

DEFAULT_RETENTION_MINUTES = 7 * 24 * 60
"""Kafka's default of offsets.retention.minutes."""
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class OffsetRetention:
    """How long offsets are kept.

    Attributes:
        now_ms: the current time in epoch ms.
        minutes: the broker's setting offsets.retention.minutes.
    """

    now_ms: int
    minutes: int = DEFAULT_RETENTION_MINUTES


@dataclass(frozen=True, slots=True)
class OffsetExpiration:
    """Which offsets of a group expire.

    Attributes:
        is_possible: whether any offset of the group can expire.
        topics_in_use: topics to which the group is subscribed. Their offsets do not expire.
        empty_since_ms: when the group lost its last member, in epoch ms. Its offsets expire together. None:
            each offset expires after its commit.
    """

    is_possible: bool
    topics_in_use: frozenset[str] = frozenset()
    empty_since_ms: int | None = None

    @classmethod
    def of(cls, group: Group) -> OffsetExpiration:
        topics = group.subscribed_topics()
        if group.type == "classic" and group.classic is not None and group.classic["protocolType"]:
            if group.state == "Empty":
                since_ms: int = group.classic.get("currentStateTimestamp", -1)
                return cls(is_possible=True, empty_since_ms=since_ms if since_ms >= 0 else None)
            if topics is None:
                return cls(is_possible=False)
        return cls(is_possible=True, topics_in_use=frozenset(topics or ()))

    def is_expired(
        self, topic: str, commit_time_ms: int, expire_time_ms: int | None, retention: OffsetRetention
    ) -> bool:
        """Return whether a broker would delete an offset. Open transactions of the group are not considered.

        Args:
            topic: the topic of the offset.
            commit_time_ms: when it was committed.
            expire_time_ms: when it expires according to its record, which only old clients say.
            retention: how long offsets are kept.
        """
        if not self.is_possible or topic in self.topics_in_use:
            return False
        if expire_time_ms is not None:
            return retention.now_ms >= expire_time_ms
        start_ms = commit_time_ms if self.empty_since_ms is None else self.empty_since_ms
        return retention.now_ms - start_ms >= retention.minutes * _MINUTE_MS
