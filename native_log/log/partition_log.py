"""One partition of a topic: its segments in order, and the offsets that bound what is read of it (Kafka: UnifiedLog)."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from native_log.errors import OffsetOutOfRangeError
from native_log.log.checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.log.listing import Listing, list_log
from native_log.log.log_range import LogRange
from native_log.log.pieces import Piece
from native_log.log.tail import Tail, find_tail
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.lookup import SegmentLookup
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from native_log.segment.segment import LogSegment

_DIRECTORY = re.compile(r"(.+)-([0-9]+)(?:\.[^.]+-(?:delete|future|stray))?")


class PartitionLog:
    """The log in one partition directory, as it was when it was opened.

    Attributes:
        path: the directory.
        topic, partition: from the directory's name, unless they were given.
        segments: all segments, by ascending base offset.
        log_start_offset: first offset of the log. It may lie within a batch.
        log_end_offset: the offset after the last record.
        high_watermark: the first offset a consumer does not get: the checkpointed one while a broker has the directory
            open, else the log end offset, as after the broker's restart.
    """

    def __init__(
        self,
        path: Path,
        topic: str,
        partition: int,
        listing: Listing,
        tail: Tail,
        checkpoints: PartitionCheckpoints,
        max_batch_bytes: int,
    ) -> None:
        """Use PartitionLog.open."""
        self.path = path
        self.topic = topic
        self.partition = partition
        self.segments = listing.segments
        self.checkpoints = checkpoints
        self._listing = listing
        self._tail = tail
        self._max_batch_bytes = max_batch_bytes
        first = self.segments[0].base_offset if self.segments else 0
        self.log_start_offset = max(first, checkpoints.log_start_offset or 0)
        # A log that ends before its start is emptied by the broker: it goes on at the start.
        self.log_end_offset = max(tail.next_offset, self.log_start_offset)
        self.high_watermark = self.log_end_offset
        if checkpoints.live and checkpoints.high_watermark is not None:
            self.high_watermark = max(
                self.log_start_offset, min(checkpoints.high_watermark, self.log_end_offset)
            )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        topic: str | None = None,
        partition: int | None = None,
        checkpoints: PartitionCheckpoints | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> PartitionLog:
        """Open the partition directory `path`: list its files and look at the end of the last segment.

        Args:
            topic, partition: what to call it; by default as its directory is named.
            checkpoints: what the checkpoint files of the log directory say of it.
            max_batch_bytes: a batch that claims, or decompresses to, more is taken for damaged.

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError, OSError: the directory or a file cannot be read.
            KafkaLogError: a segment is larger than one can be.
        """
        directory = os.fspath(path)
        match = _DIRECTORY.fullmatch(os.path.basename(os.path.abspath(directory)))  # noqa: PTH100, PTH119
        checkpoints = checkpoints or NO_CHECKPOINTS
        listing, tail = _list_and_find_tail(directory, checkpoints.clean_shutdown, max_batch_bytes)
        return cls(
            Path(directory),
            topic if topic is not None else match[1] if match else Path(directory).name,
            partition if partition is not None else int(match[2]) if match else 0,
            listing,
            tail,
            checkpoints,
            max_batch_bytes,
        )

    @property
    def size_bytes(self) -> int:
        """Size of all .log files."""
        return sum(segment.size_bytes for segment in self.segments)

    @cached_property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed consumer does not get: the high watermark, or the first offset of the oldest
        transaction that is undecided below it."""
        return self.high_watermark

    def range(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> LogRange:
        """The records from `start_offset` (None: the log's start) to before `end_offset` (None: as far as can be read).

        The end is never beyond the high watermark, with `isolation_level` "read_committed" the last stable offset.

        Raises:
            OffsetOutOfRangeError: an offset lies outside of [log_start_offset, log_end_offset].
        """
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise ValueError(
                f"isolation_level must be read_uncommitted or read_committed, found {isolation_level!r}"
            )
        limit = self.last_stable_offset if isolation_level == "read_committed" else self.high_watermark
        start = self.log_start_offset if start_offset is None else start_offset
        for offset in (start, limit if end_offset is None else end_offset):
            if not self.log_start_offset <= offset <= self.log_end_offset:
                raise OffsetOutOfRangeError(
                    f"expected an offset from the log start offset {self.log_start_offset} to the log end offset "
                    f"{self.log_end_offset}, found {offset}",
                    path=self.path,
                    offset=offset,
                )
        end = max(start, limit if end_offset is None else min(end_offset, limit))
        return LogRange(
            str(self.path),
            self.topic,
            self.partition,
            start,
            end,
            isolation_level,
            self._pieces(start, end),
            self._max_batch_bytes,
        )

    def read(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: str = "read_uncommitted",
        **how: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The records of `range(start_offset, end_offset)`; see LogRange.read for `columns` and `how`."""
        return self.range(start_offset, end_offset, isolation_level=isolation_level).read(columns, **how)

    def end_position(self, segment: LogSegment) -> int:
        """Where reading `segment` stops: its size, for the last one where what is written of it ends."""
        return self._tail.end_position if segment is self.segments[-1] else segment.size_bytes

    def _pieces(self, start: int, end: int) -> tuple[Piece, ...]:
        if start >= end or not self.segments:
            return ()
        bases = [segment.base_offset for segment in self.segments]
        first = max(0, bisect_right(bases, start) - 1)
        last = bisect_left(bases, end) - 1
        # Offsets of batches are not covered by their CRC, so bytes bound a range; records are only judged by the offset
        # they claim where an offset within the log was asked for.
        min_offset = start if start > bases[0] else None
        max_offset = end if end < self.log_end_offset else None
        window = Window()
        pieces = []
        for index in range(first, last + 1):
            segment = self.segments[index]
            start_position, end_position = 0, self.end_position(segment)
            starts_within = index == first and start > segment.base_offset
            ends_within = index == last and max_offset is not None and end not in bases[index + 1 : index + 2]
            if end_position and (starts_within or ends_within):
                with SegmentLookup(
                    segment, end_position, window, max_batch_bytes=self._max_batch_bytes
                ) as lookup:
                    if starts_within:
                        start_position = lookup.find_offset(start).position
                    if ends_within:
                        end_position = lookup.find_offset(end).end_position
            if start_position < end_position:
                pieces.append(
                    Piece(
                        segment.log,
                        segment.base_offset,
                        segment.inode,
                        segment.size_bytes,
                        start_position,
                        end_position,
                        min_offset,
                        max_offset,
                    )
                )
        return tuple(pieces)


def _list_and_find_tail(directory: str, clean_shutdown: bool, max_batch_bytes: int) -> tuple[Listing, Tail]:
    listing = list_log(directory, max_batch_bytes)
    if not listing.segments:
        return listing, Tail(0, 0)
    last = listing.segments[-1]
    if last.size_bytes == 0:
        return listing, Tail(0, last.base_offset)
    with DataFile(str(last.path)) as file:
        tail = find_tail(last, file, Window(), clean_shutdown=clean_shutdown, max_batch_bytes=max_batch_bytes)
    return listing, tail
