"""LiveMergedLog: several copies of a log as one log, kept up to date while brokers write to them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import epoch_of
from native_log.errors import KafkaLogError, LogTruncatedError, error_message
from native_log.log.live.divergence import diverged
from native_log.log.live.live_files import UNCHANGED, LogChange
from native_log.log.live.stable_offset import StableOffset
from native_log.log.readable_log import ReadableLog, is_outdated
from native_log.log.replicas.merge import merge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.log.live.live_log import LiveLog
    from native_log.log.log_state import LogState
    from native_log.log.sources.joined import JoinedSource
    from native_log.policies import Gaps

logger = logging.getLogger(__name__)


class LiveMergedLog:
    """Several copies of a log, which are merged again whenever one of them changes.

    If there is remote storage, the merged log is joined with it each time.

    The copies are live logs, which the caller refreshes. `advance` merges them, which costs as much as
    opening them.

    Attributes:
        log: the log when it was last merged. Its high watermark is never lower than before, unless the log
            was truncated or recreated.
    """

    def __init__(
        self,
        copies: Sequence[LiveLog],
        gaps: Gaps,
        join: Callable[[LogState], JoinedSource | None] | None = None,
    ) -> None:
        """Merge copies.

        Args:
            copies: the copies, at least one.
            gaps: whether compaction explains offsets that no batch of a copy has.
            join: see LiveTieredLog; None: there is no remote storage.

        Raises:
            KafkaLogError: the copies have different topic ids.
            FileNotFoundError, LogTruncatedError: a broker has removed or replaced a file since the copies
                were refreshed.
            OSError: a file cannot be read.
        """
        self._join = join
        self._copies = tuple(copies)
        self._gaps = gaps
        self._reported: set[str] = set()
        self._stable: StableOffset | None = None
        self._unmerged: list[LogChange] = []
        self._source = self._merge(self._copies)
        self.log = self._snapshot(0)

    @property
    def path(self) -> Path:
        """The directory of the leading copy."""
        return self.log.path

    @property
    def directories(self) -> list[str]:
        """The directories of all copies."""
        return [directory for copy in self._copies for directory in copy.directories]

    @property
    def topic_id(self) -> str | None:
        """The topic id: see PartitionLog."""
        return self.log.topic_id

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs of the leading copy, and their start offsets."""
        return self.log.leader_epochs

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of an offset; None if it is unknown."""
        return epoch_of(self.leader_epochs, offset)

    def advance(self, copies: Sequence[LiveLog], changes: Iterable[LogChange]) -> LogChange:
        """Show the current state of the copies.

        Args:
            copies: the copies that exist now, at least one.
            changes: what has changed in the copies since the last call.

        Returns:
            What has changed in the merged log. As long as copies have different topic ids, because not all of
            them were created again yet, nothing changes.

        Raises FileNotFoundError, LogTruncatedError, OSError: see `__init__`. The next call merges these
        changes, too.
        """
        self._unmerged += [change for change in changes if change is not UNCHANGED]
        if self.shows(copies) and not self._unmerged and not is_outdated(self.log):
            return UNCHANGED
        before = self.log
        try:
            self._source = self._merge(copies)
        except LogTruncatedError:
            raise
        except KafkaLogError as error:
            self._warn(error_message(error))
            return UNCHANGED
        self._copies = tuple(copies)
        self.log = self._snapshot(0)
        changed, self._unmerged = self._unmerged, []
        if None not in (before.topic_id, self.log.topic_id) and before.topic_id != self.log.topic_id:
            self._stable = None
            return LogChange(True, None, is_recreated=True)
        truncated_to = self._truncated_to(before, changed)
        floor = before.high_watermark if truncated_to is None else min(truncated_to, before.high_watermark)
        self.raise_high_watermark(floor)
        if truncated_to is not None:
            self._stable = None  # it may contain transactions that are gone
        return LogChange(truncated_to is not None or self._is_different(before), truncated_to)

    def shows(self, copies: Sequence[LiveLog]) -> bool:
        """Return whether these copies are the ones that were last merged."""
        return self._copies == tuple(copies)

    def raise_high_watermark(self, offset: int) -> None:
        """Show at least the records before `offset`, up to the log end offset: see LiveLog."""
        offset = min(offset, self.log.log_end_offset)
        if offset > self.log.high_watermark:
            self.log = self._snapshot(offset)

    def _merge(self, copies: Sequence[LiveLog]) -> JoinedSource:
        source = merge([copy.log.state for copy in copies], self._gaps, warn=self._warn)
        joined = None if self._join is None else self._join(source.open())
        return source if joined is None else joined

    def _warn(self, message: str) -> None:
        """Log a warning once: most of them are true after each merge."""
        if message not in self._reported:
            self._reported.add(message)
            logger.warning("%s", message)

    def _snapshot(self, high_watermark: int) -> ReadableLog:
        """Return the merged log with at least the given high watermark."""
        source = self._source
        if source.checkpoints.high_watermark is not None:
            high_watermark = max(source.checkpoints.high_watermark, high_watermark)
            source = replace(source, checkpoints=replace(source.checkpoints, high_watermark=high_watermark))
        state = source.open()
        # They are read when they are first needed, but must be those of this moment.
        _ = state.leader_epochs, state.topic_id
        return ReadableLog(state, self._find_stable_offset)

    def _find_stable_offset(self, state: LogState) -> int:
        if self._stable is None:
            self._stable = StableOffset(state)
        return self._stable.advance(state)

    def _truncated_to(self, before: ReadableLog, changed: Sequence[LogChange]) -> int | None:
        """Return the offset to which the merged log was truncated; None if it was not.

        A copy that leads now, and has the same epochs, has the same records. Without epochs, a truncation of
        a copy counts.
        """
        old_end, new_end = before.log_end_offset, self.log.log_end_offset
        epochs = before.leader_epochs
        epoch = epoch_of(epochs, old_end - 1) if old_end else None
        found = diverged(old_end, epoch, self.leader_epochs, max(new_end, old_end), read_entries=epochs)
        offsets = [] if found is None else [found]
        if new_end < old_end:
            offsets.append(new_end)
        if not self.leader_epochs:
            offsets += [change.truncated_to for change in changed if change.truncated_to is not None]
        lowest = min(offsets, default=old_end)
        return lowest if lowest < old_end else None

    def _is_different(self, before: ReadableLog) -> bool:
        now = self.log
        return (before.log_start_offset, before.log_end_offset, before.high_watermark) != (
            now.log_start_offset,
            now.log_end_offset,
            now.high_watermark,
        ) or [segment.id for segment in before.segments] != [segment.id for segment in now.segments]
