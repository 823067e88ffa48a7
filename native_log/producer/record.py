"""A record to be sent (Kafka: ProducerRecord)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from native_log.producer.record_size import Header


class ProducerRecord(NamedTuple):
    """A record to be sent.

    Attributes:
        topic: the topic.
        value, key: serialized by value.serializer and key.serializer; without those, bytes, str (written as
            UTF-8) or None.
        headers: pairs of name and value (bytes or None).
        partition: the partition; None: the partitioner chooses it.
        timestamp_ms: epoch ms; None: the current time.
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: list[Header] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
