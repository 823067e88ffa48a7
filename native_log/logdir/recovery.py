"""Recovery of whole log directories: what a broker does when it starts on one that it did not leave in order
(Kafka: LogManager.loadLogs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.log.recover import LogRecovery, plan_recovery
from native_log.logdir.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    OffsetCheckpoints,
    update_offset_checkpoint,
)
from native_log.logdir.discovery import CLEAN_SHUTDOWN_FILE, PartitionDir, find_partitions, local_path
from native_log.logdir.lock import LogDirLock
from native_log.logdir.names import METADATA_TOPIC, PartitionKind
from native_log.logdir.session import CLEAN_SHUTDOWN
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage.writing import fsync_directory, remove_file, replace_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PartitionRecovery:
    """A partition and what its recovery came to (in a dry run: would come to)."""

    partition: PartitionDir
    recovery: LogRecovery

    @property
    def cuts(self) -> bool:
        """Whether anything of its data is removed."""
        return bool(self.recovery.truncated_bytes or self.recovery.removed)


def recover(
    path: str | os.PathLike[str],
    topics: Collection[str] | None = None,
    *,
    dry_run: bool = False,
    from_start: bool = False,
    config: Mapping[str, object] | None = None,
    on_partition: Callable[[PartitionRecovery], None] = lambda _: None,
) -> list[PartitionRecovery]:
    """Make the logs in a log directory (or in one partition directory) whole, as a broker's start would.

    Each log is read with checksums from the segment with its recovery point on. The first batch that is not
    whole and right ends the log: what lies behind it is removed. Indexes, producers' state and leader epochs
    of what was read are made anew. Where all logs of a directory were recovered it is marked as cleanly shut
    down. Doing it again changes nothing.

    Args:
        topics: only these.
        dry_run: only say what would be done; nothing is changed and no lock taken.
        from_start: read every segment, whatever the recovery points say.
        config: settings by Kafka's names: index.interval.bytes. See LogConfig.
        on_partition: called after each partition.

    Raises:
        LogDirInUseError: a broker, or another process, works in the directory.
        FileNotFoundError, PermissionError, NotALogDirError, OSError.
    """
    settings = LogConfig.parse(config or {})
    found = find_partitions(local_path(path))
    wanted = [
        one
        for one in found.partitions
        if one.kind in (PartitionKind.NORMAL, PartitionKind.FUTURE)
        and one.topic != METADATA_TOPIC
        and (topics is None or one.topic in topics)
    ]
    if dry_run:
        return list(_planned(found.log_dir, wanted, from_start, settings, on_partition))
    with LogDirLock(found.log_dir):
        remove_file(found.log_dir / CLEAN_SHUTDOWN_FILE)
        fsync_directory(found.log_dir)
        done = []
        for one in _planned(found.log_dir, wanted, from_start, settings, lambda _: None):
            one.recovery.apply()
            done.append(one)
            on_partition(one)
        _save(found.log_dir, done)
        if topics is None and not found.is_partition:
            replace_file(found.log_dir / CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN)
    return done


def _planned(
    log_dir: Path,
    partitions: list[PartitionDir],
    from_start: bool,
    config: LogConfig,
    on_partition: Callable[[PartitionRecovery], None],
) -> Iterator[PartitionRecovery]:
    saved = OffsetCheckpoints.read(log_dir)
    for one in partitions:
        key = (one.topic, one.partition)
        plan = plan_recovery(
            one.path,
            recovery_point=0 if from_start else saved.recovery_points.get(key, 0),
            log_start_offset=saved.log_start_offsets.get(key, 0),
            config=config,
            max_batch_bytes=DEFAULT_MAX_BATCH_BYTES,
        )
        found = PartitionRecovery(one, plan)
        on_partition(found)
        yield found


def _save(log_dir: Path, done: list[PartitionRecovery]) -> None:
    """Checkpoints that say no more than the logs now hold."""
    saved = OffsetCheckpoints.read(log_dir)
    plans = {(one.partition.topic, one.partition.partition): one.recovery for one in done}
    ends = {key: plan.log_end_offset for key, plan in plans.items()}
    update_offset_checkpoint(log_dir / RECOVERY_POINT_OFFSET_CHECKPOINT, ends)
    for name, offsets in (
        (REPLICATION_OFFSET_CHECKPOINT, saved.high_watermarks),
        (CLEANER_OFFSET_CHECKPOINT, saved.first_dirty_offsets),
        (LOG_START_OFFSET_CHECKPOINT, saved.log_start_offsets),
    ):
        lowered = {key: min(offset, ends[key]) for key, offset in offsets.items() if key in ends}
        update_offset_checkpoint(log_dir / name, lowered)
