"""Compaction by this process (Kafka: LogCleaner)."""

from __future__ import annotations

import logging
import os
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from native_log.cleaner import statistics
from native_log.cleaner.plan import plan_round, what_is_cleanable
from native_log.cleaner.rewriting import gather, rewrite_group
from native_log.cleaner.swap import finish_interrupted, remove_deleted, swap_in
from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.log import PartitionLog
from native_log.logdir import INTERNAL_TOPICS, LogDir, PartitionKind
from native_log.logdir.checkpoints import CLEANER_OFFSET_CHECKPOINT, update_offset_checkpoint
from native_log.logdir.lock import LogDirLock
from native_log.records import OffsetMap, RewriteStats
from native_log.segment.files import CLEANED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from native_log.cleaner.eligibility import Cleanable
    from native_log.cleaner.plan import Round
    from native_log.logdir import PartitionDir
    from native_log.logdir.logdir import HighWatermark
    from native_log.records import MapProgress
    from native_log.records.cleaning import Survivors

logger = logging.getLogger(__name__)


def compact(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> pa.Table:
    """Compacts logs as a broker's cleaner does: of each key only the newest record is left.

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        topics: which; None: all but Kafka's internal ones.
        config: settings by the names of topics or brokers (see native_log.config). `cleanup.policy` is
            compact here unless given.
        now_ms: the time that delete horizons and lags are measured from; None: now.
        dry_run: change nothing, only say what would be.

    Returns:
        One row a partition (STATISTICS_SCHEMA). A partition that cannot be cleaned has status "failed" and
        is as it was; others go on.

    Raises:
        LogDirInUseError: a broker, or another writer, works on the directory.
        InvalidConfigError: a setting that cannot be meant.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    settings = compaction_config(config)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with ExitStack() as locks:
        log_dir = open_to_change(path, dry_run, locks)
        found = []
        for directory in chosen_partitions(log_dir, topics):
            log = log_dir.partition(directory.topic, directory.partition)
            result = _clean_or_tell(log, settings, now, dry_run)
            if result.status == "cleaned" and not dry_run:
                save_checkpoint(directory, result.end_offset)
            found.append(result)
    return statistics.table(found)


def compaction_config(config: Mapping[str, object] | None) -> LogConfig:
    settings = LogConfig.parse({"cleanup.policy": "compact", **(config or {})})
    if "compact" not in settings.cleanup_policy:
        raise ValueError(
            f"cleanup.policy is {','.join(sorted(settings.cleanup_policy))}: to compact, it has compact"
        )
    return settings


def open_to_change(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    dry_run: bool,
    locks: ExitStack,
    *,
    high_watermark: HighWatermark = "ignore",
) -> LogDir:
    """The log directories at `path`, locked unless only looked at."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    log_dir = LogDir(paths, high_watermark=high_watermark)
    if dry_run:
        return log_dir
    for directory in log_dir.directories:
        locks.enter_context(LogDirLock(directory.path))
    # Once more: what was read before the lock was held may have changed.
    return LogDir(paths, high_watermark=high_watermark)


def chosen_partitions(log_dir: LogDir, topics: Iterable[str] | None) -> list[PartitionDir]:
    partitions = [one for one in log_dir.partitions() if one.kind is PartitionKind.NORMAL]
    if topics is None:
        return [one for one in partitions if one.topic not in INTERNAL_TOPICS]
    wanted = [topics] if isinstance(topics, str) else list(topics)
    known = {one.topic for one in partitions}
    for topic in wanted:
        if topic not in known:
            log_dir.partition(topic, 0)  # says what is there instead
    return [one for one in partitions if one.topic in wanted]


def save_checkpoint(directory: PartitionDir, first_dirty_offset: int | None) -> None:
    if first_dirty_offset is not None:
        update_offset_checkpoint(
            directory.path.parent / CLEANER_OFFSET_CHECKPOINT,
            {(directory.topic, directory.partition): first_dirty_offset},
        )


def _clean_or_tell(
    log: PartitionLog, config: LogConfig, now_ms: int, dry_run: bool
) -> statistics.PartitionStatistics:
    try:
        if not dry_run:
            log = settled(log)
        return clean(log, config, now_ms, dry_run)
    except (KafkaLogError, OSError) as error:
        logger.warning("%s-%d is not cleaned: %s", log.topic, log.partition, error)
        return statistics.PartitionStatistics(log.topic, log.partition, "failed", str(error))


def settled(log: PartitionLog) -> PartitionLog:
    """The log, with nothing left over of a cleaning that was interrupted."""
    finish_interrupted(log.path, log.max_batch_bytes)
    return PartitionLog.open(
        log.path,
        topic=log.topic,
        partition=log.partition,
        checkpoints=log.checkpoints,
        max_batch_bytes=log.max_batch_bytes,
    )


def clean(log: PartitionLog, config: LogConfig, now_ms: int, dry_run: bool) -> statistics.PartitionStatistics:
    """One round over `log`, if a broker would do one."""
    found = what_is_cleanable(log, config, now_ms)
    if not found.is_candidate(config):
        return not_worth_it(log, found, config)
    round = plan_round(log, found, config, now_ms)
    survivors, end_offset, null_keys = find_survivors(round, config.log_cleaner_dedupe_buffer_size)
    if end_offset < round.end_offset:  # the map was full: what follows is for another round
        round = plan_round(log, found, config, now_ms, end_offset)
    rewritten = RewriteStats()
    for group in round.groups:
        rewritten += rewrite_group(
            round, group, survivors, end_offset, None if dry_run else log.path, CLEANED
        )
        if not dry_run:
            swap_in(log.path, group)
    if not dry_run:
        remove_deleted(log.path)
    return statistics.cleaned(
        log.topic,
        log.partition,
        found,
        end_offset=end_offset,
        segments=(sum(len(group.sources) for group in round.groups), len(round.groups)),
        rewritten=rewritten,
        null_keys=null_keys,
    )


def not_worth_it(log: PartitionLog, found: Cleanable, config: LogConfig) -> statistics.PartitionStatistics:
    reason = (
        "nothing to clean below the active segment and the last stable offset"
        if found.cleanable_bytes == 0
        else f"dirty ratio {found.dirty_ratio:.2f}, not above min.cleanable.dirty.ratio "
        f"{config.min_cleanable_dirty_ratio}"
    )
    return statistics.skipped(log.topic, log.partition, reason, found)


def find_survivors(round: Round, max_bytes: int) -> tuple[Survivors, int, int]:
    """The offsets that survive below an end, that end, and how many records have no key.

    The end is the round's, unless the keys take more than `max_bytes`.
    """
    offsets = OffsetMap(max_bytes)
    dirty = gather(round.dirty_part(), round.aborted, offsets.put_batches)
    end_offset = round.end_offset if dirty.full_at is None else dirty.full_at
    if end_offset <= round.first_dirty_offset:
        raise KafkaLogError(
            f"one key takes more than the map's {max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
            path=round.path,
            offset=round.first_dirty_offset,
        )
    survivors = offsets.survivors()
    gather(round.clean_part(), round.aborted, partial(_mark, offsets, survivors))
    return survivors, end_offset, dirty.null_keys


def _mark(offsets: OffsetMap, survivors: Survivors, buffer: memoryview, **where: Any) -> MapProgress:
    return offsets.mark(buffer, survivors, **where)
