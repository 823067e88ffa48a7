"""Compact logs in this process (Kafka: LogCleaner)."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.checkpoints.names import REMOTE_LOG_METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, update_partition_checkpoints
from native_log.compaction.delete_policy import add_planned_deletions, delete_old_segments
from native_log.compaction.rewrite import rewrite_group
from native_log.compaction.rounds import find_cleanable_range
from native_log.compaction.statistics import (
    cleaned_partition,
    failed_partition,
    skipped_partition,
    statistics_table,
)
from native_log.compaction.survivors import plan_and_find_survivors
from native_log.config import InvalidConfigError, LogConfig
from native_log.errors import InvalidTopicError, KafkaLogError, error_message
from native_log.log.changing_files import retry_changed
from native_log.log.replacing.cleaned_segment import flush_cleaned_segment
from native_log.log.replacing.interrupted import finish_interrupted, try_finish_interrupted
from native_log.log.replacing.swap import replace_segments
from native_log.logdir.maintenance import decide_policies, open_for_maintenance, select_changeable
from native_log.policies import Request, compaction_policy, policy_text
from native_log.progress import Progress
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.system import available_cores, current_ms
from native_log.workers import worker_threads

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa

    from native_log.compaction.eligibility import CleanableRange
    from native_log.compaction.rounds import Group
    from native_log.compaction.statistics import GroupStatistics, PartitionStatistics
    from native_log.effective_config import AppliedSetting
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir
    from native_log.policies import CompactionPolicy
    from native_log.progress import PartitionProgress
    from native_log.storage import StorageOptionsLike

logger = logging.getLogger(__name__)

_SAVE_INTERVAL_SECONDS = 1.0
_MIN_MAP_BYTES = 8 << 10
"""The least memory of one thread's map. With less memory in total, fewer threads run."""


