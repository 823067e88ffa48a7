"""The log in one remote segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.log.log_state import LogState
from native_log.log.sources.one_copy import OneCopy
from native_log.log.tail import Tail
from native_log.segment.files import MAX_OFFSET

if TYPE_CHECKING:
    from native_log.segment.segment import LogSegment
    from native_log.storage import Folder


@dataclass(frozen=True, slots=True)
class SegmentSource(OneCopy):
    """The log in one segment that does not change. See LogSource for the other attributes.

    Attributes:
        segment: the segment.
        end_offset: the offset after its last record; None: unknown.
    """

    segment: LogSegment
    topic: str
    partition: int
    end_offset: int | None
    max_batch_bytes: int

    @property
    def path(self) -> str:
        """See LogSource: the object with the batches."""
        return str(self.segment.path)

    @property
    def folder(self) -> Folder:
        """See LogSource."""
        return self.segment.folder

    @property
    def checkpoints(self) -> PartitionCheckpoints:
        """See LogSource."""
        return NO_CHECKPOINTS

    def open(self) -> LogState:
        """See LogSource. Nothing is read."""
        end = MAX_OFFSET if self.end_offset is None else self.end_offset
        segment = self.segment
        return LogState(self, (segment,), (), Tail(segment.size_bytes, end), segment.base_offset, end)
