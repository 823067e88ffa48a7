"""Open a log for appending: lock its log directory, and check that it needs no recovery."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.write_session import ClosedLog, WriteSession
from native_log.errors import LogNeedsRecoveryError
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.replacing.interrupted import finish_interrupted
from native_log.log.writing.appender import LogAppender
from native_log.segment.scan import scan_file
from native_log.storage import Window

if TYPE_CHECKING:
    from native_log.config import LogConfig
    from native_log.log.log_state import LogState
    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.log.sources.directory import DirectorySource

_REMEDY = "run kafkalog recover on the log directory, which keeps everything before the damage"


@dataclass(frozen=True, slots=True)
class WritableLog:
    """A log opened for appending.

    Attributes:
        source: the log.
        log_start_offset: its first offset.
        appender: appends batches to the log.
        session: the write session of the log directory.
        process_id: the process that opened the log. A process forked from it does not hold the lock, and must
            not write.
    """

    source: DirectorySource
    log_start_offset: int
    appender: LogAppender
    session: WriteSession
    process_id: int = field(default_factory=os.getpid)

    @classmethod
    def begin(cls, source: DirectorySource, config: LogConfig, now_ms: int) -> WritableLog:
        """Lock the log directory and open a log for appending. Raises the errors of PartitionLog.append."""
        path = Path(source.path).absolute()
        session = WriteSession.enter(path.parent)
        try:
            session.claim(path)
        except BaseException:
            session.leave()
            raise
        try:
            if session.was_clean:
                _check_end(source.open())
                session.begin()
                finish_interrupted(path, source.max_batch_bytes)
            else:
                _recover_indexes(source.open(), config)
            state = source.open()
            return cls(source, state.log_start_offset, LogAppender(state, config, now_ms), session)
        except BaseException:
            session.unclaim(path)
            session.leave()
            raise

    def close(self) -> None:
        """Complete the log, write its checkpoints and leave the session.

        Raises OSError, LogDirInUseError. The log directory is then not marked as cleanly shut down, so that
        the log is recovered when the directory is next opened for writing.
        """
        closed = None
        try:
            self.session.check_lock()
            if not self.appender.active.is_broken:
                self.appender.close()
                first = self.appender.segments[0].base_offset
                end = self.appender.log_end_offset
                start = self.log_start_offset if self.log_start_offset != first else None
                closed = ClosedLog(end, end, start)
        finally:
            self.appender.abandon()
            self._release(closed)
            self.session.leave()

    def abandon(self) -> None:
        """Leave the session without writing to any file. The log is left as after a crash."""
        self.appender.abandon()
        self._release(None)
        self.session.leave(write=False)

    def _release(self, closed: ClosedLog | None) -> None:
        source = self.source
        self.session.release(Path(source.path).absolute(), (source.topic, source.partition), closed)


def _check_end(log: LogState) -> None:
    """After a clean shutdown, raise LogNeedsRecoveryError if the log does not end with a whole batch."""
    if not log.segments:
        return
    segment = log.segments[-1]
    index = segment.load_offset_index()
    entries = index.health(segment.size_bytes).entries
    start = index.entry(entries - 1)[1] if entries else 0
    with segment.open() as file:
        for scanned in scan_file(
            file, start, file.size_bytes, Window(), check_crcs=True, max_batch_bytes=log.max_batch_bytes
        ):
            valid = scanned.batches.column("isValid").false_count == 0
        whole = file.size_bytes == 0 or (
            valid and scanned.status == "end" and scanned.position == file.size_bytes
        )
    if not whole:
        raise LogNeedsRecoveryError(
            "expected a log that ends with a whole batch, found an incomplete batch, zeros or a wrong "
            f"checksum; {_REMEDY}",
            path=segment.path,
            position=log.end_position(segment),
            offset=log.log_end_offset,
        )
    if log.log_end_offset > log.tail.next_offset:
        raise LogNeedsRecoveryError(
            f"expected a log that does not end before its start offset {log.log_start_offset}, found its end "
            f"at {log.tail.next_offset}; run kafkalog recover on the log directory, which empties the log",
            path=log.path,
        )


def _recover_indexes(log: LogState, config: LogConfig) -> None:
    """Recover indexes, producer state and leader epochs after an unclean shutdown.

    Raises LogNeedsRecoveryError if a recovery would truncate the log. No .log file is changed.
    """

    def reject(plan: LogRecovery) -> None:
        raise LogNeedsRecoveryError(
            f"expected an undamaged log, found damage after an unclean shutdown: {plan.reason}; {_REMEDY}",
            path=plan.truncated[0].segment.path if plan.truncated else log.path,
            position=plan.truncated[0].valid_bytes if plan.truncated else None,
            offset=plan.log_end_offset,
        )

    recover = partial(
        recover_log,
        Path(log.path),
        log_start_offset=log.checkpoints.log_start_offset or 0,
        config=config,
        before_cut=reject,
    )
    recovery_point = log.checkpoints.recovery_point or 0
    last = log.segments[-1].base_offset if log.segments else 0
    # A crash damages the end of the log. So check the last segment first, before anything is changed.
    recover(recovery_point=max(recovery_point, last), dry_run=True)
    recover(recovery_point=recovery_point)
