"""Compaction by this process (Kafka: LogCleaner)."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.cleaner import statistics
from native_log.cleaner.deletion import delete_old_segments, with_deletion
from native_log.cleaner.plan import what_is_cleanable
from native_log.cleaner.progress import Progress
from native_log.cleaner.rewriting import rewrite_group
from native_log.cleaner.segment_output import flush_segment
from native_log.cleaner.survivors import plan_and_find
from native_log.cleaner.swap import swap_in
from native_log.config import InvalidConfigError, LogConfig
from native_log.errors import KafkaLogError, message_of
from native_log.log.recovery.interrupted import finish_interrupted, tidy_up
from native_log.logdir.changing import chosen_partitions, open_to_change
from native_log.logdir.checkpoints import CLEANER_OFFSET_CHECKPOINT, update_offset_checkpoints
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa

    from native_log.cleaner.eligibility import Cleanable
    from native_log.cleaner.plan import Group
    from native_log.cleaner.progress import PartitionProgress
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)

_SAVE_EVERY_SECONDS = 1.0
_LEAST_MAP_BYTES = 8 << 10
"""Of less than this no thread makes use."""


def compact(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    exclude_topics: str | Iterable[str] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Compacts logs as a broker's cleaner does: of each key only the newest record is left.

    Then, as the cleaner does, deletes old segments as `native_log.retain` does it by `config`: with
    `cleanup.policy` compact,delete all that retention deletes; with compact alone, what lies below the log
    start offset. Of a log that is not worth cleaning, too; not of one that failed.

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        topics: which; None: all but Kafka's internal ones.
        config: settings by the names of topics or brokers (see native_log.config). `cleanup.policy` is
            compact here unless given; with compact,delete, retention.ms and retention.bytes count as well
            (7 days and no limit, unless given). log.cleaner.threads (one a core, unless given) share the
            memory of log.cleaner.dedupe.buffer.size.
        now_ms: the time that delete horizons and lags are measured from; None: now.
        dry_run: change nothing, only say what would be.
        exclude_topics: leave these alone, whether `topics` names them or not.
        on_progress: called with (steps done, of how many), from any thread.

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
        directories = chosen_partitions(log_dir, topics, exclude_topics)
        buffer_bytes = settings.log_cleaner_dedupe_buffer_size
        wanted = settings.log_cleaner_threads or cores()
        threads = max(1, min(wanted, len(directories), buffer_bytes // _LEAST_MAP_BYTES))
        run = _Run(
            settings,
            now,
            dry_run,
            buffer_bytes // threads,
            Progress(on_progress, len(directories)),
        )
        checkpoints = CleanerCheckpoints()
        pool = ThreadPoolExecutor(threads, "log-cleaner")
        try:
            found = []
            for directory, result in zip(
                directories, pool.map(partial(_clean_or_tell, log_dir, run), directories), strict=True
            ):
                found.append(result)
                if result.status == "cleaned" and result.end_offset is not None and not dry_run:
                    checkpoints.add(directory, result.end_offset)
        except BaseException:
            run.progress.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            checkpoints.save()
        if not dry_run:
            places = ((str(one.path), log_dir.checkpoints(one)) for one in directories)
            cleaned = [(told, *place) for told, place in zip(found, places, strict=True)]
            found = delete_old_segments(cleaned, settings, now)
    return statistics.table(found)


@dataclass(frozen=True, slots=True)
class _Run:
    """What all threads of a run work by. `map_bytes`: of one thread's map."""

    config: LogConfig
    now_ms: int
    dry_run: bool
    map_bytes: int
    progress: Progress


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compaction_config(config: Mapping[str, object] | None) -> LogConfig:
    settings = LogConfig.parse({"cleanup.policy": "compact", **(config or {})})
    if "compact" not in settings.cleanup_policy:
        found = ",".join(sorted(settings.cleanup_policy)) or "empty"
        raise InvalidConfigError(f"cleanup.policy: compact was expected among its values, found {found}")
    return settings


class CleanerCheckpoints:
    """What is saved in cleaner-offset-checkpoint: at once, but for many small partitions only now and then.
    What is not saved after a crash is cleaned once more, to no effect.
    """

    def __init__(self) -> None:
        self._unsaved: dict[Path, tuple[str, int, int]] = {}
        self._saved_at = -_SAVE_EVERY_SECONDS

    def add(self, directory: PartitionDir, first_dirty_offset: int) -> None:
        self._unsaved[directory.path] = directory.topic, directory.partition, first_dirty_offset
        if time.monotonic() - self._saved_at >= _SAVE_EVERY_SECONDS:
            self.save()

    def save(self) -> None:
        update_offset_checkpoints(CLEANER_OFFSET_CHECKPOINT, self._unsaved)
        self._unsaved.clear()
        self._saved_at = time.monotonic()


def _clean_or_tell(log_dir: LogDir, run: _Run, directory: PartitionDir) -> statistics.PartitionStatistics:
    progress = run.progress.partition()
    try:
        if not run.dry_run:
            finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
        log = log_dir.partition(directory.topic, directory.partition)
        return clean(log, run, progress)
    except (KafkaLogError, OSError) as error:
        logger.warning("%s-%d is not cleaned: %s", directory.topic, directory.partition, message_of(error))
        if not run.dry_run:
            tidy_up(directory.path, DEFAULT_MAX_BATCH_BYTES)
        return statistics.PartitionStatistics(
            directory.topic, directory.partition, "failed", message_of(error)
        )
    finally:
        progress.end()


def clean(log: PartitionLog, run: _Run, progress: PartitionProgress) -> statistics.PartitionStatistics:
    """One round over `log`, if a broker would do one."""
    found = what_is_cleanable(log, run.config, run.now_ms)
    if not found.is_candidate(run.config):
        return with_deletion(not_worth_it(log, found, run.config), log, run.config, run.now_ms)
    progress.begin(2 * log.size_bytes)
    round, survivors, null_keys = plan_and_find(
        log, found, run.config, run.now_ms, run.map_bytes, progress.add
    )
    done: list[statistics.GroupStatistics] = []
    directory = None if run.dry_run else log.path
    with ThreadPoolExecutor(1, "log-cleaner-flush") as flushing:  # the disk's time is not waited for
        flushed = []
        for group in round.groups:
            done.append(rewrite_group(round, group, survivors, directory, flush=False))
            if directory is not None:
                flushed.append(flushing.submit(_put_in_place, directory, group))
            progress.add(group.size_bytes)
        for one in flushed:
            one.result()
    was_cleaned = log.checkpoints.first_dirty_offset is not None
    told = statistics.cleaned(round, found, sum(done, statistics.GroupStatistics()), null_keys, was_cleaned)
    return with_deletion(told, log, run.config, run.now_ms, zip(round.groups, done, strict=True))


def _put_in_place(directory: Path, group: Group) -> None:
    flush_segment(directory, group.base_offset)
    swap_in(directory, group.base_offsets)


def not_worth_it(log: PartitionLog, found: Cleanable, config: LogConfig) -> statistics.PartitionStatistics:
    reason = (
        "nothing to clean below the active segment and the last stable offset"
        if found.cleanable_bytes == 0
        else f"dirty ratio {found.dirty_ratio:.2f}, not above min.cleanable.dirty.ratio "
        f"{config.min_cleanable_dirty_ratio}"
    )
    return statistics.skipped(log.topic, log.partition, reason, found)
