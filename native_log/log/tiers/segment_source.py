"""The log in one remote segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.log.log_state import LogState
from native_log.log.sources.offset_lookup import headers, locate
from native_log.log.sources.relocation import relocate
from native_log.log.tail import Tail
from native_log.segment.files import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from native_log.errors import LogTruncatedError
    from native_log.log.offset_span import OffsetSpan
    from native_log.log.slices import Located, Relocated, SegmentSlice
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment
    from native_log.storage import Folder


@dataclass(frozen=True, slots=True)
class SegmentSource:
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

    @property
    def repairs_damage(self) -> bool:
        """See LogSource."""
        return False

    def open(self) -> LogState:
        """See LogSource. Nothing is read."""
        end = MAX_OFFSET if self.end_offset is None else self.end_offset
        segment = self.segment
        return LogState(self, (segment,), (), Tail(segment.size_bytes, end), segment.base_offset, end)

    def lost(self, span: OffsetSpan) -> list[OffsetSpan]:
        """See LogSource."""
        del span
        return []

    def locate(self, state: LogState, span: OffsetSpan) -> Located:
        """See LogSource."""
        return locate(state, span)

    def headers(
        self,
        state: LogState,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """See LogSource."""
        return headers(state, start_offset, on_damage, check_crcs=check_crcs)

    def readable(self, slices: Iterable[SegmentSlice], span: OffsetSpan) -> Iterator[SegmentSlice]:
        """See LogSource. Damage is not replaced."""
        del span
        return iter(slices)

    def locate_again(
        self, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
    ) -> Relocated:
        """See LogSource."""
        return relocate(self.open(), located, span, error)
