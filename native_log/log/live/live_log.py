"""LiveLog: the log in one partition directory, kept up to date while a broker writes to it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import (
    LEADER_EPOCH_CHECKPOINT,
    end_offset_for_epoch,
    epoch_of,
    read_leader_epochs,
)
from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS
from native_log.checkpoints.partition_metadata import PARTITION_METADATA, read_topic_id
from native_log.errors import LogTruncatedError
from native_log.log.listing import LogListing, list_log
from native_log.log.live.divergence import diverged
from native_log.log.live.stable_offset import StableOffset
from native_log.log.live.tail_marks import MAX_MARKS, TailMark
from native_log.log.local_log import partition_of_directory
from native_log.log.partition_log import PartitionLog
from native_log.log.reading.location_cache import LocationCache
from native_log.log.tail import Tail, find_tail
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.lookup import OffsetLocation
from native_log.storage import DataFile, Window, file_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.arguments import IsolationLevel, Mode
    from native_log.checkpoints.leader_epochs import EpochEndOffset, EpochEntry
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.reading.log_range import LogRange
    from native_log.segment.segment import LogSegment
    from native_log.storage import FileVersion

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LogChange:
    """What has changed in a log since it was last refreshed.

    Attributes:
        is_changed: segments, offsets or the high watermark are different.
        truncated_to: the log was truncated to this offset, and may have grown again since. The records from
            it on are gone or different. None: it was not truncated. If the first different offset cannot be
            determined, it is a lower one.
        is_recreated: the topic was deleted and created again. All its records are new ones.
    """

    is_changed: bool = False
    truncated_to: int | None = None
    is_recreated: bool = False


UNCHANGED = LogChange()


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
        self._directory = os.fspath(path)
        self.path = Path(self._directory)
        named_topic, named_partition = partition_of_directory(self._directory)
        self.topic = named_topic if topic is None else topic
        self.partition = named_partition if partition is None else partition
        self._max_batch_bytes = max_batch_bytes
        self._now_ns = now_ns
        self._checkpoints = checkpoints
        self._directory_version: FileVersion | None = None
        self._file_version: FileVersion | None = None
        self._epochs_version: FileVersion | None = None
        self._topic_id_version: FileVersion | None = None
        self._directory_inode: int | None = None
        self._topic_id: str | None = None
        self._epochs: tuple[EpochEntry, ...] = ()
        self._listing = LogListing((), ())
        self._tail = Tail(0, 0)
        self._marks: tuple[TailMark, ...] = ()
        self._locations = LocationCache()
        self._stable: StableOffset | None = None
        self._last_stable_offset: int | None = None
        self.log: PartitionLog = self._snapshot(0)
        self.refresh()

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
        return self.publish(self.read_files(), self._checkpoints if checkpoints is None else checkpoints)

    def read_files(self) -> LogChange:
        """Do the first part of `refresh`: find out what has changed in the files, up to the log end offset.

        Raises: as `refresh`.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._read_files()
            except (FileNotFoundError, LogTruncatedError):
                # A file was removed or truncated after it was listed.
                self._directory_version = None
                os.stat(self._directory)  # noqa: PTH116 (a hot path of strings)
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def publish(self, change: LogChange, checkpoints: PartitionCheckpoints) -> LogChange:
        """Do the second part of `refresh`: show the new state, up to the high watermark in the checkpoints.

        Args:
            change: the result of `read_files`.
            checkpoints: see `refresh`.

        Returns:
            What has changed, including the high watermark.
        """
        if change is UNCHANGED and checkpoints == self._checkpoints:
            return UNCHANGED
        self._checkpoints = checkpoints
        before = self.log
        floor = 0 if change.is_recreated else before.high_watermark
        if change.truncated_to is not None:
            floor = min(floor, change.truncated_to)
        self.log = self._snapshot(floor)
        self._last_stable_offset = None
        if self._stable is not None and self._stable.end_offset > self.log.high_watermark:
            self._stable = None
        is_same = (before.high_watermark, before.log_start_offset) == (
            self.log.high_watermark,
            self.log.log_start_offset,
        )
        if change.is_changed or not is_same:
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
        self.path, self._directory = path, os.fspath(path)
        self._directory_version = None

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
        return self.last_stable_offset if isolation_level == "read_committed" else self.high_watermark

    @property
    def topic_id(self) -> str | None:
        """The topic id: see PartitionLog."""
        return self._topic_id

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their start offsets, from `leader-epoch-checkpoint`."""
        return self._epochs

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of an offset; None if it is unknown."""
        return epoch_of(self._epochs, offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """Return where a leader epoch ends (see leader_epochs.end_offset_for_epoch)."""
        return end_offset_for_epoch(self._epochs, epoch, self.log_end_offset)

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
            self._listing,
            self._tail,
            checkpoints,
            self._max_batch_bytes,
            locations=self._locations,
        )

    def _read_files(self) -> LogChange:
        now_ns = self._now_ns()
        stat = os.stat(self._directory)  # noqa: PTH116 (a hot path of strings)
        version = file_version(stat, now_ns)
        if version is None or version != self._directory_version:
            change = self._list(stat.st_ino)
            self._directory_version = version
            return change
        segments = self._listing.segments
        if not segments:
            return UNCHANGED
        last = segments[-1]
        path = f"{self._directory}/{last.log}"
        now_ns = self._now_ns()
        file_stat = os.stat(path)  # noqa: PTH116
        version = file_version(file_stat, now_ns)
        if version is not None and version == self._file_version:
            return UNCHANGED
        change = self._update(self._listing, is_listed=False)
        self._file_version = version
        return change

    def _list(self, inode: int) -> LogChange:
        """List the directory, whose inode is given, and find the end of its last segment."""
        is_other = self._directory_inode not in (None, inode)
        before = self._topic_id
        self._refresh_topic_id()
        is_recreated = self._topic_id != before and (is_other or None not in (self._topic_id, before))
        if is_recreated or (is_other and before is None):
            self._forget()
            is_recreated = True
        self._file_version = None
        change = self._update(list_log(self._directory, self._max_batch_bytes), is_listed=True)
        self._directory_inode = inode
        return LogChange(True, None, is_recreated=True) if is_recreated else change

    def _forget(self) -> None:
        """Forget everything about the log, because it is another one."""
        self._listing, self._tail, self._marks = LogListing((), ()), Tail(0, 0), ()
        self._locations.clear()
        self._stable = None

    def _update(self, listing: LogListing, *, is_listed: bool) -> LogChange:
        """Find the end of the last segment, and what has changed since the last call."""
        before, old_end = self._listing, self._log_end_offset
        if not listing.segments:
            tail, mark, is_rewritten = Tail(0, 0), None, False
        else:
            last, tail, mark, is_rewritten = self._read_tail(listing.segments[-1])
            if last != listing.segments[-1]:
                listing = LogListing((*listing.segments[:-1], last), listing.snapshots)
        is_changed = listing.segments != before.segments or tail.next_offset != self._tail.next_offset
        if not is_changed and not is_listed:
            self._tail = tail
            return UNCHANGED
        old_epochs = self._epochs
        if is_listed:
            # This is done after the end was found: a broker writes a new epoch before its first batch.
            self._refresh_epochs()
        end = self._end_of(listing, tail)
        truncated_to = None
        if self._directory_inode is not None:
            truncated_to = self._find_truncation(listing.segments, end, old_epochs, is_rewritten=is_rewritten)
        if truncated_to is not None:
            self._locations.clear()
            self._marks = tuple(known for known in self._marks if known.offset <= truncated_to)
            if self._stable is not None and self._stable.end_offset > truncated_to:
                self._stable = None
            if truncated_to >= old_end:
                truncated_to = None
        elif is_listed:
            self._locations.keep(_unchanged(before.segments, listing.segments))
        self._listing, self._tail = listing, tail
        if mark is not None and (not self._marks or self._marks[-1].offset != mark.offset):
            self._marks = (*self._marks, mark)[-MAX_MARKS:]
        if listing.segments and tail.damage_position is None:
            location = OffsetLocation(
                tail.end_position, tail.end_position, False, tail.next_offset, tail.next_offset
            )
            self._locations.add(listing.segments[-1], tail.next_offset, location)
        return LogChange(is_changed, truncated_to)

    @property
    def _log_end_offset(self) -> int:
        return self._end_of(self._listing, self._tail)

    def _end_of(self, listing: LogListing, tail: Tail) -> int:
        return max(tail.next_offset, self._checkpoints.log_start_offset or 0) if listing.segments else 0

    def _read_tail(self, segment: LogSegment) -> tuple[LogSegment, Tail, TailMark | None, bool]:
        """Find the end of the last segment.

        Returns:
            The segment with its current size; its end; its last batch; and whether the file does not have the
            batches any more that were seen before.
        """
        with DataFile(f"{self._directory}/{segment.log}") as file:
            if (file.size_bytes, file.mtime_ms, file.inode) != (
                segment.size_bytes,
                segment.mtime_ms,
                segment.inode,
            ):
                segment = replace(
                    segment, size_bytes=file.size_bytes, mtime_ms=file.mtime_ms, inode=file.inode
                )
            known: Tail | None = None
            is_rewritten = False
            segments = self._listing.segments
            if segments and _is_same_file(segments[-1], segment):
                known = self._tail
                is_rewritten = file.size_bytes < known.end_position or not all(
                    mark.is_in(file) for mark in self._marks[-1:] if mark.is_of(segment)
                )
            tail = find_tail(
                segment,
                file,
                Window(),
                clean_shutdown=self._checkpoints.clean_shutdown,
                max_batch_bytes=self._max_batch_bytes,
                known=None if is_rewritten else known,
            )
            mark = None
            if tail.last_position is not None:
                mark = TailMark.read(segment, file, tail.last_position, tail.next_offset)
            return segment, tail, mark, is_rewritten

    def _find_truncation(
        self,
        segments: Sequence[LogSegment],
        end: int,
        old_epochs: Sequence[EpochEntry],
        *,
        is_rewritten: bool,
    ) -> int | None:
        """Return the offset to which the log was truncated; None if it was not."""
        before, old_end = self._listing.segments, self._log_end_offset
        if not before:
            return None
        now = {(segment.base_offset, segment.inode): segment for segment in segments}
        changed = [before[-1].base_offset] if is_rewritten else []
        # Only the last segment grows or shrinks. A sealed one did so if the log was truncated to within it.
        changed += [
            old.base_offset
            for old in before[:-1]
            if (new := now.get((old.base_offset, old.inode))) is not None and new.size_bytes != old.size_bytes
        ]
        found: int | None = None
        if changed:
            found = max([min(changed), *(mark.offset for mark in self._marks if self._has(mark, now))])
        if self._marks:
            last = self._marks[-1]
            other = diverged(last.offset, last.leader_epoch, self._epochs, max(end, last.offset))
            if other is not None:
                # The end of the epoch in the old log limits what both have in common (KIP-279).
                epoch = end_offset_for_epoch(self._epochs, last.leader_epoch or 0, end)
                if epoch is not None and epoch.epoch < (last.leader_epoch or 0):
                    old = end_offset_for_epoch(old_epochs, epoch.epoch, old_end)
                    other = other if old is None else min(other, old.end_offset)
                found = other if found is None else max(found, other)
        if end < old_end:
            found = end if found is None else min(found, end)
        return found

    def _has(self, mark: TailMark, segments: dict[tuple[int, int], LogSegment]) -> bool:
        """Return whether one of the segments still has the batch of a mark."""
        segment = segments.get((mark.base_offset, mark.inode))
        if segment is None:
            return False
        with DataFile(f"{self._directory}/{segment.log}") as file:
            return mark.is_in(file)

    def _refresh_epochs(self) -> None:
        version = self._version_of(LEADER_EPOCH_CHECKPOINT)
        if version is None or version != self._epochs_version:
            self._epochs = read_leader_epochs(self.path)
            self._epochs_version = version

    def _refresh_topic_id(self) -> None:
        version = self._version_of(PARTITION_METADATA)
        if version is None or version != self._topic_id_version:
            self._topic_id = read_topic_id(self.path)
            self._topic_id_version = version

    def _version_of(self, name: str) -> FileVersion | None:
        now_ns = self._now_ns()
        try:
            return file_version(os.stat(f"{self._directory}/{name}"), now_ns)  # noqa: PTH116
        except FileNotFoundError:
            return None


def _is_same_file(old: LogSegment, new: LogSegment) -> bool:
    return (old.base_offset, old.inode) == (new.base_offset, new.inode)


def _unchanged(before: Sequence[LogSegment], now: Sequence[LogSegment]) -> list[LogSegment]:
    """Return the segments of `now` whose files were there before. Only the last one may have grown."""
    known = {(old.base_offset, old.inode): old for old in before}
    last = before[-1] if before else None
    return [
        new
        for new in now
        if (old := known.get((new.base_offset, new.inode))) is not None and (old.id == new.id or old is last)
    ]
