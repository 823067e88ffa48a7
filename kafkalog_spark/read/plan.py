"""Plan a read: open the log directories, resolve offsets, and split the logs into tasks."""

from __future__ import annotations

import errno
import gc
import glob
import logging
import os
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from kafkalog_spark.options.topics import select_partitions
from kafkalog_spark.read.offsets import (
    MAX_TIMESTAMP,
    OffsetRange,
    check_data_loss,
    check_not_reversed,
    resolve,
    starts_at_earliest,
)
from kafkalog_spark.read.splits import (
    FILE_COST_BYTES,
    PACK_BYTES,
    cut,
    divide_ranges,
    needs_division,
    pack,
    target_bytes,
)
from native_log.logdir import INTERNAL_TOPICS, LogDir
from native_log.logdir.discovery import local_path
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.options.read import ReadOptions
    from native_log.arguments import Mode
    from native_log.log import LogRange, PartitionLog

logger = logging.getLogger(__name__)


def open_log_dir(options: ReadOptions) -> LogDir:
    """Open the log directories of the options. Wildcards in paths are expanded.

    Raises:
        FileNotFoundError: no directory matches a path with wildcards.
    """
    return LogDir(
        [directory for path in options.paths for directory in _expand_wildcards(path)],
        include_deleted=options.include_deleted,
        high_watermark=options.high_watermark,
        max_batch_bytes=options.max_batch_bytes,
    )


def _expand_wildcards(path: str) -> list[str]:
    """Return the directories that match a path with wildcards, as in Spark's file sources."""
    if not glob.has_magic(path) or os.path.exists(path):  # noqa: PTH110  (a name may contain brackets)
        return [path]
    pattern = str(local_path(path))
    directories = sorted(match for match in glob.glob(pattern) if os.path.isdir(match))  # noqa: PTH112, PTH207
    if not directories:
        raise FileNotFoundError(errno.ENOENT, "no directory matches", pattern)
    return directories


def partitions_to_read(options: ReadOptions, log_dir: LogDir) -> list[TopicPartition]:
    """Return the partitions that the topic options select, sorted.

    Raises:
        UnknownTopicOrPartitionError: a named topic does not exist.
    """
    return select_partitions(
        options.selection,
        log_dir.topics(),
        INTERNAL_TOPICS,
        include_internal=options.include_internal,
        path=", ".join(map(str, log_dir.paths)),
    )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector.

    Planning creates millions of objects but no cycles. The collector would take a seventh of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@no_garbage_collection()
def plan_splits(options: ReadOptions) -> list[list[LogRange]]:
    """Return the log ranges that each task reads.

    Offsets are resolved against the present state of the logs.

    Raises:
        OptionError: the starting and ending options do not fit the partitions, or no record matches a time.
        DataLossError: a log does not hold all requested offsets, and failOnDataLoss is set.
    """
    log_dir = open_log_dir(options)
    logs = {tp: log_dir.partition(*tp) for tp in partitions_to_read(options, log_dir)}
    whole_logs = {
        tp: log.range(log.local_log_start_offset, isolation_level=options.isolation_level)
        for tp, log in logs.items()
    }
    available = {tp: OffsetRange(*tp, r.start_offset, r.end_offset) for tp, r in whole_logs.items()}

    def offset_for_timestamp(tp: TopicPartition, timestamp_ms: int) -> int | None:
        if timestamp_ms == MAX_TIMESTAMP:
            timestamp_ms = _max_timestamp_ms(logs[tp], options.mode)
        return logs[tp].offset_for_timestamp(
            timestamp_ms, isolation_level=options.isolation_level, mode=options.mode
        )

    requested = resolve(options.start, options.end, options.strategy, available, offset_for_timestamp)
    if options.min_partitions is None or options.min_partitions <= len(requested):
        check_not_reversed(requested)  # otherwise Spark drops reversed ranges when it divides the others
    for r in requested:
        log, held = logs[r.topic_partition], available[r.topic_partition]
        gap = log.missing_start
        check_data_loss(r, held, fail=options.fail_on_data_loss, path=log.path, reason=gap)
        if gap and starts_at_earliest(r, held, options.start):
            logger.warning("%s is read in part: %s", log.path, gap)

    located = {}
    for r in requested:
        tp = r.topic_partition
        part = r.intersection(available[tp])
        if part == available[tp]:
            located[tp] = whole_logs[tp]
        elif part.size > 0:
            located[tp] = logs[tp].range(part.start, part.end, isolation_level=options.isolation_level)
    max_bytes = target_bytes(
        (r.size_bytes for r in located.values()), options.max_bytes_per_partition, available_cores()
    )
    # The newest record of a key is known only after the whole range was read.
    stays_whole = options.view == "latest"
    splits = {
        tp: [r] if stays_whole or r.size_bytes <= max_bytes else r.split(max_bytes)
        for tp, r in located.items()
    }
    if options.min_partitions is None and options.max_records_per_partition is None:
        return pack(
            (split for parts in splits.values() for split in parts),
            lambda split: split.size_bytes + FILE_COST_BYTES * len(split.slices),
            min(max_bytes, PACK_BYTES),
        )
    cuts = {tp: [split.start_offset for split in parts[1:]] for tp, parts in splits.items()}
    ranges = [part for r in requested for part in cut(r, cuts.get(r.topic_partition, ()))]
    if needs_division(ranges, options.min_partitions, options.max_records_per_partition):
        ranges = divide_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return _locate_ranges(located, ranges)


def _max_timestamp_ms(log: PartitionLog, mode: Mode) -> int:
    import pyarrow.compute as pc

    timestamps = [pc.max(batch.column("maxTimestamp")).as_py() for batch in log.batches(mode=mode)]
    return max(timestamps, default=0)


def _locate_ranges(
    located: Mapping[TopicPartition, LogRange], ranges: Iterable[OffsetRange]
) -> list[list[LogRange]]:
    """Return a task for each range: one log range, or none if the log has no such offsets."""
    tasks: list[list[LogRange]] = []
    for tp, group in groupby(ranges, key=lambda r: r.topic_partition):
        whole = located.get(tp)
        if whole is None:
            tasks += [[] for _ in group]
            continue
        available = OffsetRange(tp.topic, tp.partition, whole.start_offset, whole.end_offset)
        parts = [r.intersection(available) for r in group]
        splits = whole.split_at([part.start for part in parts if part.size > 0])
        by_start = {split.start_offset: split for split in splits}
        tasks += [[by_start[part.start]] if part.size > 0 else [] for part in parts]
    return tasks
