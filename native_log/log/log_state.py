"""The state of a log (Kafka: LocalLog), and where it comes from.

A log is a source and a state. The source says where the segments are, and can be sent to other processes. The
state is what was found there: the segments in order, and the offsets that bound the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from native_log.checkpoints.leader_epochs import EpochEntry, read_leader_epochs
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.errors import OffsetOutOfRangeError
from native_log.lazy import lazy_property
from native_log.storage import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.errors import LogTruncatedError
    from native_log.log.location_cache import LocationCache
    from native_log.log.offset_span import OffsetSpan
    from native_log.log.slices import Located, SegmentSlice
    from native_log.log.tail import Tail
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment
    from native_log.storage import Folder


class LogSource(Protocol):
    """Where a log comes from: all that is needed to open it, in any process.

    Sources are frozen values that can be pickled. Readers know this protocol only.
    """

    @property
    def path(self) -> str:
        """The directory that messages name. That of the leading copy if there are several."""

    @property
    def folder(self) -> Folder:
        """That directory, which has the partition's metadata."""

    @property
    def topic(self) -> str:
        """The value of the records' column `topic`."""

    @property
    def partition(self) -> int:
        """The value of the records' column `partition`."""

    @property
    def checkpoints(self) -> PartitionCheckpoints:
        """The partition's entries in the checkpoint files of the log directory."""

    @property
    def max_batch_bytes(self) -> int:
        """A batch that claims more bytes, or decompresses to more, counts as damaged."""

    @property
    def repairs_damage(self) -> bool:
        """Whether `readable` replaces damaged bytes. Then parts of a range share damage where it is cut."""

    def open(self) -> LogState:
        """Find the segments and the end of the log.

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError, OSError: a directory or a file cannot be
                read.
            KafkaLogError: a segment has 2^31 bytes or more.
        """

    def reopen(self) -> LogState:
        """Open the log as it is now, after files were removed. Raises as `open`."""

    def lost(self, span: OffsetSpan) -> Sequence[OffsetSpan]:
        """Return the offsets of `span` whose records are known to be nowhere, sorted."""

    def locate(self, state: LogState, span: OffsetSpan) -> Located:
        """Return the slices with the records of `span`. Raises OffsetOutOfRangeError."""

    def headers(
        self,
        state: LogState,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """Yield the batch headers of the log, with their segments. See LogState.headers."""

    def readable(self, slices: Iterable[SegmentSlice], span: OffsetSpan) -> Iterator[SegmentSlice]:
        """Yield what to read for located slices, in which damage may be replaced from other places.

        Args:
            slices: slices that hold the records of `span`, in order.
            span: the offsets to read.

        Raises:
            LogTruncatedError, FileNotFoundError: a file has changed since the slices were located.
            OSError: a file cannot be read.
        """

    def without_repair(self) -> LogSource:
        """Return a source that reads slices as they are: those that `readable` has already repaired."""

    def locate_again(
        self, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
    ) -> Relocated:
        """Locate records after a file was removed, replaced or truncated while it was read.

        Args:
            located: where the records were.
            span: the offsets that are left to read.
            error: what reading raised. It is raised again if the source cannot locate records again.
        """


@dataclass(frozen=True, slots=True)
class Relocated:
    """Where records are after their files have changed.

    Attributes:
        source: where the log comes from now.
        slices: the records that are left.
        loss: says which records were lost; None: none were.
    """

    source: LogSource
    slices: tuple[SegmentSlice, ...]
    loss: OSError | LogTruncatedError | None = None


@dataclass(frozen=True)
class LogState:
    """A log, as it was when it was opened.

    Attributes:
        source: where it comes from.
        segments: all segments, by ascending base offset.
        snapshots: (offset, file name) of producer state snapshots, newest first.
        tail: the end of the last segment.
        local_log_start_offset: the first offset of the log in these segments. It is greater than
            log_start_offset if the records before it are in tiered storage (KIP-405), or lost.
        log_end_offset: the offset after the last record.
        locations: remembers where offsets were found; None: nothing is remembered.
        without_log: the base offsets of offset indexes whose .log file is missing, sorted.
    """

    source: LogSource
    segments: tuple[LogSegment, ...]
    snapshots: tuple[tuple[int, str], ...]
    tail: Tail
    local_log_start_offset: int
    log_end_offset: int
    locations: LocationCache | None = None
    without_log: tuple[int, ...] = ()

    @property
    def path(self) -> Path:
        """The directory that messages name: that of the source."""
        return path_of(self.source.path)

    @property
    def checkpoints(self) -> PartitionCheckpoints:
        """The partition's entries in the checkpoint files of the log directory."""
        return self.source.checkpoints

    @property
    def max_batch_bytes(self) -> int:
        """A batch that claims more bytes, or decompresses to more, counts as damaged."""
        return self.source.max_batch_bytes

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log: see PartitionLog."""
        return self.checkpoints.start_before(self.local_log_start_offset)

    @property
    def high_watermark(self) -> int:
        """The first offset that is not read: see PartitionLog."""
        checkpoints = self.checkpoints
        if checkpoints.live and checkpoints.high_watermark is not None:
            return max(self.local_log_start_offset, min(checkpoints.high_watermark, self.log_end_offset))
        return self.log_end_offset

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of the segments."""
        return [segment.base_offset for segment in self.segments]

    @property
    def size_bytes(self) -> int:
        """The total size of all .log files in bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    @lazy_property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs. The file is read when they are first needed: see PartitionLog."""
        return read_leader_epochs(self.source.folder)

    @lazy_property
    def topic_id(self) -> str | None:
        """The topic id. The file is read when it is first needed: see PartitionLog."""
        return read_topic_id(self.source.folder)

    @property
    def usable_snapshots(self) -> list[tuple[int, str]]:
        """The snapshots that producer state may be read from, newest first.

        Producer state begins at the log start offset. A broker that loads a log deletes the snapshots up to
        there (Kafka: ProducerStateManager.truncateAndReload).
        """
        return [(offset, name) for offset, name in self.snapshots if offset > self.log_start_offset]

    @property
    def invalid_bytes(self) -> int:
        """The number of bytes after the last valid batch: see PartitionLog."""
        return 0 if self.checkpoints.live else self.tail.invalid_bytes

    @property
    def missing_end(self) -> str | None:
        """What is ignored or missing after the log end offset: see PartitionLog."""
        signs = []
        if self.invalid_bytes:
            signs.append(
                f"its last {self.invalid_bytes} bytes, from position {self.tail.end_position} of "
                f"{self.segments[-1].log}, are ignored: {self.tail.invalid}, as a crash leaves it"
            )
        snapshot, name = self.snapshots[0] if self.snapshots else (0, "")
        if snapshot > self.log_end_offset:
            signs.append(f"{name} was written when the log had reached offset {snapshot}")
        if (self.checkpoints.high_watermark or 0) > self.log_end_offset:
            signs.append(
                f"its high watermark was {self.checkpoints.high_watermark} (replication-offset-checkpoint)"
            )
        return f"the log ends at offset {self.log_end_offset}, but {'; '.join(signs)}" if signs else None

    @property
    def missing_start(self) -> str | None:
        """The offsets at the log's start that no segment has: see PartitionLog."""
        start = self.checkpoints.stored_start
        if start is None or self.log_start_offset >= self.local_log_start_offset:
            return None
        return (
            f"the log starts at offset {self.log_start_offset} ({start[1]}), its local "
            f"segments at {self.local_log_start_offset}; the offsets between are in tiered storage, or lost"
        )

    def check_offset(self, offset: int) -> None:
        """Raise OffsetOutOfRangeError if `offset` lies outside [local_log_start_offset, log_end_offset]."""
        if self.log_start_offset <= offset < self.local_log_start_offset:
            raise OffsetOutOfRangeError(
                f"expected an offset at or above the local log start offset {self.local_log_start_offset}, "
                f"found {offset}: {self.missing_start}",
                path=self.path,
                offset=offset,
            )
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"expected an offset from the log start offset {self.log_start_offset} to the log end "
                f"offset {self.log_end_offset}, found {offset}",
                path=self.path,
                offset=offset,
            )

    def end_position(self, segment: LogSegment) -> int:
        """Return the position at which reading `segment` stops, exclusive.

        This is the segment's size or, for the last segment, the end of its last batch.

        Damage after the high watermark of a live log is left out: a commit may be writing there, or was
        killed.
        """
        if segment is not self.segments[-1]:
            return segment.size_bytes
        high_watermark, damage = self.checkpoints.high_watermark, self.tail.damage_position
        if damage is None or not self.checkpoints.live or high_watermark is None:
            return self.tail.end_position
        return damage if high_watermark <= self.log_end_offset else self.tail.end_position

    def locate(self, span: OffsetSpan) -> Located:
        """Return the slices with the records of `span`. Raises OffsetOutOfRangeError."""
        return self.source.locate(self, span)

    def headers(
        self,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool = False,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """Yield the batch headers of the log, with their segments.

        Args:
            start_offset: start at the batch with this offset; None: at the first batch of the first segment.
            on_damage: called with each damaged range. The scan then continues after it.
            check_crcs: also check the checksum of each batch.
        """
        return self.source.headers(self, start_offset, on_damage, check_crcs=check_crcs)
