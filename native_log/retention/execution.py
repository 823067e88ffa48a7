"""Plans carried out: segments leave a log in two steps, renamed to `.deleted`, and unlinked later (Kafka:
UnifiedLog.deleteSegments, LocalLog.deleteSegmentFiles). Hold the log directories' locks.
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
from native_log.retention.plan import failed
from native_log.segment.files import DELETED, SNAPSHOT, file_name
from native_log.segment.writer import SegmentWriter
from native_log.storage.writing import fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.retention.plan import RetentionPlan
    from native_log.segment.segment import LogSegment

_THREADS = 16
"""They wait for the disk."""


def apply(plans: Iterable[RetentionPlan], now_ms: int) -> list[RetentionPlan]:
    """Does what was planned, and tells how it came out: the same plans, some with an error now.

    No plan may be `is_interrupted`. The new log starts are on disk before any file is renamed, in one write
    for a log directory: a crash on the way leaves nothing readable that should not be, and the next run
    finishes.
    """
    found = list(plans)
    to_do = [plan for plan in found if plan.error is None and not plan.changes_nothing]
    starts = {Path(p.path): (p.topic, p.partition, p.log_start_offset) for p in to_do if p.deleted}
    update_partition_checkpoints(LOG_START_OFFSET_CHECKPOINT, starts)
    with ThreadPoolExecutor(_THREADS, "retention") as pool:
        return list(pool.map(partial(_carried_out, now_ms=now_ms), found))


def _carried_out(plan: RetentionPlan, now_ms: int) -> RetentionPlan:
    if plan.error is None and not plan.changes_nothing:
        try:
            _carry_out(plan, now_ms)
        except (KafkaLogError, OSError) as error:
            return failed(plan.path, plan.topic, plan.partition, error)
    return plan


def truncate_epochs(directory: Path, log_start_offset: int) -> None:
    """Brings `leader-epoch-checkpoint`, if there is one, in line with a log's new start."""
    entries = read_leader_epochs(directory)
    left = truncate_from_start(entries, log_start_offset)
    if left != entries:
        write_leader_epochs(directory, left)


def _carry_out(plan: RetentionPlan, now_ms: int) -> None:
    directory = Path(plan.path)
    expired = list(plan.expired)
    if plan.new_segment_offset is not None:
        SegmentWriter.create(directory, plan.new_segment_offset, plan.config, now_ms=now_ms).close()
        fsync_directory(directory)
    if plan.deleted:
        truncate_epochs(directory, plan.log_start_offset)
        renamed = [name for segment in plan.deleted for name in _renamed(directory, segment)]
        if plan.config.file_delete_delay_ms == 0:
            fsync_directory(directory)
            expired += renamed
    for name in expired:
        remove_file(directory / name)
    fsync_directory(directory)


def _renamed(directory: Path, segment: LogSegment) -> list[str]:
    """The new names of a segment's files. The .log comes last: while it is there, the next run sees them."""
    indexes = (segment.index, segment.time_index, segment.transaction_index)
    snapshot = file_name(segment.base_offset, SNAPSHOT)
    names = [*(name for name in indexes if name is not None), snapshot, segment.log]
    there = [name for name in names if (directory / name).exists()]
    for name in there:
        (directory / name).rename(directory / f"{name}.{DELETED}")
    return [f"{name}.{DELETED}" for name in there]
