"""Compact logs with Spark. This module runs in the driver."""

from __future__ import annotations

import logging
import pickle
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import DDL, collect_rows, cores, job_description, task_rows, tuned_session
from kafkalog_spark.compaction.inspection import inspect_partitions
from kafkalog_spark.compaction.install import install_segments, remove_staging
from kafkalog_spark.compaction.large import compact_large
from kafkalog_spark.compaction.messages import (
    InspectionTask,
    PartitionResult,
    PartitionToCompact,
    RunSettings,
)
from kafkalog_spark.compaction.splits import SPLIT_BYTES
from kafkalog_spark.errors import PathNotVisibleError
from kafkalog_spark.read.splits import FILE_COST_BYTES, pack, target_bytes
from kafkalog_spark.session_storage import storage_options_for
from native_log.compaction.compactor import compaction_request, select_to_compact
from native_log.compaction.delete_policy import delete_old_segments
from native_log.compaction.statistics import failed_partition
from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.log.replacing.interrupted import STAGING_DIRECTORY, finish_interrupted
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.maintenance import open_for_maintenance
from native_log.prefetch import map_together
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage.ownership import create_directory
from native_log.system import current_ms

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.compaction.messages import LargePartition
    from native_log.compaction.statistics import PartitionStatistics
    from native_log.logdir import LogDir, PartitionDir
    from native_log.policies import CompactionPolicy
    from native_log.storage import Folder

logger = logging.getLogger(__name__)

SMALL_BYTES = 128 << 20
"""One task compacts a log up to this size, because a shuffle would cost more time than it saves."""
WHOLE_SHARE = 1.5
"""One task also compacts a larger log, up to this many times the average work of a core. Other logs keep the
other cores busy meanwhile."""
TASK_BYTES = 256 << 20
"""Small logs share a task up to this size."""
TASKS_PER_CORE = 8
"""Tasks with small logs per core. A task costs about 50 ms, so there should be few of them; but enough that
all cores finish at about the same time."""


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    exclude_topics: str | Iterable[str] = (),
    small_bytes: int = SMALL_BYTES,
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """Compact logs as `native_log.compact` does, with the tasks of a Spark session.

    All executors must see the directories under the same paths as the driver. The driver holds the locks of
    the log directories until this returns. For URLs, where only a dry run is possible, the session's
    settings apply: see `storage_options`.

    Args:
        path, topics, config, now_ms, dry_run, exclude_topics: as for `native_log.compact`, with two
            differences: log.cleaner.dedupe.buffer.size is the memory for keys of one task, and
            log.cleaner.threads is not used.
        small_bytes: one task compacts a log up to this size. One task also compacts a larger log if there are
            enough logs for all cores and its keys fit in memory.
        split_bytes: about how many bytes of a larger log a task reads.

    Returns:
        One row for each partition, as `native_log.compact` returns it (STATISTICS_SCHEMA in
        native_log.compaction): `status` is "cleaned" (in a dry run: "would be cleaned"), "skipped" or
        "failed", with a `reason`; then the numbers of segments, records and bytes before and after, and what
        happened to batches, tombstones and keys; `settings` are the settings that decided, with their
        sources. The work is done when this returns.

    Raises:
        PathNotVisibleError: an executor does not see a partition directory.
        LogDirInUseError and others: as for `native_log.compact`.
    """
    request = compaction_request(topics, config)
    buffer_bytes = LogConfig.parse(request.config).log_cleaner_dedupe_buffer_size
    storage, now = storage_options_for(spark, path), current_ms() if now_ms is None else now_ms
    settings = RunSettings(buffer_bytes, now, dry_run, storage.carried())
    with ExitStack() as stack:
        log_dir = stack.enter_context(open_for_maintenance(path, dry_run, storage_options=storage))
        selected = select_to_compact(log_dir, request, exclude_topics)
        to_compact = selected.to_compact
        if not dry_run:
            stack.callback(remove_staging, [directory.path for directory, _ in to_compact])
        logs, statistics = _prepare_partitions(log_dir, to_compact, dry_run)
        stack.enter_context(tuned_session(spark))
        results = _compact_partitions(spark, logs, settings, small_bytes, split_bytes)
        if dry_run:
            statistics += [result.statistics for result in results if result.statistics]
        else:
            logger.info("installing the new segments of %d partitions", len(results))
            configs = {str(directory.path): policy.config for directory, policy in to_compact}
            partitions = [result.directory for result in results]
            statistics += delete_old_segments(
                [
                    (stats, partition.path, partition.checkpoints, configs[partition.path])
                    for stats, partition in zip(install_segments(results), partitions, strict=True)
                ],
                settings.now_ms,
            )
    return spark.createDataFrame(selected.report(statistics, dry_run))


