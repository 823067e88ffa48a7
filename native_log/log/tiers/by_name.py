"""What the names of objects tell of remote segments, where nothing else is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry
from native_log.log.offset_span import OffsetSpan
from native_log.log.tiers.remote_segment import RemoteSegment
from native_log.segment.files import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class NamedCopy:
    """The objects of one segment.

    Attributes:
        start_offset, segment_id: from their names.
        size_bytes: the size of the `.log` object; 0 if there is none.
        has_all_objects: whether there are all objects that a finished copy has.
    """

    start_offset: int
    segment_id: str
    size_bytes: int
    has_all_objects: bool

    @property
    def is_complete(self) -> bool:
        """Whether the copy was finished. Brokers copy no segments without batches."""
        return self.has_all_objects and self.size_bytes > 0


def segments_by_name(copies: Iterable[NamedCopy]) -> list[RemoteSegment]:
    """Return the segments that can be read, in the order of offsets.

    A segment ends at the next start offset. If the copy there is incomplete, its offsets are missing. Of
    several complete copies with one start offset, the longest is read. All records are in leader epoch 0.
    """
    by_start: dict[int, list[NamedCopy]] = {}
    for copy in copies:
        by_start.setdefault(copy.start_offset, []).append(copy)
    starts = sorted(by_start)
    segments = []
    for start, end in zip(starts, [*starts, MAX_OFFSET][1:], strict=True):
        complete = [copy for copy in by_start[start] if copy.is_complete]
        if complete:
            longest = max(complete, key=lambda copy: copy.size_bytes)
            epochs = (EpochEntry(0, start),)
            segments.append(RemoteSegment(longest.segment_id, OffsetSpan(start, end), epochs, False))
    return segments
