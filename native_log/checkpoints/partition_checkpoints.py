"""What the checkpoints beside a partition say of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionCheckpoints:
    """Offsets from the checkpoint files of the log directory; None where they have no entry.

    Attributes:
        log_start_offset: what DeleteRecords or retention moved the log's start to.
        high_watermark: up to seconds old, so a lower bound.
        recovery_point: what was flushed.
        first_dirty_offset: how far the cleaner came.
        live: a broker has the directory open. Then the log is read up to the high watermark: what lies above
            may still be truncated.
        clean_shutdown: the broker stopped in good order, and the end of the log is as it left it.
    """

    log_start_offset: int | None = None
    high_watermark: int | None = None
    recovery_point: int | None = None
    first_dirty_offset: int | None = None
    live: bool = False
    clean_shutdown: bool = False


NO_CHECKPOINTS = PartitionCheckpoints()
