"""Slices: the byte ranges of segments that hold a range of offsets, cut between batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.segment.segment import LogSegment, offset_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.arguments import IsolationLevel
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.replicas.merged_source import MergedSource
    from native_log.records import OffsetOrder
    from native_log.storage import DataFile

SegmentId = tuple[int, int, int]
"""The identity of a segment file that is no longer written to: base offset, size in bytes, and modification
time in ms."""

EARLIER_SEGMENTS = 64
"""If a reader's segment disappears together with all of these segments before it, the reader assumes that
compaction merged them."""


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """A byte range of one segment, cut between batches.

    Attributes:
        segment: the file's name in the partition directory.
        base_offset: the segment's base offset.
        inode, segment_bytes, mtime_ms: the file's identity when the slice was planned. Compaction by a broker
            puts another file under the same name, in which the positions mean nothing.
        start_position, end_position: the byte range, end exclusive.
        min_offset, max_offset: only records with offsets in [min_offset, max_offset) are read; None: no
            bound, so that no record is filtered out by its offset.
        next_offset, end_offset: no batch in the slice begins below next_offset or reaches end_offset (see
            OffsetOrder).
        directory: the partition directory; None: that of the range. The slices of a merged log are in
            several directories.
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
    directory: str | None = None

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
        """Return a slice of `segment`. `next_offset` is the segment's base offset by default."""
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
        """The number of bytes in the slice."""
        return self.end_position - self.start_position

    @property
    def segment_id(self) -> SegmentId:
        """The identity of the segment's file."""
        return self.base_offset, self.segment_bytes, self.mtime_ms

    def __reduce__(self) -> tuple[type[SegmentSlice], tuple[object, ...]]:
        # A plan for many partitions pickles hundreds of thousands of slices. This is several times faster
        # than the default of a dataclass.
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
            self.directory,
        )

    @property
    def first_offset(self) -> int:
        """A lower bound of the offsets in the slice. Slices before it in a range have lower offsets."""
        return max(self.base_offset, self.min_offset or 0, self.next_offset)

    def path_in(self, directory: str) -> str:
        """Return the path of the file, in `directory` unless the slice has a directory of its own."""
        return f"{self.directory or directory}/{self.segment}"

    def check_file(self, file: DataFile) -> None:
        """Raise LogTruncatedError if `file` is not the file that the slice was planned on."""
        if not file.matches(self.inode, self.segment_bytes, self.mtime_ms):
            raise LogTruncatedError(
                "expected the file that the read was planned on, found another one: a broker is compacting "
                "this log; plan the read again",
                path=file.path,
            )

    def to_segment(self, directory: str) -> LogSegment:
        """Return the segment in `directory`, with the names that its index files have if they exist.

        If the slice has a directory of its own, the segment is in that one.
        """
        index, time_index, transaction_index = (
            self.segment.replace(".log", suffix) for suffix in (".index", ".timeindex", ".txnindex")
        )
        return LogSegment(
            self.directory or directory,
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
        """Return the known bounds of the batches' offsets, to check their order."""
        return offset_order(file, self.base_offset, self.end_offset, self.next_offset)


@dataclass(frozen=True, slots=True)
class SlicedRange:
    """A range of offsets of one partition, and the slices that hold its records. It can be pickled.

    Attributes:
        path: the partition directory.
        topic, partition: the values of the records' columns `topic` and `partition`.
        start_offset, end_offset: the range, end exclusive. The ranges that `split` returns cover it without
            gaps or overlaps.
        isolation_level: "read_uncommitted" or "read_committed".
        slices: the byte ranges of the segments, in order. In those of a merged log, damage is
            not replaced yet: see `readable_slices`.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        checkpoints: those with which the log was opened, so that a reader can open it again in the same way.
        earlier: the last segments before that of the first slice, at most EARLIER_SEGMENTS. If a segment has
            disappeared, they show whether it was merged into an earlier one, or lost.
        merged: the whole merged log, if the range is one of a merged log.
    """

    path: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    isolation_level: IsolationLevel
    slices: tuple[SegmentSlice, ...]
    max_batch_bytes: int
    checkpoints: PartitionCheckpoints
    earlier: tuple[SegmentId, ...] = ()
    merged: MergedSource | None = None

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read from .log files."""
        return sum(part.size_bytes for part in self.slices)

    def readable_slices(self) -> Iterator[SegmentSlice]:
        """Return the slices to read: `slices`, or those in which damage is replaced if the log is merged.

        In a merged log, the slices are checked as the iterator advances. The errors are those of `repair`.
        """
        if self.merged is None:
            return iter(self.slices)
        from native_log.log.replicas.read_repair import repair

        return repair(self, self.merged)
