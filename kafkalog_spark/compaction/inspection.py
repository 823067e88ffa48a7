"""Tasks that inspect partitions, and compact those that one task can compact."""

from __future__ import annotations

import logging
import pickle
import socket
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.messages import LargePartition, PartitionResult, StagedGroup
from native_log.compaction.compactor import skip_ineligible
from native_log.compaction.delete_policy import add_planned_deletions
from native_log.compaction.rewrite import rewrite_group
from native_log.compaction.rounds import find_cleanable_range, plan_round
from native_log.compaction.statistics import cleaned_partition, failed_partition
from native_log.compaction.survey import Survey
from native_log.compaction.survivors import TooManyKeysError, plan_and_find_survivors
from native_log.errors import KafkaLogError
from native_log.log import PartitionLog
from native_log.log.changing_files import retry_changed
from native_log.log.producers.open_transactions import has_transactions
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.segment.damage import DamagedRange
from native_log.storage import LOCAL
from native_log.storage.ownership import create_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.compaction.messages import InspectionTask, PartitionToCompact, RunSettings
    from native_log.compaction.eligibility import CleanableRange

logger = logging.getLogger(__name__)


def inspect_partitions(batches: Iterator[pa.RecordBatch], settings: RunSettings) -> Iterator[pa.RecordBatch]:
    """Yield a PartitionResult for each partition of the InspectionTasks in the rows."""
    for row in rows(batches):
        task: InspectionTask = pickle.loads(row.payload)  # noqa: S301 (written by the driver)
        for partition in task.partitions:
            result = inspect_partition(partition, settings, compact_whole=task.compact_whole)
            yield row_batch(row.number, pickle.dumps(result))


def inspect_partition(
    partition: PartitionToCompact, settings: RunSettings, *, compact_whole: bool
) -> PartitionResult:
    """Find out what has to be done with a partition.

    Args:
        compact_whole: also compact the partition, if its keys fit in memory.
    """
    directory = partition.directory
    if directory.storage is LOCAL and not Path(directory.path).is_dir():
        return PartitionResult(directory, invisible_from=socket.gethostname())
    inspect = partial(_inspect, partition, settings, compact_whole)
    try:
        # During a dry run, a broker may be changing the log.
        return retry_changed(inspect) if settings.dry_run else inspect()
    except (KafkaLogError, OSError) as error:
        stats = failed_partition(directory.topic, directory.partition, str(error))
        return PartitionResult(directory, statistics=stats)


def _inspect(partition: PartitionToCompact, settings: RunSettings, compact_whole: bool) -> PartitionResult:
    directory, policy = partition.directory, partition.policy
    log = PartitionLog(directory.open())
    cleanable = find_cleanable_range(log, policy.config, settings.now_ms)
    if not cleanable.is_candidate(policy.config):
        stats = skip_ineligible(log, cleanable, policy)
        stats = add_planned_deletions(stats, log, policy.config, settings.now_ms)
        return PartitionResult(directory, statistics=stats)
    if compact_whole:
        try:
            return _compact_whole(log, partition, cleanable, settings)
        except TooManyKeysError:
            logger.info("%s: its keys do not fit in the memory of one task", log.path)
    return PartitionResult(directory, large_partition=_large_partition(log, partition, cleanable, settings))


def _compact_whole(
    log: PartitionLog, partition: PartitionToCompact, cleanable: CleanableRange, settings: RunSettings
) -> PartitionResult:
    """Compact the log into the staging directory. Raises TooManyKeysError if its keys need several maps."""
    directory, config = partition.directory, partition.policy.config
    round, survivors, null_keys = plan_and_find_survivors(
        log, cleanable, config, settings.now_ms, settings.buffer_bytes, max_maps=1
    )
    results, staged = [], []
    for group in round.groups:
        attempt = create_attempt_directory(round.source.path, settings)
        results.append(rewrite_group(round, group, survivors, attempt))
        if attempt is not None:
            staged.append(StagedGroup(group.base_offsets, attempt.name))
    was_cleaned = directory.checkpoints.first_dirty_offset is not None
    stats = cleaned_partition(round, cleanable, results, null_keys, was_cleaned, partition.policy.note)
    groups = zip(round.groups, results, strict=True)
    stats = add_planned_deletions(stats, log, config, settings.now_ms, groups)
    return PartitionResult(directory, statistics=stats, staged=tuple(staged))


def _large_partition(
    log: PartitionLog, partition: PartitionToCompact, cleanable: CleanableRange, settings: RunSettings
) -> LargePartition:
    provisional_round = plan_round(log, cleanable, partition.policy.config, settings.now_ms, Survey())
    segments = tuple((segment.base_offset, segment.size_bytes) for segment in log.segments)
    return LargePartition(
        partition.directory,
        partition.policy,
        cleanable,
        provisional_round,
        _begins_without_transactions(log, cleanable),
        segments,
    )


def _begins_without_transactions(log: PartitionLog, cleanable: CleanableRange) -> bool:
    """Return whether the first batches from the first dirty offset on belong to no transaction."""
    for _, scanned in log.state.headers(cleanable.first_dirty_offset, DamagedRange.reject):
        if scanned.batches.num_rows:
            return not has_transactions(scanned.batches)
    return True


def create_attempt_directory(path: str, settings: RunSettings) -> Path | None:
    """Create a directory for the files of this attempt of a task; None in a dry run.

    Spark may run several attempts of a task. The driver uses the files of one attempt and removes the others
    together with the staging directory. An attempt that is still running after the end of the run finds the
    staging directory gone, and leaves nothing.

    Args:
        path: the partition directory.
    """
    if settings.dry_run:
        return None
    attempt = Path(path, STAGING_DIRECTORY, uuid.uuid4().hex)
    create_directory(attempt)
    return attempt
