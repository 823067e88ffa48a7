"""The parts of the names of objects in remote storage."""

from __future__ import annotations

from typing import NamedTuple

UUID = "[A-Za-z0-9_-]{22}"
"""A regular expression of Kafka's Uuid as text: 16 bytes in base64url."""


class PartitionName(NamedTuple):
    """A partition in remote storage. `topic_id` is None if the layout has no topic ids."""

    topic: str
    partition: int
    topic_id: str | None


class ObjectName(NamedTuple):
    """An object of a segment.

    Attributes:
        start_offset: the first offset of the segment.
        segment_id: tells segments with the same start offset apart; empty if the layout has no such ids.
        kind: what the object contains: the end of its name.
    """

    start_offset: int
    segment_id: str
    kind: str

    @property
    def key(self) -> tuple[int, str]:
        """What the objects of one segment have in common."""
        return self.start_offset, self.segment_id
