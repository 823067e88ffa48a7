"""One partition's entries in the checkpoint files of its log directory."""

from __future__ import annotations

from dataclasses import dataclass

from native_log.checkpoints.names import REMOTE_LOG_METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import LOG_START_OFFSET_CHECKPOINT


@dataclass(frozen=True, slots=True)
class EndBeforeWrite:
    """Where a log ended before an unfinished write appended to it.

    Attributes:
        offset: the log end offset.
        base_offset: the base offset of the last segment.
        size_bytes: the size of the .log file of that segment.
    """

    offset: int
    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionCheckpoints:
    """One partition's entries in the checkpoint files, and the state of the log directory.

    Attributes:
        log_start_offset: the log start offset after DeleteRecords or retention; None: no entry.
        high_watermark: the offset up to which (exclusive) a log with `live` is read: the checkpointed high
            watermark, 0 if replication-offset-checkpoint has no entry yet, or the end that an unfinished
            write found; None: there is no such file.
        checkpointed_high_watermark: the newest entry in a replication-offset-checkpoint of the broker, which
            is some seconds old and so a lower bound; None: no entry.
        before_write: where the log ended before an unfinished write appended to it. Later batches are not
            part of the log yet. None: there is no such write.
        recovery_point: the offset up to which (exclusive) the log was flushed to disk; None: no entry.
        first_dirty_offset: the offset up to which (exclusive) the log was compacted; None: no entry.
        live: a broker has the directory open. The log is then read up to the high watermark, because records
            above it may still be truncated.
        clean_shutdown: the broker shut down cleanly, so the end of the log is not damaged by a crash.
        remote_start_offset: the first offset in remote storage (KIP-405), as __remote_log_metadata records
            it; None: it is not needed, because log_start_offset is there, or not known.
    """

    log_start_offset: int | None = None
    high_watermark: int | None = None
    checkpointed_high_watermark: int | None = None
    before_write: EndBeforeWrite | None = None
    recovery_point: int | None = None
    first_dirty_offset: int | None = None
    live: bool = False
    clean_shutdown: bool = False
    remote_start_offset: int | None = None

    @property
    def stored_start(self) -> tuple[int, str] | None:
        """The log start offset, and the file or topic that has it; None: it is the first local offset."""
        if self.log_start_offset is not None:
            return self.log_start_offset, LOG_START_OFFSET_CHECKPOINT
        if self.remote_start_offset is not None:
            return self.remote_start_offset, REMOTE_LOG_METADATA_TOPIC
        return None

    def start_before(self, local_start_offset: int) -> int:
        """Return the log start offset of a log whose first local offset is `local_start_offset`."""
        start = self.stored_start
        return local_start_offset if start is None else min(start[0], local_start_offset)


NO_CHECKPOINTS = PartitionCheckpoints()
