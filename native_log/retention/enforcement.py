"""Enforce retention in this process (Kafka: LogManager.cleanupLogs)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.replacing.interrupted import finish_interrupted
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_changeable
from native_log.policies import Request, retention_policy
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.retention.execution import execute_plans
from native_log.retention.plan import failed_plan, plan_partition, planned_table, retention_table
from native_log.system import current_ms
from native_log.workers import map_logs

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from native_log.log import PartitionCheckpoints
    from native_log.logdir import PartitionDir
    from native_log.policies import RetentionPolicy
    from native_log.retention.plan import RetentionPlan
    from native_log.storage import StorageOptionsLike


def retain(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    exclude_topics: str | Iterable[str] = (),
    on_progress: Callable[[int, int], None] | None = None,
    storage_options: StorageOptionsLike = None,
) -> pa.Table:
    """Delete old segments as a broker does: by log start offset, then by size, then by time.

    The files of a deleted segment are renamed to `.deleted`. A later run removes them once
    `file.delete.delay.ms` has passed; a broker removes them when it loads the log. Records at or above the
    checkpointed high watermark are never deleted.

    For a compacted topic, only segments below the log start offset are deleted, unless `topics` names the
    topic and `config` contains cleanup.policy=delete. A topic is compacted if its stored policy says so or,
    if none is stored, if a broker has compacted it (cleaner-offset-checkpoint).

    Args:
        path: log directories, or single partition directories. No broker may be running on them.
        topics: the topics to process; None: all except Kafka's internal topics.
        config: settings by the names of topic or broker settings (see native_log.config): cleanup.policy,
            retention.bytes, retention.ms, file.delete.delay.ms. Those by a topic's own name override stored
            ones. Those by a broker's name (log.retention.hours) are defaults for what is not stored. A limit
            that is neither given nor stored deletes nothing, except that retention.ms is 7 days if the policy
            is given.
        now_ms: the time from which ages are measured, in epoch ms; None: now.
        dry_run: change nothing, and report what would be done.
        exclude_topics: topics to leave out, even if `topics` names them.
        on_progress: called with (partitions planned, total partitions).
        storage_options: credentials and other settings for paths that are URLs, where only a dry run is
            possible: see LogDir.

    Returns:
        One row for each segment (RETENTION_SCHEMA). A partition that fails has one row that says why; the
        other partitions are still processed.

    Raises:
        LogDirInUseError: a broker or another writer is using the directory.
        InvalidConfigError: an invalid setting.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    request = Request.of(topics, config)
    now = current_ms() if now_ms is None else now_ms
    with open_for_maintenance(path, dry_run, storage_options=storage_options) as log_dir:
        selected = select_changeable(log_dir, request.topics, exclude_topics)
        decided = decide_policies(log_dir, selected, partial(retention_policy, request=request))

        def plan(item: tuple[PartitionDir, RetentionPolicy]) -> RetentionPlan:
            directory, policy = item
            checkpoints = log_dir.checkpoints(directory)
            planned = plan_partition(directory.folder, *directory.key, checkpoints, policy, now)
            if planned.is_interrupted and not dry_run:
                return finish_and_plan(directory, checkpoints, policy, now)
            return planned

        plans: list[RetentionPlan] = []
        work = zip(selected, decided, strict=True)
        for planned in map_logs(plan, work, log_dir.waiting_readers(selected)):
            plans.append(planned)
            if on_progress is not None:
                on_progress(len(plans), len(selected))
        if dry_run:
            return planned_table(retention_table(plans))
        return retention_table(execute_plans(plans, now))


def finish_and_plan(
    directory: PartitionDir, checkpoints: PartitionCheckpoints, policy: RetentionPolicy, now_ms: int
) -> RetentionPlan:
    """Finish an interrupted compaction of the partition, then plan its retention.

    Hold the lock of the log directory.
    """
    path = str(directory.path)
    try:
        finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
    except (KafkaLogError, OSError) as error:
        return failed_plan(path, directory.topic, directory.partition, error)
    return plan_partition(path, directory.topic, directory.partition, checkpoints, policy, now_ms)
