"""Say that records are above the checkpointed high watermark, and so not read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.log import PartitionLog
    from native_log.logdir import LogDir

logger = logging.getLogger(__name__)


def warn_of_hidden_records(log_dir: LogDir, logs: Iterable[PartitionLog]) -> None:
    """Log one warning if logs have records above the high watermark at which reading ends.

    A broker checkpoints high watermarks every 5 seconds (replica.high.watermark.checkpoint.interval.ms). So
    after a start or a commit, what was just written is not read yet.
    """
    # The records of an unfinished write are above the end, too. They will never be read.
    unfinished = {state.path for state in log_dir.directories if state.unfinished is not None}
    hidden = [
        log.log_end_offset - log.high_watermark
        for log in logs
        if log.high_watermark < log.log_end_offset and log.path.parent not in unfinished
    ]
    if hidden:
        logger.warning(
            "%s not read in %s: above the high watermark that the broker checkpointed last, which it does "
            "every 5 seconds; try again, or use --high-watermark ignore",
            format_count(sum(hidden), "offset is", "offsets are"),
            format_count(len(hidden), "partition"),
        )