def compact(
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
    """Compact logs as a broker's log cleaner does: keep only the newest record of each key.

    A topic is compacted if `topics` names it, or if its stored cleanup.policy contains compact. If no policy
    is stored, it is compacted if a broker has compacted it before (cleaner-offset-checkpoint), or if `config`
    gives a cleanup.policy that contains compact. All other topics are skipped.

    After that, old segments of these topics are deleted, as a log cleaner does: with cleanup.policy
    compact,delete the same segments that `native_log.retain` deletes, with compact alone the segments below
    the log start offset. This includes logs that were not worth compacting, but not those that failed.

    Args:
        path: log directories, or single partition directories. No broker may be running on them.
        topics: the topics to compact; None: all except Kafka's internal topics.
        config: settings by the names of topic or broker settings (see native_log.config). Those by a topic's
            own name override stored ones, with one exception: compact,delete deletes old segments only of
            topics that `topics` names or whose stored policy it is. Then retention.ms (default: 7 days) and
            retention.bytes (default: no limit) apply. Those by a broker's name
            (log.cleaner.min.cleanable.ratio) are defaults for what is not stored. log.cleaner.threads
            (default: one for each core) share the memory log.cleaner.dedupe.buffer.size.
        now_ms: the time from which delete horizons and lags are measured, in epoch ms; None: now.
        dry_run: change nothing, and report what would be done.
        exclude_topics: topics to leave out, even if `topics` names them.
        on_progress: called with (steps done, total steps), from any thread.
        storage_options: credentials and other settings for paths that are URLs, where only a dry run is
            possible: see LogDir.

    Returns:
        One row for each partition (STATISTICS_SCHEMA), including partitions of skipped topics. A partition
        that fails has the status "failed"; the others are still compacted. A damaged log is not changed. If a
        file cannot be written, groups of segments that were replaced before that stay compacted. In a dry
        run, the status of a partition to compact is "would be cleaned", and bytesAfter is approximate: it
        depends on the compressor and, through the timestamps that are written, on the time.

    Raises:
        LogDirInUseError: a broker or another writer is using the directory.
        InvalidConfigError: an invalid setting.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    request = compaction_request(topics, config)
    now = current_ms() if now_ms is None else now_ms
    with open_for_maintenance(path, dry_run, storage_options=storage_options) as log_dir:
        selected = select_to_compact(log_dir, request, exclude_topics)
        to_compact = selected.to_compact
        settings = LogConfig.parse(request.config)
        buffer_bytes = settings.log_cleaner_dedupe_buffer_size
        readers = log_dir.waiting_readers(directory for directory, _ in to_compact)
        max_threads = settings.log_cleaner_threads or readers or available_cores()
        threads = max(1, min(max_threads, len(to_compact), buffer_bytes // _MIN_MAP_BYTES))
        run = _CompactionRun(now, dry_run, buffer_bytes // threads, Progress(on_progress, len(to_compact)))
        checkpoints = CleanerCheckpoints()
        results = []
        try:
            with worker_threads(threads, "log-cleaner", run.progress) as pool:
                cleaned = pool.map(partial(_compact_partition, log_dir, run), to_compact)
                for (directory, _), stats in zip(to_compact, cleaned, strict=True):
                    results.append(stats)
                    if stats.status == "cleaned" and stats.end_offset is not None and not dry_run:
                        checkpoints.add(directory, stats.end_offset)
        finally:
            checkpoints.save()
        if not dry_run:
            results = delete_old_segments(
                [
                    (stats, str(directory.path), log_dir.checkpoints(directory), policy.config)
                    for stats, (directory, policy) in zip(results, to_compact, strict=True)
                ],
                now,
            )
        return selected.report(results, dry_run)


@dataclass(frozen=True, slots=True)
class _CompactionRun:
    """What the threads of a run share.

    Attributes:
        map_bytes: the memory limit of one thread's map.
    """

    now_ms: int
    dry_run: bool
    map_bytes: int
    progress: Progress


def compaction_request(topics: str | Iterable[str] | None, config: Mapping[str, object] | None) -> Request:
    """Return the request for a compaction.

    Raises:
        InvalidConfigError: an invalid setting, or a cleanup.policy without compact.
        InvalidTopicError: a topic whose records have no keys. Compaction would drop all of them.
    """
    request = Request.of(topics, config)
    if request.names(REMOTE_LOG_METADATA_TOPIC):
        raise InvalidTopicError(
            f"{REMOTE_LOG_METADATA_TOPIC} cannot be compacted: its records have no keys, so compaction would "
            "drop them all, and the segments in remote storage would be lost. It is left alone"
        )
    if request.policy is not None and "compact" not in request.policy:
        raise InvalidConfigError(
            f"cleanup.policy: expected compact among its values, found {policy_text(request.policy)}"
        )
    return request


@dataclass(frozen=True, slots=True)
class SelectedPartitions:
    """The partitions that a run selects.

    Attributes:
        to_compact: the partitions to compact, each with the policy of its topic.
        skipped: the rows of partitions whose policy says that they are skipped.
        settings: the settings that decided, by topic and partition.
    """

    to_compact: list[tuple[PartitionDir, CompactionPolicy]]
    skipped: list[PartitionStatistics]
    settings: dict[tuple[str, int], tuple[AppliedSetting, ...]]

    def report(self, compacted: Iterable[PartitionStatistics], dry_run: bool) -> pa.Table:
        """Return the report (STATISTICS_SCHEMA) of all partitions, with the results of those to compact."""
        return statistics_table([*self.skipped, *compacted], self.settings, dry_run)


def select_to_compact(
    log_dir: LogDir, request: Request, exclude_topics: str | Iterable[str]
) -> SelectedPartitions:
    """Select the partitions of a run, and decide which of them are compacted."""
    selected = select_changeable(log_dir, request.topics, exclude_topics)
    decided = decide_policies(log_dir, selected, partial(compaction_policy, request=request))
    to_compact, skipped = [], []
    for directory, policy in zip(selected, decided, strict=True):
        if policy.skipped is None:
            to_compact.append((directory, policy))
        else:
            skipped.append(skipped_partition(directory.topic, directory.partition, policy.skipped))
    settings = {directory.key: policy.settings for directory, policy in zip(selected, decided, strict=True)}
    return SelectedPartitions(to_compact, skipped, settings)


class CleanerCheckpoints:
    """Saves first dirty offsets in cleaner-offset-checkpoint.

    With many small partitions, it saves only once in a while. After a crash, partitions whose offset was not
    saved are compacted again, without effect.
    """

    def __init__(self) -> None:
        self._unsaved: dict[Path, tuple[str, int, int]] = {}
        self._saved_at = -_SAVE_INTERVAL_SECONDS

    def add(self, directory: PartitionDir, first_dirty_offset: int) -> None:
        self._unsaved[directory.path] = directory.topic, directory.partition, first_dirty_offset
        if time.monotonic() - self._saved_at >= _SAVE_INTERVAL_SECONDS:
            self.save()

    def save(self) -> None:
        update_partition_checkpoints(CLEANER_OFFSET_CHECKPOINT, self._unsaved)
        self._unsaved.clear()
        self._saved_at = time.monotonic()


def _compact_partition(
    log_dir: LogDir, run: _CompactionRun, to_compact: tuple[PartitionDir, CompactionPolicy]
) -> PartitionStatistics:
    directory, policy = to_compact
    progress = run.progress.partition()

    def compact_log() -> PartitionStatistics:
        return _compact_log(log_dir.partition(*directory.key), policy, run, progress)

    try:
        if run.dry_run:  # a broker may be changing the log
            return retry_changed(compact_log)
        finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
        return compact_log()
    except (KafkaLogError, OSError) as error:
        if run.dry_run and directory.folder.was_removed():
            return skipped_partition(*directory.key, "the partition was removed")
        logger.warning(
            "compaction of %s-%d failed: %s", directory.topic, directory.partition, error_message(error)
        )
        if not run.dry_run:
            try_finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
        return failed_partition(directory.topic, directory.partition, error_message(error))
    finally:
        progress.end()


def _compact_log(
    log: PartitionLog, policy: CompactionPolicy, run: _CompactionRun, progress: PartitionProgress
) -> PartitionStatistics:
    """Carry out one round over `log`, if a broker would do so."""
    config = policy.config
    cleanable = find_cleanable_range(log, config, run.now_ms)
    if not cleanable.is_candidate(config):
        return add_planned_deletions(skip_ineligible(log, cleanable, policy), log, config, run.now_ms)
    progress.begin(2 * log.size_bytes)
    round, survivors, null_keys = plan_and_find_survivors(
        log, cleanable, config, run.now_ms, run.map_bytes, progress.add
    )
    results: list[GroupStatistics] = []
    directory = None if run.dry_run else log.path
    with ThreadPoolExecutor(1, "log-cleaner-flush") as pool:  # the next group is rewritten during a flush
        installations = []
        for group in round.groups:
            results.append(rewrite_group(round, group, survivors, directory, flush=False))
            if directory is not None:
                installations.append(pool.submit(_install, directory, group))
            progress.add(group.size_bytes)
        for installation in installations:
            installation.result()
    was_cleaned = log.checkpoints.first_dirty_offset is not None
    stats = cleaned_partition(round, cleanable, results, null_keys, was_cleaned, policy.note)
    return add_planned_deletions(stats, log, config, run.now_ms, zip(round.groups, results, strict=True))


def _install(directory: Path, group: Group) -> None:
    """Replace the segments of a group by its rewritten segment, after flushing that to disk."""
    flush_cleaned_segment(directory, group.base_offset)
    replace_segments(directory, group.base_offsets)


def skip_ineligible(
    log: PartitionLog, cleanable: CleanableRange, policy: CompactionPolicy
) -> PartitionStatistics:
    """Return the row of a log that a broker would not compact now, with the reason."""
    reason = (
        "nothing to compact below the active segment and the last stable offset"
        if cleanable.cleanable_bytes == 0
        else f"dirty ratio {cleanable.dirty_ratio:.2f} is not above min.cleanable.dirty.ratio "
        f"{policy.config.min_cleanable_dirty_ratio}"
    )
    reason = "; ".join(filter(None, (reason, policy.note)))
    return skipped_partition(log.topic, log.partition, reason, cleanable)
