"""From options to the log ranges of tasks: opens the log directories, and has the pure parts decide."""

from __future__ import annotations

import errno
import gc
import glob
import logging
import os
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from kafkalog_spark.options.topics import assigned_partitions
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
    divides,
    pack,
    target_bytes,
)
from native_log.logdir import INTERNAL_TOPICS, LogDir
from native_log.logdir.discovery import local_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.options.read import ReadOptions
    from native_log.arguments import Mode
    from native_log.log import LogRange, PartitionLog

logger = logging.getLogger(__name__)


def open_log_dir(options: ReadOptions) -> LogDir:
    return LogDir(
        [found for path in options.paths for found in _matching(path)],
        include_deleted=options.include_deleted,
        high_watermark=options.high_watermark,
        max_batch_bytes=options.max_batch_bytes,
    )


def _matching(path: str) -> list[str]:
    """A path with wildcards stands for the directories that there are, as for Spark's file sources."""
    if not glob.has_magic(path) or os.path.exists(path):  # noqa: PTH110  (a directory may be called so)
        return [path]
    local = str(local_path(path))
    found = sorted(one for one in glob.glob(local) if os.path.isdir(one))  # noqa: PTH112, PTH207
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no directory matches", local)
    return found


def selected(options: ReadOptions, log_dir: LogDir) -> list[TopicPartition]:
    """The partitions that the topic option is about."""
    return assigned_partitions(
        options.selection,
        log_dir.topics(),
        INTERNAL_TOPICS,
        include_internal=options.include_internal,
        path=", ".join(map(str, log_dir.paths)),
    )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Planning makes objects by the million, and no cycles of them: the search for any takes a seventh of the
    time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@no_garbage_collection()
def plan_records(options: ReadOptions) -> list[list[LogRange]]:
    """The ranges that each task reads.

    Offsets are resolved here and now, against what the logs hold at this moment.
    """
    log_dir = open_log_dir(options)
    logs = {tp: log_dir.partition(*tp) for tp in selected(options, log_dir)}
    wholes = {
        tp: log.range(log.local_log_start_offset, isolation_level=options.isolation_level)
        for tp, log in logs.items()
    }
    available = {tp: OffsetRange(*tp, whole.start_offset, whole.end_offset) for tp, whole in wholes.items()}

    def offset_for_timestamp(tp: TopicPartition, timestamp_ms: int) -> int | None:
        if timestamp_ms == MAX_TIMESTAMP:
            timestamp_ms = _max_timestamp_ms(logs[tp], options.mode)
        return logs[tp].offset_for_timestamp(
            timestamp_ms, isolation_level=options.isolation_level, mode=options.mode
        )

    asked = resolve(options.start, options.end, options.strategy, available, offset_for_timestamp)
    if options.min_partitions is None or options.min_partitions <= len(asked):
        check_not_reversed(asked)  # else Spark drops them when it divides the others
    for r in asked:
        log, held_by_log = logs[r.topic_partition], available[r.topic_partition]
        gap = log.without_local_segments
        check_data_loss(r, held_by_log, fail=options.fail_on_data_loss, path=log.path, reason=gap)
        if gap and starts_at_earliest(r, held_by_log, options.start):
            logger.warning("%s is read in part: %s", log.path, gap)

    held = {}
    for r in asked:
        tp = r.topic_partition
        part = r.clamped(available[tp])
        if part == available[tp]:
            held[tp] = wholes[tp]
        elif part.size > 0:
            held[tp] = logs[tp].range(part.start, part.end, isolation_level=options.isolation_level)
    most = target_bytes(
        (r.size_bytes for r in held.values()), options.max_bytes_per_partition, os.cpu_count() or 1
    )
    whole = options.view == "latest"  # the newest record of a key is known once all were seen
    splits = {tp: [r] if whole or r.size_bytes <= most else r.split(most) for tp, r in held.items()}
    if options.min_partitions is None and options.max_records_per_partition is None:
        return pack(
            (split for parts in splits.values() for split in parts),
            lambda split: split.size_bytes + FILE_COST_BYTES * len(split.pieces),
            min(most, PACK_BYTES),
        )
    cuts = {tp: [split.start_offset for split in parts[1:]] for tp, parts in splits.items()}
    pieces = [piece for r in asked for piece in cut(r, cuts.get(r.topic_partition, ()))]
    if divides(pieces, options.min_partitions, options.max_records_per_partition):
        pieces = divide_ranges(pieces, options.min_partitions, options.max_records_per_partition)
    return _split_at(held, pieces)


def _max_timestamp_ms(log: PartitionLog, mode: Mode) -> int:
    import pyarrow.compute as pc

    greatest = [pc.max(batch.column("maxTimestamp")).as_py() for batch in log.batches(mode=mode)]
    return max(greatest, default=0)


def _split_at(held: Mapping[TopicPartition, LogRange], pieces: Iterable[OffsetRange]) -> list[list[LogRange]]:
    """A task for each piece, with the range of the log that it is: none where the log holds nothing of it."""
    tasks: list[list[LogRange]] = []
    for tp, group in groupby(pieces, key=lambda piece: piece.topic_partition):
        whole = held.get(tp)
        if whole is None:
            tasks += [[] for _ in group]
            continue
        available = OffsetRange(tp.topic, tp.partition, whole.start_offset, whole.end_offset)
        clamped = [piece.clamped(available) for piece in group]
        parts = {part.start_offset: part for part in whole.split_at([c.start for c in clamped if c.size > 0])}
        tasks += [[parts[c.start]] if c.size > 0 else [] for c in clamped]
    return tasks
