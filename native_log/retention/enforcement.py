"""Retention by this process (Kafka: LogManager.cleanupLogs)."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.replacing.interrupted import finish_interrupted
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_partitions
from native_log.policies import Request, retention_policy
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.retention.execution import apply
from native_log.retention.plan import failed, look, table

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from native_log.log import PartitionCheckpoints
    from native_log.logdir import PartitionDir
    from native_log.policies import RetentionPolicy
    from native_log.retention.plan import RetentionPlan


def retain(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    exclude_topics: str | Iterable[str] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Deletes old segments as a broker does: below the log start offset, then by size, then by time.

    A deleted segment's files are renamed to `.deleted`; a later run (or a broker, when it loads the log)
    unlinks them, `file.delete.delay.ms` after that. Nothing at or above the high watermark goes: that of the
    checkpoint, where there is one.

    Size and time delete nothing from a topic that is compacted, unless `topics` names it and `config` has
    cleanup.policy=delete: only what lies below the log start offset goes. A topic is compacted if its stored
    policy says so or, where none is stored, if a cleaner has compacted it (cleaner-offset-checkpoint).

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        topics: which; None: all but Kafka's internal ones.
        config: settings by the names of topics or brokers (see native_log.config): cleanup.policy,
            retention.bytes, retention.ms, file.delete.delay.ms. They override a topic's stored ones; what is
            neither given nor stored does not delete. (If cleanup.policy is given: retention.ms is 7 days.)
        now_ms: what ages are measured from; None: now.
        dry_run: change nothing, only say what would be.
        exclude_topics: leave these alone, whether `topics` names them or not.
        on_progress: called with (partitions looked at, of how many).

    Returns:
        One row a segment, as RETENTION_SCHEMA. A partition that fails has one row that says why; others go
        on.

    Raises:
        LogDirInUseError: a broker, or another writer, works on the directory.
        InvalidConfigError: a setting that cannot be meant.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    request = Request.of(topics, config)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with ExitStack() as locks:
        log_dir = open_for_maintenance(path, dry_run, locks)
        chosen = select_partitions(log_dir, request.topics, exclude_topics)
        decided = decide_policies(log_dir, chosen, partial(retention_policy, request=request))
        plans = []
        for done, (directory, policy) in enumerate(zip(chosen, decided, strict=True), 1):
            checkpoints = log_dir.checkpoints(directory)
            plan = look(str(directory.path), directory.topic, directory.partition, checkpoints, policy, now)
            if plan.is_interrupted and not dry_run:
                plan = settled(directory, checkpoints, policy, now)
            plans.append(plan)
            if on_progress is not None:
                on_progress(done, len(chosen))
        return table(plans if dry_run else apply(plans, now))


def settled(
    directory: PartitionDir, checkpoints: PartitionCheckpoints, policy: RetentionPolicy, now_ms: int
) -> RetentionPlan:
    """The plan for a partition whose interrupted cleaning is finished first. Hold the directory's lock."""
    try:
        finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
    except (KafkaLogError, OSError) as error:
        return failed(str(directory.path), directory.topic, directory.partition, error)
    return look(str(directory.path), directory.topic, directory.partition, checkpoints, policy, now_ms)
