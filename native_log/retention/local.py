"""Retention by this process (Kafka: LogManager.cleanupLogs)."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.log.recovery.interrupted import finish_interrupted
from native_log.logdir.changing import chosen_partitions, open_to_change
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.retention.plan import failed, look, table
from native_log.retention.removal import apply

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from native_log.log import PartitionCheckpoints
    from native_log.logdir import LogDir, PartitionDir
    from native_log.retention.plan import RetentionPlan

logger = logging.getLogger(__name__)


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

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        topics: which; None: all but Kafka's internal ones.
        config: settings by the names of topics or brokers (see native_log.config): cleanup.policy
            (delete, unless given; with compact alone only what lies below the log start offset goes),
            retention.bytes, retention.ms, file.delete.delay.ms.
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
    settings = LogConfig.parse(config or {})
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with ExitStack() as locks:
        log_dir = open_to_change(path, dry_run, locks)
        chosen = chosen_partitions(log_dir, topics, exclude_topics)
        warn_of_compacted(log_dir, chosen, config or {})
        plans = []
        for done, directory in enumerate(chosen, 1):
            checkpoints = log_dir.checkpoints(directory)
            plan = look(str(directory.path), directory.topic, directory.partition, checkpoints, settings, now)
            if plan.is_interrupted and not dry_run:
                plan = settled(directory, checkpoints, settings, now)
            plans.append(plan)
            if on_progress is not None:
                on_progress(done, len(chosen))
        return table(plans if dry_run else apply(plans, settings, now))


def warn_of_compacted(log_dir: LogDir, chosen: Iterable[PartitionDir], config: Mapping[str, object]) -> None:
    """Of topics that a cleaner has compacted, where nothing says that they are to be deleted of."""
    if not {"cleanup.policy", "log.cleanup.policy"}.isdisjoint(config):
        return
    compacted = {one.topic for one in chosen if log_dir.checkpoints(one).first_dirty_offset is not None}
    if compacted:
        logger.warning(
            "cleanup.policy is not given and taken for delete, but a cleaner has compacted %s: give it, or "
            "choose other topics",
            ", ".join(sorted(compacted)),
        )


def settled(
    directory: PartitionDir, checkpoints: PartitionCheckpoints, config: LogConfig, now_ms: int
) -> RetentionPlan:
    """The plan for a partition whose interrupted cleaning is finished first. Hold the directory's lock."""
    try:
        finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
    except (KafkaLogError, OSError) as error:
        return failed(str(directory.path), directory.topic, directory.partition, error)
    return look(str(directory.path), directory.topic, directory.partition, checkpoints, config, now_ms)
