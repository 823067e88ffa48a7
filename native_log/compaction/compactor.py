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

from native_log.checkpoints.names import REMOTE_LOG_METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, update_partition_checkpoints
from native_log.compaction import statistics
from native_log.compaction.delete_policy import delete_old_segments, with_deletion
from native_log.compaction.rewrite import rewrite_group
from native_log.compaction.rounds import find_cleanable
from native_log.compaction.survivors import plan_and_find_survivors
from native_log.config import InvalidConfigError, LogConfig
from native_log.errors import InvalidTopicError, KafkaLogError, error_message
from native_log.log.replacing.cleaned_segment import flush_cleaned_segment
from native_log.log.replacing.interrupted import finish_interrupted, tidy_up
from native_log.log.replacing.swap import swap_in
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_partitions
from native_log.policies import Request, compaction_policy, policy_text
from native_log.progress import Progress
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa

    from native_log.compaction.eligibility import Cleanable
    from native_log.compaction.rounds import Group
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir
    from native_log.policies import CompactionPolicy
    from native_log.progress import PartitionProgress

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

    A topic is compacted if `topics` names it, or if its stored policy contains compact. If no policy is
    stored, it is compacted if a cleaner has compacted it before (cleaner-offset-checkpoint), or if `config`
    gives a cleanup.policy that contains compact. All others are skipped.

    Then, as the cleaner does, deletes old segments of these topics as `native_log.retain` does: with
    `cleanup.policy` compact,delete all that retention deletes; with compact alone, what lies below the log
    start offset. Of a log that is not worth cleaning, too; not of one that failed.

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        topics: which; None: all but Kafka's internal ones.
        config: settings by the names of topics or brokers (see native_log.config). They override a topic's
            stored ones, except that compact,delete deletes old segments only of topics that `topics` names,
            or whose stored policy it is; retention.ms and retention.bytes count then (7 days and no limit,
            unless given or stored). log.cleaner.threads (one a core, unless given) share the memory of
            log.cleaner.dedupe.buffer.size.
        now_ms: the time that delete horizons and lags are measured from; None: now.
        dry_run: change nothing, only say what would be.
        exclude_topics: leave these alone, whether `topics` names them or not.
        on_progress: called with (steps done, of how many), from any thread.

    Returns:
        One row a partition (STATISTICS_SCHEMA), also for partitions of topics that are skipped. A partition
        that cannot be cleaned has status "failed" and is as it was; others go on. In a dry run bytesAfter is
        approximate: it depends on the compressor and, through timestamps that are written, on the time.

    Raises:
        LogDirInUseError: a broker, or another writer, works on the directory.
        InvalidConfigError: a setting that cannot be meant.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    request = compaction_request(topics, config)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with ExitStack() as locks:
        log_dir = open_for_maintenance(path, dry_run, locks)
        chosen = select_partitions(log_dir, request.topics, exclude_topics)
        decided = decide_policies(log_dir, chosen, partial(compaction_policy, request=request))
        found = skipped(chosen, decided)
        to_compact = [(one, p) for one, p in zip(chosen, decided, strict=True) if p.skipped is None]
        given = LogConfig.parse(request.config)
        buffer_bytes = given.log_cleaner_dedupe_buffer_size
        wanted = given.log_cleaner_threads or cores()
        threads = max(1, min(wanted, len(to_compact), buffer_bytes // _LEAST_MAP_BYTES))
        run = _Run(now, dry_run, buffer_bytes // threads, Progress(on_progress, len(to_compact)))
        checkpoints = CleanerCheckpoints()
        pool = ThreadPoolExecutor(threads, "log-cleaner")
        done = []
        try:
            for (directory, _), result in zip(
                to_compact, pool.map(partial(_clean_or_tell, log_dir, run), to_compact), strict=True
            ):
                done.append(result)
                if result.status == "cleaned" and result.end_offset is not None and not dry_run:
                    checkpoints.add(directory, result.end_offset)
        except BaseException:
            run.progress.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            checkpoints.save()
        if not dry_run:
            places = ((str(one.path), log_dir.checkpoints(one), policy.config) for one, policy in to_compact)
            done = delete_old_segments([(d, *p) for d, p in zip(done, places, strict=True)], now)
        return statistics.table(found + done)


@dataclass(frozen=True, slots=True)
class _Run:
    """What all threads of a run work by. `map_bytes`: of one thread's map."""

    now_ms: int
    dry_run: bool
    map_bytes: int
    progress: Progress


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compaction_request(topics: str | Iterable[str] | None, config: Mapping[str, object] | None) -> Request:
    """Return the request for a compaction.

    Raises InvalidConfigError for settings that are not valid, or a cleanup.policy without compact;
    InvalidTopicError for a topic whose records have no keys, all of which compaction would drop.
    """
    request = Request.of(topics, config)
    if request.names(REMOTE_LOG_METADATA_TOPIC):
        raise InvalidTopicError(
            f"{REMOTE_LOG_METADATA_TOPIC} is never compacted: its records have no keys, and without them the "
            "segments in remote storage are lost. It is left alone"
        )
    if request.policy is not None and "compact" not in request.policy:
        raise InvalidConfigError(
            f"cleanup.policy: expected compact among its values, found {policy_text(request.policy)}"
        )
    return request


def skipped(
    chosen: Iterable[PartitionDir], decided: Iterable[CompactionPolicy]
) -> list[statistics.PartitionStatistics]:
    """Return the rows of the partitions that are not compacted."""
    return [
        statistics.skipped(one.topic, one.partition, policy.skipped)
        for one, policy in zip(chosen, decided, strict=True)
        if policy.skipped is not None
    ]


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
        update_partition_checkpoints(CLEANER_OFFSET_CHECKPOINT, self._unsaved)
        self._unsaved.clear()
        self._saved_at = time.monotonic()


def _clean_or_tell(
    log_dir: LogDir, run: _Run, to_compact: tuple[PartitionDir, CompactionPolicy]
) -> statistics.PartitionStatistics:
    directory, policy = to_compact
    progress = run.progress.partition()
    try:
        if not run.dry_run:
            finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
        log = log_dir.partition(directory.topic, directory.partition)
        return clean(log, policy, run, progress)
    except (KafkaLogError, OSError) as error:
        logger.warning("%s-%d is not cleaned: %s", directory.topic, directory.partition, error_message(error))
        if not run.dry_run:
            tidy_up(directory.path, DEFAULT_MAX_BATCH_BYTES)
        return statistics.PartitionStatistics(
            directory.topic, directory.partition, "failed", error_message(error)
        )
    finally:
        progress.end()


def clean(
    log: PartitionLog, policy: CompactionPolicy, run: _Run, progress: PartitionProgress
) -> statistics.PartitionStatistics:
    """One round over `log`, if a broker would do one."""
    config = policy.config
    found = find_cleanable(log, config, run.now_ms)
    if not found.is_candidate(config):
        return with_deletion(skip_uncleanable(log, found, policy), log, config, run.now_ms)
    progress.begin(2 * log.size_bytes)
    round, survivors, null_keys = plan_and_find_survivors(
        log, found, config, run.now_ms, run.map_bytes, progress.add
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
    told = statistics.cleaned(
        round, found, sum(done, statistics.GroupStatistics()), null_keys, was_cleaned, policy.note
    )
    return with_deletion(told, log, config, run.now_ms, zip(round.groups, done, strict=True))


def _put_in_place(directory: Path, group: Group) -> None:
    flush_cleaned_segment(directory, group.base_offset)
    swap_in(directory, group.base_offsets)


def skip_uncleanable(
    log: PartitionLog, found: Cleanable, policy: CompactionPolicy
) -> statistics.PartitionStatistics:
    reason = (
        "nothing to clean below the active segment and the last stable offset"
        if found.cleanable_bytes == 0
        else f"dirty ratio {found.dirty_ratio:.2f}, not above min.cleanable.dirty.ratio "
        f"{policy.config.min_cleanable_dirty_ratio}"
    )
    reason = "; ".join(filter(None, (reason, policy.note)))
    return statistics.skipped(log.topic, log.partition, reason, found)
