"""Partitions as they were before unfinished writes, for dry runs. A real run rolls such writes back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from native_log.checkpoints.write_intent import WriteIntent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
    from native_log.logdir.discovery import PartitionDir

logger = logging.getLogger(__name__)


def before_unfinished_writes(
    partitions: Sequence[PartitionDir],
) -> dict[PartitionDir, EndBeforeWrite | None]:
    """Return the partitions that existed before unfinished writes, and where their logs ended.

    The end is None if no such write appends to the log. Raises KafkaLogError if a write intent is invalid.
    """
    writes = {}
    for log_dir in dict.fromkeys(partition.path.parent for partition in partitions):
        unfinished = WriteIntent.read(log_dir)
        if unfinished is not None:
            logger.warning(
                "%s: a write was interrupted during its commit, or is not finished yet: what it has written "
                "is left out",
                log_dir,
            )
            writes[log_dir] = unfinished
    ends: dict[PartitionDir, EndBeforeWrite | None] = {}
    for partition in partitions:
        write, name = writes.get(partition.path.parent), partition.path.name
        if write is None or not write.creates(name):
            ends[partition] = None if write is None else write.end_before(name)
    return ends
