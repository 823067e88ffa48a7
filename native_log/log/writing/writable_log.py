"""A partition opened for appending: its directory held, its log found whole."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import LogNeedsRecoveryError
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.replacing.interrupted import finish_interrupted
from native_log.log.writing.appender import LogAppender
from native_log.segment.scan import scan_file
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from native_log.checkpoints.write_session import WriteSession
    from native_log.log.local_log import LocalLog
    from native_log.log.recovery.log_recovery import LogRecovery

_REMEDY = "run kafkalog recover on the log directory: it keeps all that comes before"


@dataclass(frozen=True, slots=True)
class WritableLog:
    """The appender of a log, and the session of its directory that it takes part in.

    Attributes:
        process_id: whose it is. A process that is forked from it has neither the lock nor a say.
    """

    appender: LogAppender
    session: WriteSession
    process_id: int = field(default_factory=os.getpid)

    @classmethod
    def begin(cls, log: LocalLog, now_ms: int) -> WritableLog:
        """Raises as PartitionLog.append says."""
        # The log directory is the layer above; what it owes a log that is opened by itself is asked for here.
        from native_log.checkpoints.write_session import WriteSession

        path = Path(log.path).absolute()
        session = WriteSession.enter(path.parent)
        try:
            session.claim(path)
        except BaseException:
            session.leave()
            raise
        try:
            if session.was_clean:
                fresh = log.reopen()
                _check_end(fresh)
                session.begin()
                finish_interrupted(path, log.max_batch_bytes)
            else:
                _mend_indexes(log)
            return cls(LogAppender(log.reopen(), log.config, now_ms), session)
        except BaseException:
            session.unclaim(path)
            session.leave()
            raise

    def close(self, log: LocalLog) -> None:
        """Raises OSError, LogDirInUseError: what could not be written is then left to recovery."""
        from native_log.checkpoints.write_session import ClosedLog

        closed = None
        try:
            self.session.check_lock()
            if not self.appender.active.is_broken:
                self.appender.close()
                first = self.appender.segments[0].base_offset
                end = self.appender.log_end_offset
                start = log.log_start_offset if log.log_start_offset != first else None
                closed = ClosedLog(end, end, start)
        finally:
            self.appender.abandon()
            self.session.release(Path(log.path).absolute(), (log.topic, log.partition), closed)
            self.session.leave()

    def abandon(self, log: LocalLog) -> None:
        """Give everything back without writing to any file: the log is left as after a crash."""
        self.appender.abandon()
        self.session.release(Path(log.path).absolute(), (log.topic, log.partition), None)
        self.session.leave(write=False)


def _check_end(log: LocalLog) -> None:
    """After a clean shutdown: does the last segment end with a whole batch, its indexes with real entries?"""
    if not log.segments:
        return
    segment = log.segments[-1]
    index = segment.load_offset_index()
    entries = index.health(segment.size_bytes).entries
    start = index.entry(entries - 1)[1] if entries else 0
    with DataFile(str(segment.path)) as file:
        for found in scan_file(
            file, start, file.size_bytes, Window(), check_crcs=True, max_batch_bytes=log.max_batch_bytes
        ):
            valid = found.batches.column("isValid").false_count == 0
        whole = file.size_bytes == 0 or (
            valid and found.status == "end" and found.position == file.size_bytes
        )
    if not whole:
        raise LogNeedsRecoveryError(
            "expected a log that ends with a whole batch, found less, zeros or a wrong checksum at its end; "
            f"{_REMEDY}",
            path=segment.path,
            position=log.end_position(segment),
            offset=log.log_end_offset,
        )
    if log.log_end_offset > log.end_of_last_batch:
        raise LogNeedsRecoveryError(
            f"expected a log that does not end before its start offset {log.log_start_offset}, found its end "
            f"at {log.end_of_last_batch}; run kafkalog recover on the log directory: it begins it anew",
            path=log.path,
        )


def _mend_indexes(log: LocalLog) -> None:
    """Without the mark of a clean shutdown: recover what is derived, refuse where data would be cut."""

    def refuse(plan: LogRecovery) -> None:
        raise LogNeedsRecoveryError(
            f"expected a whole log, found damage that a crash left: {plan.reason}; {_REMEDY}",
            path=plan.truncated[0].segment.path if plan.truncated else log.path,
            position=plan.truncated[0].valid_bytes if plan.truncated else None,
            offset=plan.log_end_offset,
        )

    recover = partial(
        recover_log,
        Path(log.path),
        log_start_offset=log.checkpoints.log_start_offset or 0,
        config=log.config,
        before_cut=refuse,
    )
    recovery_point = log.checkpoints.recovery_point or 0
    last = log.segments[-1].base_offset if log.segments else 0
    # A crash leaves damage at the end: looked for first, it is found before anything is changed.
    recover(recovery_point=max(recovery_point, last), dry_run=True)
    recover(recovery_point=recovery_point)


def current_ms() -> int:
    return time.time_ns() // 1_000_000
