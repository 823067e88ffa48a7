"""The bytes of a log that a reader takes: pieces of segments, cut between batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.records import OffsetOrder
from native_log.segment.segment import LogSegment

if TYPE_CHECKING:
    from native_log.arguments import IsolationLevel
    from native_log.storage import DataFile

SegmentId = tuple[int, int, int]
"""Which file a segment was that nobody wrote to any more: its base offset, its size in bytes, and its time of
modification in ms."""

EARLIER_SEGMENTS = 64
"""Where all of these are gone along with a reader's own segment, it takes them for merged by a cleaner."""


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """Bytes of one segment, from one place between two batches to another.

    Attributes:
        segment: name of the file, below the partition's directory.
        base_offset: of that segment.
        inode, segment_bytes, mtime_ms: which file it was when this was planned. A broker's cleaner puts other
            files under the same name: positions mean nothing there.
        start_position, end_position: the bytes, end exclusive.
        min_offset, max_offset: only records from the first to before the second; None where every record is
            meant, whatever offset it claims.
        next_offset, end_offset: no batch in it begins below the first or reaches the second (see
            OffsetOrder).
    """

    segment: str
    base_offset: int
    inode: int
    segment_bytes: int
    mtime_ms: int
    start_position: int
    end_position: int
    min_offset: int | None
    max_offset: int | None
    next_offset: int
    end_offset: int

    @classmethod
    def of(
        cls,
        segment: LogSegment,
        start_position: int,
        end_position: int,
        min_offset: int | None = None,
        max_offset: int | None = None,
        next_offset: int | None = None,
    ) -> SegmentSlice:
        """`next_offset`: by default that of the segment's beginning, its base offset."""
        return cls(
            segment.log,
            segment.base_offset,
            segment.inode,
            segment.size_bytes,
            segment.mtime_ms,
            start_position,
            end_position,
            min_offset,
            max_offset,
            segment.base_offset if next_offset is None else next_offset,
            segment.end_offset,
        )

    @property
    def size_bytes(self) -> int:
        return self.end_position - self.start_position

    @property
    def segment_id(self) -> SegmentId:
        return self.base_offset, self.segment_bytes, self.mtime_ms

    def __reduce__(self) -> tuple[type[SegmentSlice], tuple[object, ...]]:
        # A plan of many partitions sends them by the hundred thousand; what a dataclass does by itself takes
        # several times as long.
        return SegmentSlice, (
            self.segment,
            self.base_offset,
            self.inode,
            self.segment_bytes,
            self.mtime_ms,
            self.start_position,
            self.end_position,
            self.min_offset,
            self.max_offset,
            self.next_offset,
            self.end_offset,
        )

    def check_file(self, file: DataFile) -> None:
        """Raises LogTruncatedError where another file has taken the place of the one this was planned on."""
        if not file.was(self.inode, self.segment_bytes, self.mtime_ms):
            raise LogTruncatedError(
                "expected the file that the read was planned on, found another: a broker cleans this log. "
                "Plan the read again",
                path=file.path,
            )

    def to_segment(self, directory: str) -> LogSegment:
        """The segment, with index files of its name; whether there are any shows when they are opened."""
        index, time_index, transaction_index = (
            self.segment.replace(".log", suffix) for suffix in (".index", ".timeindex", ".txnindex")
        )
        return LogSegment(
            directory,
            self.base_offset,
            self.segment,
            self.segment_bytes,
            self.inode,
            self.mtime_ms,
            index,
            time_index,
            transaction_index,
            self.end_offset,
        )

    def order(self, file: DataFile) -> OffsetOrder:
        """What is known of the offsets of its batches."""
        return OffsetOrder(self.next_offset, self.end_offset, file.fileno())


@dataclass(frozen=True, slots=True)
class SlicedRange:
    """The records of a partition from `start_offset` to before `end_offset`. Plain values: it can be pickled.

    Attributes:
        path: the partition's directory.
        topic, partition: what the records' columns say.
        start_offset, end_offset: end exclusive. The ranges that `split` gives tile them.
        isolation_level: "read_uncommitted" or "read_committed".
        slices: the bytes of the segments, in order.
        max_batch_bytes: ceiling for one batch, as stored and as decompressed.
        earlier: the last segments before the first piece's, EARLIER_SEGMENTS at most. They tell whether a
            segment that is gone was merged into one before it, or lost.
    """

    path: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    isolation_level: IsolationLevel
    slices: tuple[SegmentSlice, ...]
    max_batch_bytes: int
    earlier: tuple[SegmentId, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of the .log files to be read."""
        return sum(part.size_bytes for part in self.slices)
