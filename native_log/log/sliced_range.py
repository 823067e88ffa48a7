"""A range of offsets, and the bytes that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.offset_span import OffsetSpan
from native_log.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.arguments import IsolationLevel
    from native_log.log.log_state import LogSource
    from native_log.log.slices import SegmentId, SegmentSlice


@dataclass(frozen=True, slots=True)
class SlicedRange:
    """A range of offsets of one partition, and the slices that hold its records. It can be pickled.

    Attributes:
        source: where the log comes from, so that a reader can open it again.
        start_offset, end_offset: the range, end exclusive. The ranges that `split` returns cover it without
            gaps or overlaps.
        isolation_level: "read_uncommitted" or "read_committed".
        slices: the byte ranges of the segments, in order. Damage in them is not replaced yet: see
            `readable_slices`.
        earlier: see Located.
    """

    source: LogSource
    start_offset: int
    end_offset: int
    isolation_level: IsolationLevel
    slices: tuple[SegmentSlice, ...]
    earlier: tuple[SegmentId, ...] = ()

    @property
    def path(self) -> str:
        """The directory that messages name."""
        return self.source.path

    @property
    def topic(self) -> str:
        """The value of the records' column `topic`."""
        return self.source.topic

    @property
    def partition(self) -> int:
        """The value of the records' column `partition`."""
        return self.source.partition

    @property
    def max_batch_bytes(self) -> int:
        """A batch that claims more bytes, or decompresses to more, counts as damaged."""
        return self.source.max_batch_bytes

    @property
    def span(self) -> OffsetSpan:
        """The offsets of the range."""
        return OffsetSpan(self.start_offset, self.end_offset)

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read from .log files."""
        return sum(part.size_bytes for part in self.slices)

    @property
    def is_local(self) -> bool:
        """Whether all segments to read are on a local disk."""
        return all(part.segment.folder.storage is LOCAL for part in self.slices)

    def readable_slices(self) -> Iterator[SegmentSlice]:
        """Yield the slices to read. Damage in them may be replaced from other copies."""
        return self.source.readable(self.slices, self.span)