SizedPartition = tuple[PartitionToCompact, int]
"""A partition, and the work that it costs, in bytes."""


def _prepare_partitions(
    log_dir: LogDir, to_compact: Sequence[tuple[PartitionDir, CompactionPolicy]], dry_run: bool
) -> tuple[list[SizedPartition], list[PartitionStatistics]]:
    """Finish interrupted compactions, and create the staging directories. In a dry run, do neither.

    Returns:
        The partitions, and the statistics of those that failed.
    """

    def prepare(item: tuple[PartitionDir, CompactionPolicy]) -> SizedPartition | PartitionStatistics:
        directory, policy = item
        checkpoints = log_dir.checkpoints(directory)
        source = DirectorySource(str(directory.path), *directory.key, checkpoints, storage=directory.storage)
        try:
            if not dry_run:
                finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
                create_directory(directory.path / STAGING_DIRECTORY)
            return PartitionToCompact(source, policy), _work_bytes(directory.folder)
        except (KafkaLogError, OSError) as error:
            return failed_partition(*directory.key, str(error))

    prepared: list[SizedPartition] = []
    failures: list[PartitionStatistics] = []
    for result in map_together(prepare, to_compact, are_local=log_dir.is_local):
        if isinstance(result, tuple):
            prepared.append(result)
        else:
            failures.append(result)
    return prepared, failures


def _work_bytes(directory: Folder) -> int:
    sizes = [entry.stat().st_size for name, entry in directory.list().items() if name.endswith(".log")]
    return sum(sizes) + FILE_COST_BYTES * len(sizes)


def _compact_partitions(
    spark: SparkSession,
    logs: Sequence[SizedPartition],
    settings: RunSettings,
    small_bytes: int,
    split_bytes: int,
) -> list[PartitionResult]:
    """Compact all partitions into their staging directories. No log is changed."""
    results: list[PartitionResult] = []
    large: list[LargePartition] = []
    description = f"inspecting {len(logs)} partitions, and compacting small ones"
    with job_description(spark, "compact", description):
        for result in _inspect(spark, logs, settings, small_bytes):
            if result.invisible_from is not None:
                raise PathNotVisibleError.on_host(result.invisible_from, result.directory.path)
            if result.large_partition is not None:
                large.append(result.large_partition)
            else:
                results.append(result)
    return results + compact_large(spark, large, settings, split_bytes)


def _inspect(
    spark: SparkSession, logs: Sequence[SizedPartition], settings: RunSettings, small_bytes: int
) -> Iterator[PartitionResult]:
    """Inspect all partitions, and compact those that one task can compact."""
    if not logs:
        return
    sizes = [size for _, size in logs]
    whole_bytes = max(small_bytes, int(WHOLE_SHARE * sum(sizes) / cores(spark)) if small_bytes else 0)
    task_bytes = target_bytes(sizes, TASK_BYTES, TASKS_PER_CORE * cores(spark))
    # The largest logs come first, so that none of them is started last.
    ordered = sorted(logs, key=lambda log: -log[1])
    tasks = [
        InspectionTask(tuple(partition for partition, _ in packed), compact_whole)
        for compact_whole, same_kind in groupby(ordered, lambda log: log[1] <= whole_bytes)
        for packed in pack(same_kind, lambda log: log[1], task_bytes)
    ]
    frame = task_rows(spark, tasks).mapInArrow(partial(inspect_partitions, settings=settings), DDL)
    for row in collect_rows(frame):
        yield pickle.loads(row.payload)  # noqa: S301 (written by our tasks)
