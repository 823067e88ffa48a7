"""The driver's part at the end: new segments put in place, and what is saved about it. Under the lock."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.messages import failed
from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, update_partition_checkpoints
from native_log.log.replacing.interrupted import STAGING_DIRECTORY, tidy_up
from native_log.log.replacing.swap import move_to_cleaned, swap_in
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage.writing import remove_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_spark.compaction.messages import Inspected
    from native_log.compaction.statistics import PartitionStatistics

logger = logging.getLogger(__name__)

THREADS = 16
"""They wait for the disk."""


def publish(done: Sequence[Inspected]) -> list[PartitionStatistics]:
    """Puts what was staged in place, and tells what came of it."""
    with ThreadPoolExecutor(THREADS, "publish") as pool:
        told = list(pool.map(_put_in_place, done))
    offsets = {
        Path(looked.directory.path): (stats.topic, stats.partition, stats.end_offset)
        for looked, stats in zip(done, told, strict=True)
        if stats.status == "cleaned" and stats.end_offset is not None
    }
    update_partition_checkpoints(CLEANER_OFFSET_CHECKPOINT, offsets)
    return told


def _put_in_place(looked: Inspected) -> PartitionStatistics:
    """A few renames for each group; the disk is waited for twice."""
    assert looked.statistics is not None
    directory = Path(looked.directory.path)
    try:
        for one in looked.staged:
            move_to_cleaned(directory, directory / STAGING_DIRECTORY / one.attempt, one.base_offsets[0])
        if looked.staged:
            swap_in(directory, *(one.base_offsets for one in looked.staged))
        remove_staged([directory])
    except OSError as error:
        logger.warning("%s-%d: %s", looked.directory.topic, looked.directory.partition, error)
        tidy_up(directory, DEFAULT_MAX_BATCH_BYTES)
        return failed(looked.directory, error)
    return looked.statistics


def remove_staged(directories: Iterable[str | Path]) -> None:
    """What tasks left beside these logs, whatever became of them, and what they are still about to."""
    for directory in directories:
        remove_folder(Path(directory, STAGING_DIRECTORY))
