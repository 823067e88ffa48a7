"""Tasks that look into partitions, and clean those that one task can."""

from __future__ import annotations

import logging
import pickle
import socket
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.messages import Inspected, LargePartition, Staged, failed
from native_log.compaction import statistics
from native_log.compaction.compactor import skip_uncleanable
from native_log.compaction.delete_policy import with_deletion
from native_log.compaction.rewrite import rewrite_group
from native_log.compaction.rounds import find_cleanable, plan_round
from native_log.compaction.survey import Survey
from native_log.compaction.survivors import TooManyKeysError, plan_and_find_survivors
from native_log.errors import KafkaLogError
from native_log.log.producers.open_transactions import has_transactions
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.segment.damage import DamagedRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.compaction.messages import LogToClean, Settings, Task
    from native_log.compaction.eligibility import Cleanable
    from native_log.log import PartitionLog

logger = logging.getLogger(__name__)


def look(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """Tasks -> what each partition came to (Inspected)."""
    for asked in rows(batches):
        task: Task = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        for log in task.logs:
            found = inspect_partition(log, settings, whole=task.whole)
            yield row_batch(asked.number, pickle.dumps(found))


def inspect_partition(large_partition: LogToClean, settings: Settings, *, whole: bool) -> Inspected:
    directory, policy = large_partition.directory, large_partition.policy
    if not Path(directory.path).is_dir():
        return Inspected(directory, invisible_from=socket.gethostname())
    try:
        log = directory.open()
        found = find_cleanable(log, policy.config, settings.now_ms)
        if not found.is_candidate(policy.config):
            told = skip_uncleanable(log, found, policy)
            return Inspected(directory, statistics=with_deletion(told, log, policy.config, settings.now_ms))
        if whole:
            try:
                return _cleaned(log, large_partition, found, settings)
            except TooManyKeysError:
                logger.info("%s: its keys do not fit in the memory of one task", log.path)
        return Inspected(directory, large_partition=_to_clean(log, large_partition, found, settings))
    except (KafkaLogError, OSError) as error:
        return Inspected(directory, statistics=failed(directory, error))


def _cleaned(
    log: PartitionLog, large_partition: LogToClean, found: Cleanable, settings: Settings
) -> Inspected:
    """Raises TooManyKeysError: they do not fit in the memory of one task."""
    directory, config = large_partition.directory, large_partition.policy.config
    round, survivors, null_keys = plan_and_find_survivors(
        log, found, config, settings.now_ms, settings.buffer_bytes, most_maps=1
    )
    done, staged = [], []
    for group in round.groups:
        attempt = staging(round.path, settings)
        done.append(rewrite_group(round, group, survivors, attempt))
        if attempt is not None:
            staged.append(Staged(group.base_offsets, attempt.name))
    was_cleaned = directory.checkpoints.first_dirty_offset is not None
    stats = sum(done, statistics.GroupStatistics())
    told = statistics.cleaned(round, found, stats, null_keys, was_cleaned, large_partition.policy.note)
    told = with_deletion(told, log, config, settings.now_ms, zip(round.groups, done, strict=True))
    return Inspected(directory, statistics=told, staged=tuple(staged))


def _to_clean(
    log: PartitionLog, large_partition: LogToClean, found: Cleanable, settings: Settings
) -> LargePartition:
    directory, policy = large_partition.directory, large_partition.policy
    plain = plan_round(log, found, policy.config, settings.now_ms, Survey())
    segments = tuple((segment.base_offset, segment.size_bytes) for segment in log.segments)
    return LargePartition(directory, policy, found, plain, _seems_plain(log, found), segments)


def _seems_plain(log: PartitionLog, found: Cleanable) -> bool:
    """Whether there are no transactions among the first of what is to be cleaned."""
    for _, scanned in log.headers(found.first_dirty_offset, DamagedRange.refuse):
        if scanned.batches.num_rows:
            return not has_transactions(scanned.batches)
    return True


def staging(path: str, settings: Settings) -> Path | None:
    """A directory of this attempt's own.

    Of a task tried again, or tried twice at a time, the driver takes one attempt and leaves the other's
    files, which go with the staging directory. That is the driver's: an attempt that outlives the run finds
    it gone, and leaves nothing.
    """
    if settings.dry_run:
        return None
    attempt = Path(path, STAGING_DIRECTORY, uuid.uuid4().hex)
    attempt.mkdir()
    return attempt
