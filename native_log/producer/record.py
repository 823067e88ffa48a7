"""A record to be sent (Kafka: ProducerRecord)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.producer.futures import RecordMetadata
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
    headers: Sequence[Header] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class SerializedRecord(NamedTuple):
    """A record as a batch takes it.

    Attributes:
        value, key: None: null.
        headers: pairs of name and value; None: there are none.
        timestamp_ms: epoch ms.
        callback: called with metadata or error when the record is done.
    """

    value: bytes | None
    key: bytes | None
    headers: Sequence[Header] | None
    timestamp_ms: int
    callback: Callable[[RecordMetadata | None, Exception | None], object] | None = None


def list_headers(headers: Sequence[Header]) -> list[Header]:
    """Return headers as a list of tuples. Raises TypeError for others than pairs of str and bytes or None."""
    listed = []
    for header in headers:
        is_pair = isinstance(header, tuple | list) and len(header) == 2
        if not (is_pair and isinstance(header[0], str) and isinstance(header[1], bytes | None)):
            raise TypeError(f"headers: expected pairs of str and bytes (or None), found {header!r}")
        listed.append((header[0], header[1]))
    return listed
