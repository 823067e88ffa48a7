"""One partition's entries in the checkpoint files of its log directory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionCheckpoints:
    """One partition's entries in the checkpoint files, and the state of the log directory.

    Attributes:
        log_start_offset: the log start offset after DeleteRecords or retention; None: no entry.
        high_watermark: the high watermark some seconds ago, and so a lower bound; None: no entry.
        recovery_point: the offset up to which (exclusive) the log was flushed to disk; None: no entry.
        first_dirty_offset: the offset up to which (exclusive) the log was compacted; None: no entry.
        live: a broker has the directory open. The log is then read up to the high watermark, because records
            above it may still be truncated.
        clean_shutdown: the broker shut down cleanly, so the end of the log is not damaged by a crash.
    """

    log_start_offset: int | None = None
    high_watermark: int | None = None
    recovery_point: int | None = None
    first_dirty_offset: int | None = None
    live: bool = False
    clean_shutdown: bool = False


NO_CHECKPOINTS = PartitionCheckpoints()
