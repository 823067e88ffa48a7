"""LiveLog: the log in one partition directory, kept up to date while a broker writes to it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import end_offset_for_epoch, epoch_of
from native_log.log.live.live_files import UNCHANGED, LiveFiles, LogChange
from native_log.log.live.stable_offset import StableOffset
from native_log.log.readable_log import ReadableLog
from native_log.storage import path_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.checkpoints.leader_epochs import EpochEndOffset, EpochEntry
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.log_state import LogState
    from native_log.log.sources.directory import DirectorySource


class LiveLog:
    """The log in one partition directory, which `refresh` brings up to date without opening it again.

    No file is kept open. The memory that is used for a log is bounded, apart from the list of its segments.

    Attributes:
        log: the log when it was last refreshed. Its high watermark is never lower than before, unless the log
            was truncated or recreated.
    """

    def __init__(self, source: DirectorySource, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        """Open a log.

        Args:
            source: the log. Its checkpoints must have been read before this call: see `refresh`.
            now_ns: the clock, in epoch ns.

        Raises: as LogSource.open.
        """
        self._source = source
        self._files = LiveFiles(source.folder, source.max_batch_bytes, now_ns)
        self._stable: StableOffset | None = None
        self._change = UNCHANGED
        self.read_files()
        self._change = UNCHANGED
        self.log = self._snapshot(0)

    def __repr__(self) -> str:
        return (
            f"LiveLog({self._source.path!r}, offsets {self.log.local_log_start_offset} to "
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
        return self.advance(self._source.checkpoints if checkpoints is None else checkpoints)

    def read_files(self) -> bool:
        """Do the first part of `refresh`: read what is new, and return whether anything is.

        Raises: as `refresh`.
        """
        change = self._files.read(clean_shutdown=self._source.checkpoints.clean_shutdown)
        if change is not UNCHANGED:
            self._change = change if self._change is UNCHANGED else self._change.and_then(change)
        return self._change is not UNCHANGED

    def advance(self, checkpoints: PartitionCheckpoints) -> LogChange:
        """Do the second part of `refresh`: show the new state, up to the high watermark in the checkpoints.

        Args:
            checkpoints: see `refresh`.
        """
        change, self._change = self._change, UNCHANGED
        if change is UNCHANGED and checkpoints == self._source.checkpoints:
            return UNCHANGED
        self._source = replace(self._source, checkpoints=checkpoints)
        before = self.log
        floor = 0 if change.is_recreated else before.high_watermark
        if change.truncated_to is not None:
            floor = min(floor, change.truncated_to)
        self.log = self._snapshot(floor)
        if self._stable is not None and (floor < before.high_watermark or change.is_recreated):
            self._stable = None  # it may contain transactions that are gone
        is_same = _offsets(before) == _offsets(self.log)
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

    def move(self, path: Path) -> None:
        """Continue with the directory to which a broker has moved the partition, from the next refresh on."""
        self._source = replace(self._source, path=os.fspath(path))
        self._files.move(self._source.path)

    @property
    def path(self) -> Path:
        """The directory of the partition."""
        return path_of(self._source.path)

    @property
    def directories(self) -> list[str]:
        """The directories to watch: this one."""
        return [self._source.path]

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
        return end_offset_for_epoch(self.leader_epochs, epoch, self.log.log_end_offset)

    def _snapshot(self, high_watermark: int) -> ReadableLog:
        """Return the current state as a log whose high watermark is at least the given one."""
        files = self._files
        state = self._source.state(
            files.listing, files.tail, high_watermark=high_watermark, locations=files.locations
        )
        return ReadableLog(state, self._find_stable_offset)

    def _find_stable_offset(self, state: LogState) -> int:
        """Read only the batch headers between the last high watermark and the current one."""
        if self._stable is None:
            self._stable = StableOffset(state)
        return self._stable.advance(state)


def _offsets(log: ReadableLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.high_watermark, log.log_end_offset
