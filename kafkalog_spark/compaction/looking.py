"""Tasks that look into partitions, and clean those that one task can."""

from __future__ import annotations

import logging
import pickle
import socket
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.values import Looked, Staged, ToClean, failed
from native_log.cleaner import statistics
from native_log.cleaner.deletion import with_deletion
from native_log.cleaner.local import not_worth_it
from native_log.cleaner.plan import plan_round, what_is_cleanable
from native_log.cleaner.rewriting import rewrite_group
from native_log.cleaner.survey import Survey
from native_log.cleaner.survivors import TooManyKeysError, plan_and_find
from native_log.errors import KafkaLogError
from native_log.log.producers.open_transactions import has_transactions
from native_log.log.recovery.interrupted import STAGING_DIRECTORY
from native_log.segment.damage import DamagedRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.compaction.values import LogToClean, Settings, Task
    from native_log.cleaner.eligibility import Cleanable
    from native_log.log import PartitionLog

logger = logging.getLogger(__name__)


def look(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """Tasks -> what each partition came to (Looked)."""
    for asked in rows(batches):
        task: Task = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        for log in task.logs:
            found = look_at(log, settings, whole=task.whole)
            yield row_batch(asked.number, pickle.dumps(found))


def look_at(to_clean: LogToClean, settings: Settings, *, whole: bool) -> Looked:
    directory, policy = to_clean.directory, to_clean.policy
    if not Path(directory.path).is_dir():
        return Looked(directory, invisible_from=socket.gethostname())
    try:
        log = directory.open()
        found = what_is_cleanable(log, policy.config, settings.now_ms)
        if not found.is_candidate(policy.config):
            told = not_worth_it(log, found, policy)
            return Looked(directory, statistics=with_deletion(told, log, policy.config, settings.now_ms))
        if whole:
            try:
                return _cleaned(log, to_clean, found, settings)
            except TooManyKeysError:
                logger.info("%s: its keys do not fit in the memory of one task", log.path)
        return Looked(directory, to_clean=_to_clean(log, to_clean, found, settings))
    except (KafkaLogError, OSError) as error:
        return Looked(directory, statistics=failed(directory, error))


def _cleaned(log: PartitionLog, to_clean: LogToClean, found: Cleanable, settings: Settings) -> Looked:
    """Raises TooManyKeysError: they do not fit in the memory of one task."""
    directory, config = to_clean.directory, to_clean.policy.config
    round, survivors, null_keys = plan_and_find(
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
    told = statistics.cleaned(round, found, stats, null_keys, was_cleaned, to_clean.policy.note)
    told = with_deletion(told, log, config, settings.now_ms, zip(round.groups, done, strict=True))
    return Looked(directory, statistics=told, staged=tuple(staged))


def _to_clean(log: PartitionLog, to_clean: LogToClean, found: Cleanable, settings: Settings) -> ToClean:
    directory, policy = to_clean.directory, to_clean.policy
    plain = plan_round(log, found, policy.config, settings.now_ms, Survey())
    segments = tuple((segment.base_offset, segment.size_bytes) for segment in log.segments)
    return ToClean(directory, policy, found, plain, _seems_plain(log, found), segments)


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
