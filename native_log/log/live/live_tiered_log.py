"""LiveTieredLog: a local log and its older part in remote storage, kept up to date while a broker writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.log.live.live_files import UNCHANGED
from native_log.log.live.stable_offset import StableOffset
from native_log.log.readable_log import ReadableLog, is_outdated
from native_log.log.sources.joined import JoinedSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.log.live.live_files import LogChange
    from native_log.log.live.live_log import LiveLog
    from native_log.log.log_state import LogState


class LiveTieredLog:
    """A log whose older segments are in remote storage.

    The local log is a live log, which the caller refreshes. Remote storage is looked at when this object is
    created, and again when segments were deleted: local ones were copied before.

    Attributes:
        log: the log when it was last refreshed. Its high watermark is that of the local log.
    """

    def __init__(self, local: LiveLog, join: Callable[[LogState], JoinedSource | None]) -> None:
        """Join a log with remote storage.

        Args:
            local: the local log.
            join: looks at remote storage, and returns the joined log; None: it has no part of it.

        Raises KafkaLogError, OSError.
        """
        self._local = local
        self._join = join
        self._stable: StableOffset | None = None
        self._source = self._join_now()
        self.log = self._snapshot()

    @property
    def path(self) -> Path:
        """The local directory."""
        return self._local.path

    @property
    def directories(self) -> list[str]:
        """The directories to watch: the local one."""
        return self._local.directories

    @property
    def topic_id(self) -> str | None:
        """The topic id: see PartitionLog."""
        return self._local.topic_id

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their start offsets."""
        return self._local.leader_epochs

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of an offset; None if it is unknown."""
        return self._local.epoch_of(offset)

    def advance(self, change: LogChange) -> LogChange:
        """Show the current state of the local log, and return what has changed.

        Args:
            change: what has changed in the local log.

        Raises KafkaLogError, OSError.
        """
        if change is UNCHANGED and not is_outdated(self.log):
            return change
        if change.is_recreated or change.truncated_to is not None:
            self._stable = None  # it may contain transactions that are gone
        state = self._local.log.state
        is_moved = self._joined_at != _starts_of(state) or is_outdated(self.log)
        if change.is_recreated or self._source is None or is_moved:
            self._source = self._join_now()
        else:
            # What was not copied when remote storage was looked at is still here.
            self._source = _extended(self._source, state)
        self.log = self._snapshot()
        return change

    def raise_high_watermark(self, offset: int) -> None:
        """Show at least the records before `offset`, up to the log end offset: see LiveLog."""
        self._local.raise_high_watermark(offset)
        if self._local.log.high_watermark > self.log.high_watermark:
            self.log = self._snapshot()

    def _join_now(self) -> JoinedSource | None:
        state = self._local.log.state
        self._joined_at = _starts_of(state)
        return self._join(state)

    def _snapshot(self) -> ReadableLog:
        local = self._local.log
        if self._source is None:
            return local
        checkpoints = replace(self._source.checkpoints, high_watermark=local.high_watermark, live=True)
        source = replace(self._source, checkpoints=checkpoints)
        state = source.open()
        assert isinstance(state.source, JoinedSource)
        self._source = state.source
        return ReadableLog(state, self._find_stable_offset)

    def _find_stable_offset(self, state: LogState) -> int:
        if self._stable is None:
            self._stable = StableOffset(state)
        return self._stable.advance(state)


def _starts_of(local: LogState) -> tuple[int, int]:
    """Return what changes when segments are deleted: the first offset of the log, and the first local one."""
    return local.log_start_offset, local.local_log_start_offset


def _extended(source: JoinedSource, local: LogState) -> JoinedSource:
    """Return the joined log with the present end of the local one."""
    *before, last = source.parts
    span = replace(last.span, end_offset=max(last.span.start_offset, local.log_end_offset))
    return replace(
        source,
        parts=(*before, replace(last, span=span)),
        spares=(),  # they are for damage at the end of the last join
        log_end_offset=span.end_offset,
        has_damaged_end=False,
    )
