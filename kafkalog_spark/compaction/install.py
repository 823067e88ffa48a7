"""Install the new segments. The driver does this last, and holds the locks of the log directories."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, update_partition_checkpoints
from native_log.compaction.statistics import failed_partition
from native_log.log.replacing.interrupted import STAGING_DIRECTORY, try_finish_interrupted
from native_log.log.replacing.swap import move_from_staging, replace_segments
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage.writing import remove_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_spark.compaction.messages import PartitionResult
    from native_log.compaction.statistics import PartitionStatistics

logger = logging.getLogger(__name__)

THREADS = 16
"""More threads than cores, because they mostly wait for the disk."""


def install_segments(results: Sequence[PartitionResult]) -> list[PartitionStatistics]:
    """Put the staged segments of all partitions in place, and save the first dirty offsets.

    Returns:
        The statistics of each partition, with status "failed" if its segments could not be installed.
    """
    with ThreadPoolExecutor(THREADS, "install") as pool:
        statistics = list(pool.map(_install_partition, results))
    offsets = {
        Path(result.directory.path): (stats.topic, stats.partition, stats.end_offset)
        for result, stats in zip(results, statistics, strict=True)
        if stats.status == "cleaned" and stats.end_offset is not None
    }
    update_partition_checkpoints(CLEANER_OFFSET_CHECKPOINT, offsets)
    return statistics


def _install_partition(result: PartitionResult) -> PartitionStatistics:
    """Replace the old segments: a few renames for each group, and two flushes of the directory in total."""
    assert result.statistics is not None
    directory = Path(result.directory.path)
    try:
        for group in result.staged:
            move_from_staging(directory, directory / STAGING_DIRECTORY / group.attempt, group.base_offsets[0])
        if result.staged:
            replace_segments(directory, *(group.base_offsets for group in result.staged))
        remove_staging([directory])
    except OSError as error:
        topic, partition = result.directory.topic, result.directory.partition
        logger.warning("installing the segments of %s-%d failed: %s", topic, partition, error)
        try_finish_interrupted(directory, DEFAULT_MAX_BATCH_BYTES)
        return failed_partition(topic, partition, str(error))
    return result.statistics


def remove_staging(directories: Iterable[str | Path]) -> None:
    """Remove the staging directories of these partition directories.

    Tasks that are still running fail, because they can no longer create files there.
    """
    for directory in directories:
        remove_folder(Path(directory, STAGING_DIRECTORY))
