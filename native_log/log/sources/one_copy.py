"""What sources with one copy of each record have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from native_log.log.sources.offset_lookup import headers, locate
from native_log.log.sources.relocation import relocate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from native_log.errors import LogTruncatedError
    from native_log.log.log_state import LogState, Relocated
    from native_log.log.offset_span import OffsetSpan
    from native_log.log.slices import Located, SegmentSlice
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment


class OneCopy(ABC):
    """A source that reads each record from the only place that has it, so that it cannot replace damage."""

    __slots__ = ()

    @property
    def repairs_damage(self) -> bool:
        """See LogSource."""
        return False

    def without_repair(self) -> Self:
        """See LogSource."""
        return self

    @abstractmethod
    def open(self) -> LogState:
        """See LogSource."""

    def reopen(self) -> LogState:
        """See LogSource."""
        return self.open()

    def lost(self, span: OffsetSpan) -> list[OffsetSpan]:
        """See LogSource: a log without some of its offsets may have been compacted."""
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
        """See LogSource."""
        del span
        return iter(slices)

    def locate_again(
        self, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
    ) -> Relocated:
        """See LogSource."""
        return relocate(self.open(), located, span, error)
