"""Carry out retention plans. The caller holds the locks of the log directories.

A segment is deleted in two steps: its files are renamed to `.deleted`, and removed later. (Kafka:
UnifiedLog.deleteSegments, LocalLog.deleteSegmentFiles)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import read_leader_epochs, truncate_from_start, write_leader_epochs
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    update_partition_checkpoints,
)
from native_log.errors import KafkaLogError
from native_log.retention.plan import failed_plan
from native_log.segment.files import DELETED, SNAPSHOT, file_name
from native_log.segment.writer import SegmentWriter
from native_log.storage.writing import fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.retention.plan import RetentionPlan
    from native_log.segment.segment import LogSegment

_THREADS = 16
"""More threads than cores, because they mostly wait for the disk."""


def execute_plans(plans: Iterable[RetentionPlan], now_ms: int) -> list[RetentionPlan]:
    """Carry out the plans, and return them. A plan that failed is replaced by one with an error.

    The new log start offsets are on disk before any file is renamed, in one write for each log directory. So
    after a crash no deleted record can be read, and the next run deletes the remaining files.

    Args:
        plans: none of them may be `is_interrupted`.
    """
    plans = list(plans)
    changing = [plan for plan in plans if plan.error is None and not plan.changes_nothing]
    starts = {Path(p.path): (p.topic, p.partition, p.log_start_offset) for p in changing if p.deleted}
    update_partition_checkpoints(LOG_START_OFFSET_CHECKPOINT, starts)
    with ThreadPoolExecutor(_THREADS, "retention") as pool:
        return list(pool.map(partial(_execute_or_fail, now_ms=now_ms), plans))


def _execute_or_fail(plan: RetentionPlan, now_ms: int) -> RetentionPlan:
    if plan.error is None and not plan.changes_nothing:
        try:
            _execute(plan, now_ms)
        except (KafkaLogError, OSError) as error:
            return failed_plan(plan.path, plan.topic, plan.partition, error)
    return plan


def truncate_epochs(directory: Path, log_start_offset: int) -> None:
    """Truncate `leader-epoch-checkpoint`, if it exists, to the epochs at or after the log start offset."""
    entries = read_leader_epochs(directory)
    remaining = truncate_from_start(entries, log_start_offset)
    if remaining != entries:
        write_leader_epochs(directory, remaining)


def _execute(plan: RetentionPlan, now_ms: int) -> None:
    directory = Path(plan.path)
    to_remove = list(plan.expired)
    if plan.new_segment_offset is not None:
        SegmentWriter.create(directory, plan.new_segment_offset, plan.config, now_ms=now_ms).close()
        fsync_directory(directory)
    if plan.deleted:
        truncate_epochs(directory, plan.log_start_offset)
        renamed = [name for segment in plan.deleted for name in _rename_to_deleted(directory, segment)]
        if plan.config.file_delete_delay_ms == 0:
            fsync_directory(directory)
            to_remove += renamed
    for name in to_remove:
        remove_file(directory / name)
    fsync_directory(directory)


def _rename_to_deleted(directory: Path, segment: LogSegment) -> list[str]:
    """Rename the files of a segment, and return their new names.

    The .log file is renamed last. After a crash before that, the next run finds the segment and deletes it.
    """
    indexes = (segment.index, segment.time_index, segment.transaction_index)
    snapshot = file_name(segment.base_offset, SNAPSHOT)
    names = [*(name for name in indexes if name is not None), snapshot, segment.log]
    existing = [name for name in names if (directory / name).exists()]
    for name in existing:
        (directory / name).rename(directory / f"{name}.{DELETED}")
    return [f"{name}.{DELETED}" for name in existing]
