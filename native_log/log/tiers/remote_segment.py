"""What is known of one segment in remote storage (Kafka: RemoteLogSegmentMetadata)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from native_log.log.offset_span import OffsetSpan

if TYPE_CHECKING:
    from native_log.checkpoints.leader_epochs import EpochEntry


class RemotePartition(NamedTuple):
    """A partition with remote storage. The topic id is 22 characters of base64url."""

    topic: str
    partition: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """Offsets of one leader epoch."""

    epoch: int
    span: OffsetSpan


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment whose copy to remote storage was finished.

    Attributes:
        id: the segment id, 22 characters of base64url; empty if the layout has none.
        span: the offsets of its records. If only names are known, it may end earlier.
        leader_epochs: the leader epochs of its records, and where they begin in the segment.
        is_end_known: whether `span` ends after the last record, and not just somewhere behind it.
        size_bytes: the size of its `.log` file on the broker's disk; None: unknown.
        custom_metadata: what the broker's plugin added (Kafka: CustomMetadata); None: nothing is known.
    """

    id: str
    span: OffsetSpan
    leader_epochs: tuple[EpochEntry, ...]
    is_end_known: bool = True
    size_bytes: int | None = None
    custom_metadata: bytes | None = None

    @property
    def key(self) -> tuple[int, str]:
        """The start offset and the id, which the names of its objects contain."""
        return self.span.start_offset, self.id

    def epoch_spans(self) -> list[EpochSpan]:
        """Return the offsets of each leader epoch in the segment."""
        entries = sorted(self.leader_epochs, key=lambda entry: entry.epoch)
        ends = [*(entry.start_offset for entry in entries), self.span.end_offset][1:]
        spans = (
            EpochSpan(entry.epoch, OffsetSpan(entry.start_offset, end))
            for entry, end in zip(entries, ends, strict=True)
        )
        return [each for each in spans if not each.span.is_empty]
