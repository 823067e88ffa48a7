"""Several copies of a log, read as one log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from native_log.errors import KafkaLogError
from native_log.log.listing import LogListing
from native_log.log.local_log import LocalLog
from native_log.log.partition_log import PartitionLog
from native_log.log.reading.split import split_by_offsets
from native_log.log.replicas.merged_source import whole_log
from native_log.log.segment_slices import SlicedRange
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    from native_log.log.replicas.merged_source import MergedSource
    from native_log.log.segment_slices import SegmentId, SegmentSlice
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment


class MergedLog(PartitionLog):
    """The log of a partition, merged from several copies. It can be read, but not followed or appended to.

    `path`, `segments`, `snapshots`, `leader_epochs` and `topic_id` are those of the leading copy.

    Attributes:
        merged: which copies hold the log.
    """

    merged: MergedSource
    _whole: SlicedRange

    @classmethod
    def of(
        cls,
        source: MergedSource,
        topic: str,
        partition: int,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> Self:
        """Open the merged log `source`. The arguments and errors are those of LocalLog.open."""
        logs = {
            path: LocalLog.open(
                path,
                topic=topic,
                partition=partition,
                checkpoints=source.checkpoints_of(path),
                max_batch_bytes=max_batch_bytes,
            )
            for path in {source.leader, *(part.path for part in source.ranges)}
        }
        leader = logs[source.leader]
        listing = LogListing(leader.segments, leader.snapshots)
        log = cls(leader.path, topic, partition, listing, leader._tail, source.checkpoints, max_batch_bytes)
        log.merged = source
        start, end = source.log_start_offset, source.log_end_offset
        log.local_log_start_offset = start
        log.log_start_offset = source.checkpoints.start_before(start)
        log.log_end_offset = log.high_watermark = end
        if source.checkpoints.live and source.checkpoints.high_watermark is not None:
            log.high_watermark = max(start, min(source.checkpoints.high_watermark, end))
        log._whole = SlicedRange(
            str(leader.path),
            topic,
            partition,
            start,
            end,
            "read_uncommitted",
            whole_log(source, logs),
            max_batch_bytes,
            source.checkpoints,
            merged=source,
        )
        return log

    @property
    def size_bytes(self) -> int:
        """The number of bytes that hold the merged log."""
        return self._whole.size_bytes

    @property
    def invalid_bytes(self) -> int:
        """0: bytes after the end of a copy are not part of the merged log."""
        return 0

    def locate(self, start: int, end: int) -> tuple[tuple[SegmentSlice, ...], tuple[SegmentId, ...]]:
        """Return the slices with the records from `start` to before `end`. See LocalLog.locate."""
        self.check_offset(start)
        if start >= end:
            return (), ()
        for part in split_by_offsets(self._whole, [start, end]):
            if part.start_offset == start:
                return part.slices, ()
        return (), ()

    def headers(
        self,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool = False,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """Yield the batch headers of the log, with their segments. See LocalLog.headers."""
        start = self.log_start_offset if start_offset is None else start_offset
        start = max(start, self.local_log_start_offset)
        slices, _ = self.locate(start, self.log_end_offset)
        window = Window()
        for part in self._readable(start, self.log_end_offset, slices):
            with part.lookup(window, self.max_batch_bytes) as lookup:
                for scanned in lookup.batches(
                    part.start_position, on_damage, next_offset=part.next_offset, check_crcs=check_crcs
                ):
                    yield part.segment, scanned

    def slices_from(self, part: SegmentSlice, position: int) -> Iterator[SegmentSlice]:
        """Return the slices to read for a located slice from `position` on. See LocalLog.slices_from."""
        start = part.first_offset
        if position > part.start_position:
            with part.lookup(Window(), self.max_batch_bytes) as lookup:
                boundary = lookup.find_boundary(position)
            if boundary is not None and boundary.position == position:
                part = replace(part, start_position=position, next_offset=boundary.next_offset)
                start = max(start, boundary.offset)
        end = self.log_end_offset if part.max_offset is None else part.max_offset
        return self._readable(start, min(end, part.segment.end_offset), (part,))

    def _readable(self, start: int, end: int, slices: tuple[SegmentSlice, ...]) -> Iterator[SegmentSlice]:
        return replace(self._whole, start_offset=start, end_offset=end, slices=slices).readable_slices()

    def reopen(self) -> Self:
        """Open the log again. If a copy has changed, reading it raises LogTruncatedError."""
        return type(self).of(self.merged, self.topic, self.partition, self.max_batch_bytes)

    def _followed(self, *_: Any) -> NoReturn:
        self._reject("followed")

    def _write(self, *_: Any) -> NoReturn:
        self._reject("appended to")

    def _reject(self, change: str) -> NoReturn:
        raise KafkaLogError(
            f"expected a log of one directory, found one that is merged from {len(self.merged.copies)} "
            f"copies: it can be read, but not {change}; open one of its directories",
            path=self.path,
        )
