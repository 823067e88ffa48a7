"""Compaction as a Spark job, parallel within a partition, with the local cleaner's results.

The driver holds what grows with segments, never keys, offsets or records: keys go packed through Spark's
shuffle, the offsets that survive straight on to the tasks that rewrite. It alone changes logs, once all of a
partition's new segments are there.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import struct
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog_spark import compaction_tasks as tasks
from kafkalog_spark.errors import PathNotVisibleError
from kafkalog_spark.planning import FILE_COST_BYTES, PACK_BYTES, pack, target_bytes
from kafkalog_spark.views import PartitionDirectory
from native_log.cleaner import statistics
from native_log.cleaner.local import chosen_partitions, compaction_config, open_to_change
from native_log.cleaner.swap import (
    STAGING_DIRECTORY,
    finish_interrupted,
    move_to_cleaned,
    remove_deleted,
    swap_in,
)
from native_log.errors import KafkaLogError
from native_log.logdir.checkpoints import CLEANER_OFFSET_CHECKPOINT, update_offset_checkpoint
from native_log.records import DEFAULT_MAX_BATCH_BYTES, RewriteStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.compaction_tasks import GroupResult, Looked, Settings, Split, Staged
    from native_log.cleaner.plan import Round
    from native_log.cleaner.statistics import PartitionStatistics

logger = logging.getLogger(__name__)

SMALL_BYTES = 128 << 20
"""Logs up to this size are cleaned by one task each; a shuffle would cost more than it gains."""
SPLIT_BYTES = 128 << 20
BUCKET_BYTES = 32 << 20
"""Bytes of log for each bucket of keys. A task merges a bucket in memory: as a rule, of far fewer bytes."""
MAX_BUCKETS = 4096
ROWS_IN_FLIGHT = 4
"""Rows of an Arrow batch on the way between the JVM and Python: they are of megabytes here."""

_TRIPLE = struct.Struct("=qqq")


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    *,
    small_bytes: int = SMALL_BYTES,
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """Compacts logs as `native_log.compact` does, with the tasks of a Spark session.

    All executors must see the directories under the same path, as the driver does. The driver holds the log
    directories' locks meanwhile.

    Args:
        path, topics, config, now_ms, dry_run: as for `native_log.compact`. `log.cleaner.dedupe.buffer.size`
            bounds what one task gathers at a time.
        small_bytes: logs up to this size are cleaned by one task each.
        split_bytes: about how much of a larger log a task reads.

    Returns:
        One row a partition, as `native_log.compact` tells it. It is done when this returns.

    Raises:
        PathNotVisibleError: an executor does not see a partition's directory.
        LogDirInUseError and the others: as `native_log.compact`.
    """
    settings = tasks.Settings(
        compaction_config(config),
        int(time.time() * 1000) if now_ms is None else now_ms,
        dry_run,
        small_bytes,
    )
    with ExitStack() as locks:
        log_dir = open_to_change(path, dry_run, locks)
        directories, told = [], []
        for found in chosen_partitions(log_dir, topics):
            try:
                if not dry_run:
                    finish_interrupted(found.path, DEFAULT_MAX_BATCH_BYTES)
                log = log_dir.partition(found.topic, found.partition)
            except (KafkaLogError, OSError) as error:
                told.append(tasks.failed(found.topic, found.partition, error))
                continue
            directory = PartitionDirectory(str(log.path), log.topic, log.partition, log.checkpoints)
            directories.append((directory, log.size_bytes + FILE_COST_BYTES * len(log.segments)))
        with _few_rows_in_flight(spark):
            told += _compact(spark, directories, settings, split_bytes)
    return spark.createDataFrame(statistics.table(told))


def _compact(
    spark: SparkSession,
    directories: Sequence[tuple[PartitionDirectory, int]],
    settings: Settings,
    split_bytes: int,
) -> list[PartitionStatistics]:
    told = []
    large: list[Looked] = []
    done: list[tuple[Looked, PartitionStatistics, tuple[Staged, ...]]] = []
    logger.info("looking into %d partitions", len(directories))
    for looked in _look(spark, directories, settings):
        if looked.invisible_from is not None:
            raise PathNotVisibleError(
                f"the executor on host {looked.invisible_from} does not see this directory: mount it there "
                "under the same path, or run where it lies",
                path=looked.directory.path,
            )
        if looked.round is not None:
            large.append(looked)
        elif looked.statistics is not None:
            done.append((looked, looked.statistics, looked.staged))
    if large:
        done += _compact_large(spark, large, settings, split_bytes)
    for looked, stats, staged in done:
        told.append(stats if settings.dry_run else _committed(looked, stats, staged))
    if not settings.dry_run:
        _save_checkpoints(done, told)
    return told


def _look(
    spark: SparkSession, directories: Sequence[tuple[PartitionDirectory, int]], settings: Settings
) -> Iterator[Looked]:
    packed = pack(directories, lambda one: one[1], PACK_BYTES)
    payloads = [pickle.dumps([directory for directory, _ in one]) for one in packed]
    rows = _each_a_task(spark, payloads).mapInArrow(partial(tasks.look, settings=settings), "payload binary")
    for row in rows.collect() if payloads else ():
        yield pickle.loads(row.payload)  # noqa: S301 (of our own tasks)


def _compact_large(
    spark: SparkSession, large: Sequence[Looked], settings: Settings, split_bytes: int
) -> list[tuple[Looked, PartitionStatistics, tuple[Staged, ...]]]:
    rounds = [looked.round for looked in large if looked.round is not None]
    sizes = [sum(group.size_bytes for group in round.groups) for round in rounds]
    cores = _cores(spark)
    split_bytes = target_bytes(sizes, split_bytes, cores) if split_bytes >= PACK_BYTES else split_bytes
    splits = [
        split
        for index, round in enumerate(rounds)
        for split in _splits(index, round, split_bytes, _buckets(sizes[index], cores))
    ]
    buckets = sum(_buckets(size, cores) for size in sizes)
    groups = sum(len(round.groups) for round in rounds)
    logger.info(
        "compacting %d large partitions: %d splits, %d buckets of keys, %d groups of segments",
        *(len(rounds), len(splits), buckets, groups),
    )
    borders = {
        index: [group.base_offset for group in round.groups] + [round.end_offset]
        for index, round in enumerate(rounds)
    }
    packs = _each_a_task(spark, [pickle.dumps(split) for split in splits]).mapInArrow(
        partial(tasks.gather_keys, max_bytes=settings.config.log_cleaner_dedupe_buffer_size), tasks.PACKS_DDL
    )
    survivors = (
        packs.repartition(min(buckets, 8 * cores), "round", "bucket")
        .sortWithinPartitions("round", "bucket")
        .mapInArrow(partial(tasks.merge_packs, borders=borders), tasks.SURVIVORS_DDL)
    )
    plans = [
        tasks.row(tasks.SURVIVORS, index, number, 0, pickle.dumps(replace(round, groups=(group,))), 0, None)
        for index, round in enumerate(rounds)
        for number, group in enumerate(round.groups)
    ]
    results = (
        spark.createDataFrame(pa.Table.from_batches(plans, tasks.SURVIVORS))
        .union(survivors)
        .repartition(min(groups, 8 * cores), "round", "group")
        .sortWithinPartitions("round", "group", "part")
        .mapInArrow(partial(tasks.rewrite_groups, settings=settings), tasks.RESULTS_DDL)
    )
    by_round: dict[int, dict[int, GroupResult]] = {}
    for row in results.collect():
        by_round.setdefault(row.round, {})[row.group] = pickle.loads(row.payload)  # noqa: S301 (as above)
    return [
        _told(looked, round, [found for _, found in sorted(by_round[index].items())])
        for index, (looked, round) in enumerate(zip(large, rounds, strict=True))
    ]


def _told(
    looked: Looked, round: Round, results: Sequence[GroupResult]
) -> tuple[Looked, PartitionStatistics, tuple[Staged, ...]]:
    error = next((result.error for result in results if result.error is not None), None)
    if error is not None:
        logger.warning("%s-%d is not cleaned: %s", round.topic, round.partition, error)
        return looked, tasks.failed(round.topic, round.partition, error), ()
    assert looked.found is not None
    stats = statistics.cleaned(
        round.topic,
        round.partition,
        looked.found,
        end_offset=round.end_offset,
        segments=(sum(len(group.sources) for group in round.groups), len(round.groups)),
        rewritten=sum((result.stats for result in results), RewriteStats()),
        null_keys=sum(result.null_keys for result in results),
    )
    return looked, stats, tuple(result.staged for result in results if result.staged is not None)


def _splits(index: int, round: Round, split_bytes: int, buckets: int) -> Iterator[Split]:
    triples = list(_TRIPLE.iter_unpack(round.aborted))
    for is_dirty, part in ((True, round.dirty_part()), (False, round.clean_part())):
        if not part.size_bytes:
            continue
        for range in part.split(split_bytes):
            aborted = (one for one in triples if one[1] < range.end_offset and one[2] >= range.start_offset)
            yield tasks.Split(
                index, range, is_dirty, b"".join(_TRIPLE.pack(*one) for one in aborted), buckets
            )


def _buckets(size_bytes: int, cores: int) -> int:
    return min(MAX_BUCKETS, max(cores, -(-size_bytes // BUCKET_BYTES)))


def _committed(looked: Looked, stats: PartitionStatistics, staged: Sequence[Staged]) -> PartitionStatistics:
    """Puts the new segments of a partition in place: a few renames each."""
    directory = Path(looked.directory.path)
    try:
        for one in staged:
            attempt = directory / STAGING_DIRECTORY / one.attempt
            move_to_cleaned(directory, attempt, one.group.base_offset)
            swap_in(directory, one.group)
        if staged:
            remove_deleted(directory)
        shutil.rmtree(directory / STAGING_DIRECTORY, ignore_errors=True)
    except OSError as error:
        logger.warning("%s-%d: %s", stats.topic, stats.partition, error)
        return tasks.failed(stats.topic, stats.partition, error)
    return stats


def _save_checkpoints(
    done: Sequence[tuple[Looked, PartitionStatistics, Any]], told: Sequence[PartitionStatistics]
) -> None:
    by_directory: dict[Path, dict[tuple[str, int], int | None]] = {}
    for (looked, _, _), stats in zip(done, told, strict=True):
        if stats.status == "cleaned":
            offsets = by_directory.setdefault(Path(looked.directory.path).parent, {})
            offsets[stats.topic, stats.partition] = stats.end_offset
    for log_dir, offsets in by_directory.items():
        update_offset_checkpoint(log_dir / CLEANER_OFFSET_CHECKPOINT, offsets)


def _each_a_task(spark: SparkSession, payloads: Sequence[bytes]) -> DataFrame:
    """One row a task: from a single partition, Spark deals rows out evenly."""
    # From Arrow: Spark would run a job of its own to take rows in from Python.
    rows = spark.createDataFrame(pa.table([pa.array(payloads, pa.binary())], schema=tasks.PAYLOAD))
    return rows.coalesce(1).repartition(max(1, len(payloads)))


def _cores(spark: SparkSession) -> int:
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except Exception:  # Spark Connect tells a client nothing of its cluster
        return max(16, os.cpu_count() or 1)


@contextmanager
def _few_rows_in_flight(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, str(ROWS_IN_FLIGHT))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
