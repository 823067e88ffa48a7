"""LiveLog: the log in one partition directory, kept up to date while a broker writes to it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import (
    end_offset_for_epoch,
    epoch_of,
)
from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS
from native_log.errors import LogTruncatedError
from native_log.log.live.live_files import UNCHANGED, LiveFiles, LogChange
from native_log.log.live.stable_offset import StableOffset
from native_log.log.local_log import partition_of_directory
from native_log.log.partition_log import PartitionLog
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.arguments import IsolationLevel, Mode
    from native_log.checkpoints.leader_epochs import EpochEndOffset, EpochEntry
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.reading.log_range import LogRange
    from native_log.segment.segment import LogSegment


class LiveLog:
    """The log in one partition directory, which `refresh` brings up to date without opening it again.

    No file is kept open. The memory that is used for a log is bounded, apart from the list of its segments.

    Attributes:
        path: the partition directory.
        topic, partition: taken from the directory's name, unless they were given.
        log: the log when it was last refreshed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        topic: str | None = None,
        partition: int | None = None,
        checkpoints: PartitionCheckpoints = NO_CHECKPOINTS,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Open the partition directory `path`.

        Args:
            path: the partition directory.
            topic, partition: the log's topic and partition; by default those in the directory's name.
            checkpoints: the partition's entries in the checkpoint files of the log directory. They must have
                been read before this call: see `refresh`.
            max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
            now_ns: the clock, in epoch ns.

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError, OSError: the directory or a file cannot be
                read.
            KafkaLogError: a segment has 2^31 bytes or more.
        """
        directory = os.fspath(path)
        self.path = Path(directory)
        named_topic, named_partition = partition_of_directory(directory)
        self.topic = named_topic if topic is None else topic
        self.partition = named_partition if partition is None else partition
        self._max_batch_bytes = max_batch_bytes
        self._checkpoints = checkpoints
        self._files = LiveFiles(directory, max_batch_bytes, now_ns)
        self._stable: StableOffset | None = None
        self._last_stable_offset: int | None = None
        self._change = UNCHANGED
        self.read_files()
        self._change = UNCHANGED
        self.log: PartitionLog = self._snapshot(0)

    def __repr__(self) -> str:
        return (
            f"LiveLog({str(self.path)!r}, offsets {self.log.local_log_start_offset} to "
            f"{self.log.log_end_offset}, {len(self.log.segments)} segments)"
        )

    def refresh(self, checkpoints: PartitionCheckpoints | None = None) -> LogChange:
        """Bring the state up to date. This costs two `stat` calls if nothing has changed.

        If the active segment has grown, only the new bytes are read. If files were added, removed or
        replaced, the directory is listed.

        Args:
            checkpoints: the partition's entries in the checkpoint files; None: as before. They must have been
                read before this call, so that the high watermark is not newer than the log end offset.

        Raises:
            FileNotFoundError: the directory was removed or renamed.
            PermissionError, OSError, KafkaLogError: as when the log is opened.
        """
        self.read_files()
        return self.publish(self._checkpoints if checkpoints is None else checkpoints)

    def read_files(self) -> bool:
        """Do the first part of `refresh`: read what is new, and return whether anything is.

        Raises: as `refresh`.
        """
        change = self._files.read(clean_shutdown=self._checkpoints.clean_shutdown)
        if change is not UNCHANGED:
            self._change = change if self._change is UNCHANGED else self._change.and_then(change)
        return self._change is not UNCHANGED

    def publish(self, checkpoints: PartitionCheckpoints) -> LogChange:
        """Do the second part of `refresh`: show the new state, up to the high watermark in the checkpoints.

        Args:
            checkpoints: see `refresh`.
        """
        change, self._change = self._change, UNCHANGED
        if change is UNCHANGED and checkpoints == self._checkpoints:
            return UNCHANGED
        self._checkpoints = checkpoints
        before = self.log
        floor = 0 if change.is_recreated else before.high_watermark
        if change.truncated_to is not None:
            floor = min(floor, change.truncated_to)
        self.log = self._snapshot(floor)
        self._last_stable_offset = None
        if self._stable is not None and (floor < before.high_watermark or change.is_recreated):
            self._stable = None  # it may contain transactions that are gone
        is_same = (before.high_watermark, before.log_start_offset) == (
            self.log.high_watermark,
            self.log.log_start_offset,
        )
        if change.is_changed or change.truncated_to is not None or not is_same:
            return replace(change, is_changed=True)
        return UNCHANGED

    def raise_high_watermark(self, offset: int) -> None:
        """Show at least the records before `offset`, up to the log end offset.

        A reader calls this with the position to which it has read: the high watermark was there already. The
        one in the checkpoint may be older, since a broker writes it every few seconds.
        """
        offset = min(offset, self.log.log_end_offset)
        if offset > self.log.high_watermark:
            self.log = self._snapshot(offset)
            self._last_stable_offset = None

    def move(self, path: Path) -> None:
        """Continue with the directory to which a broker has moved the partition, from the next refresh on."""
        self.path = path
        self._files.move(os.fspath(path))

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """All segments, by ascending base offset."""
        return self.log.segments

    @property
    def log_start_offset(self) -> int:
        """See PartitionLog."""
        return self.log.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """See PartitionLog."""
        return self.log.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The first offset that a consumer does not get: see PartitionLog.

        It is never lower than before, unless the log was truncated or recreated.
        """
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The first offset that a read_committed consumer does not get: see PartitionLog.

        Only batch headers between the last high watermark and the current one are read.
        """
        if self._last_stable_offset is None:
            if self._stable is None:
                self._stable = StableOffset(self.log)
            try:
                self._last_stable_offset = self._stable.advance(self.log)
            except (FileNotFoundError, LogTruncatedError):
                self._last_stable_offset = self._stable.advance(self.log.reopen())
        return self._last_stable_offset

    def end_offset(self, isolation_level: IsolationLevel = "read_uncommitted") -> int:
        """Return the first offset that cannot be read: the last stable offset, or the high watermark."""
        if isolation_level == "read_committed":
            return self.last_stable_offset
        return self.log.end_offset(isolation_level)

    @property
    def topic_id(self) -> str | None:
        """The topic id: see PartitionLog."""
        return self._files.topic_id

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their start offsets, from `leader-epoch-checkpoint`."""
        return self._files.leader_epochs

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of an offset; None if it is unknown."""
        return epoch_of(self.leader_epochs, offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """Return where a leader epoch ends (see leader_epochs.end_offset_for_epoch)."""
        return end_offset_for_epoch(self.leader_epochs, epoch, self.log_end_offset)

    def range(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> LogRange:
        """Locate the records with offsets in [start_offset, end_offset), as PartitionLog.range.

        No index is read for an offset that was the end of the log in a recent refresh, or of a recent range.
        """
        if isolation_level == "read_committed":
            self.log.last_stable_offset = self.last_stable_offset
        return self.log.range(start_offset, end_offset, isolation_level=isolation_level)

    def offset_for_timestamp(
        self,
        timestamp_ms: int,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        mode: Mode = "failFast",
    ) -> int | None:
        """Return the lowest offset with a timestamp of at least `timestamp_ms`: see PartitionLog."""
        if isolation_level == "read_committed":
            self.log.last_stable_offset = self.last_stable_offset
        return self.log.offset_for_timestamp(timestamp_ms, isolation_level=isolation_level, mode=mode)

    def _snapshot(self, high_watermark: int) -> PartitionLog:
        """Return the current state as a log whose high watermark is at least the given one."""
        checkpoints = self._checkpoints
        if checkpoints.high_watermark is not None and checkpoints.high_watermark < high_watermark:
            checkpoints = replace(checkpoints, high_watermark=high_watermark)
        return PartitionLog(
            self.path,
            self.topic,
            self.partition,
            self._files.listing,
            self._files.tail,
            checkpoints,
            self._max_batch_bytes,
            locations=self._files.locations,
        )
