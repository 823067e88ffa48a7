"""Plan a read: open the log directories, resolve offsets, and split the logs into tasks."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafkalog_spark.errors import DataLossError, session_settings_note
from kafkalog_spark.options.topics import select_partitions
from kafkalog_spark.read.offsets import (
    MAX_TIMESTAMP,
    Earliest,
    Latest,
    OffsetRange,
    as_requested,
    check_data_loss,
    check_not_reversed,
    resolve,
    starts_at_earliest,
)
from kafkalog_spark.read.splits import needs_division
from kafkalog_spark.read.tasks import pack_ranges, plan_tasks
from native_log.log.changing_files import MOVED, retry_changed
from native_log.log.outdated_segment import missing_start
from native_log.logdir import LogDir
from native_log.logdir.selection import internal_topics
from native_log.prefetch import look_up_together
from native_log.system import no_garbage_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.options.read import ReadOptions
    from kafkalog_spark.read.tasks import AnyRange
    from native_log.filters import RecordFilter
    from native_log.log import LogRange
    from native_log.log.readable_log import ReadableLog
    from native_log.logdir.live_logdir import LiveLogDir

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def open_log_dir(options: ReadOptions, *, allow_empty: bool = False) -> LogDir:
    """Open the log directories of the options. Raises as LogDir.

    Args:
        options: the read options.
        allow_empty: see LogDir.
    """
    with session_settings_note(options.paths, options.storage_options):
        return LogDir(
            options.paths or None,
            include_deleted=options.include_deleted,
            high_watermark=options.high_watermark,
            max_batch_bytes=options.max_batch_bytes,
            allow_empty=allow_empty,
            replicas=options.replicas,
            storage_options=options.storage_options,
            **options.remote,
        )


def plan_with_log_dir(
    options: ReadOptions, plan: Callable[[LogDir], Result], *, allow_empty: bool = False
) -> Result:
    """Open the log directories, and return the result of `plan` for them.

    If a broker changes files before `plan` has ended, or removes partitions, or moves them to another log
    directory, do it again. Raises as `open_log_dir` and `plan`.
    """
    log_dir = open_log_dir(options, allow_empty=allow_empty)
    return retry_changed(
        lambda: plan(open_log_dir(options, allow_empty=allow_empty)), MOVED, first=partial(plan, log_dir)
    )


def partitions_to_read(options: ReadOptions, log_dir: LogDir | LiveLogDir) -> list[TopicPartition]:
    """Return the partitions that the topic options select, sorted.

    Raises:
        UnknownTopicOrPartitionError: a named topic does not exist.
    """
    return select_partitions(
        options.selection,
        log_dir.topics(),
        internal_topics(log_dir.partitions(), log_dir.paths),
        include_internal=options.include_internal,
        path=", ".join(map(str, log_dir.paths)),
    )


@no_garbage_collection()
def plan_splits(options: ReadOptions, filter: RecordFilter | None = None) -> list[list[AnyRange]]:
    """Return the log ranges that each task reads. See `locate` for arguments and errors."""
    return plan_with_log_dir(options, lambda log_dir: _plan_splits(options, log_dir, filter))


def _plan_splits(options: ReadOptions, log_dir: LogDir, filter: RecordFilter | None) -> list[list[AnyRange]]:
    if _reads_whole_logs(options, filter):
        partitions = partitions_to_read(options, log_dir)
        if filter is not None:
            partitions = filter.possible_partitions(partitions, options.key_partitions)
        ranges = log_dir.unbounded_ranges(partitions)
        if ranges is not None:
            return pack_ranges(options, ranges.values())
    return plan_tasks(options, *locate(options, log_dir, filter))


def _reads_whole_logs(options: ReadOptions, filter: RecordFilter | None) -> bool:
    """Return whether all records of the partitions are read, so that no offset must be found to plan it."""
    has_bounds = filter is not None and options.view != "latest" and filter.offsets != (None, None)
    return (
        isinstance(options.start, Earliest)
        and isinstance(options.end, Latest)
        and options.isolation_level == "read_uncommitted"
        and options.min_partitions is None
        and options.max_records_per_partition is None
        and not has_bounds
    )


def locate(
    options: ReadOptions, log_dir: LogDir, filter: RecordFilter | None
) -> tuple[list[OffsetRange], dict[TopicPartition, LogRange]]:
    """Return the offsets to read, and the log ranges that have them.

    Offsets are resolved against the present state of the logs. Partitions without records to read have no log
    range.

    Args:
        options: the read options.
        log_dir: the log directories of the options.
        filter: selects the rows of the query. Ranges do not have partitions and offsets that it excludes.

    Raises:
        OptionError: the starting and ending options do not fit the partitions, or no record matches a time.
        DataLossError: a log does not hold all requested offsets, and failOnDataLoss is set.
    """
    logs = log_dir.open_logs(partitions_to_read(options, log_dir))

    def find_range(tp: TopicPartition, start: int, end: int | None = None) -> LogRange:
        return logs[tp].range(start, end, isolation_level=options.isolation_level)

    is_local = log_dir.is_local
    whole_logs = look_up_together(
        lambda tp: find_range(tp, logs[tp].local_log_start_offset), logs, are_local=is_local
    )
    available = {tp: OffsetRange(*tp, r.start_offset, r.end_offset) for tp, r in whole_logs.items()}

    lookup = partial(offsets_for_times, options, logs, are_local=is_local)
    requested = resolve(options.start, options.end, options.strategy, available, lookup)
    _check_order(options, requested)
    for r in requested:
        log, held = logs[r.topic_partition], available[r.topic_partition]
        gap = log.missing_start
        check_data_loss(r, held, fail=options.fail_on_data_loss, path=log.path, reason=gap)
        if gap and starts_at_earliest(r, held, options.start):
            logger.warning("%s is read in part: %s", log.path, gap)

    first, last = (None, None) if filter is None or options.view == "latest" else filter.offsets
    selected = _selected(requested, filter, options.key_partitions)
    parts = {
        r.topic_partition: _within(r.intersection(available[r.topic_partition]), first, last)
        for r in selected
    }

    def locate_part(tp: TopicPartition) -> LogRange:
        part = parts[tp]
        return whole_logs[tp] if part == available[tp] else find_range(tp, part.start, part.end)

    wanted = [tp for tp, part in parts.items() if part.size > 0 or part == available[tp]]
    located = look_up_together(locate_part, wanted, are_local=is_local)
    for tp, range in located.items():
        _check_start(logs[tp], range, fail=options.fail_on_data_loss)
    if options.fail_on_data_loss:
        _check_no_holes(located.values())
    return list(requested), located


def _check_order(options: ReadOptions, requested: Sequence[OffsetRange]) -> None:
    """Raise OptionError for a range that ends before it starts, if Spark's kafka source fails for it, too."""
    limits = options.min_partitions, options.max_records_per_partition
    if limits != (None, None):
        unresolved = [as_requested(r, options.start, options.end) for r in requested]
        if needs_division(unresolved, *limits):
            # Before Spark divides ranges, it resolves earliest and latest, and drops those that are reversed.
            requested = [r for r in unresolved if min(r.start, r.end) >= 0]
    check_not_reversed(requested)


def _selected(
    requested: Sequence[OffsetRange], filter: RecordFilter | None, key_partitions: int | None
) -> list[OffsetRange]:
    """Return the ranges of partitions that a filter does not exclude."""
    if filter is None:
        return list(requested)
    possible = set(filter.possible_partitions([r.topic_partition for r in requested], key_partitions))
    return [r for r in requested if r.topic_partition in possible]


def _within(r: OffsetRange, first: int | None, last: int | None) -> OffsetRange:
    """Return the part of a range from `first` to `last`, both inclusive; None: no bound."""
    start = r.start if first is None else max(r.start, first)
    end = r.end if last is None else min(r.end, last + 1)
    return OffsetRange(*r.topic_partition, start, max(start, end))


def _check_start(log: ReadableLog, range: LogRange, *, fail: bool) -> None:
    """Raise DataLossError, or log a warning, if the first records of a range are missing."""
    missing = missing_start(log.state, range)
    if missing is None:
        return
    if fail:
        raise DataLossError(
            f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: {missing}; copy the log again, or set "
            "failOnDataLoss=false to read the other records",
            path=range.path,
            offset=range.start_offset,
        )
    logger.warning("%s: %s; the others are read, because failOnDataLoss=false", range.path, missing)


def _check_no_holes(ranges: Iterable[LogRange]) -> None:
    """Raise DataLossError for offsets within a log that are nowhere. Without failOnDataLoss, tasks warn."""
    for range in ranges:
        for lost in range.source.lost(range.span):
            raise DataLossError(
                f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: expected offsets {lost.start_offset} to "
                f"{lost.end_offset - 1} of {range.topic}-{range.partition} in remote storage, found no "
                "segment with them; set failOnDataLoss=false to read the others",
                path=range.path,
                offset=lost.start_offset,
            )


def offsets_for_times(
    options: ReadOptions,
    logs: Mapping[TopicPartition, ReadableLog],
    times_ms: Mapping[TopicPartition, int],
    *,
    are_local: bool,
) -> dict[TopicPartition, int | None]:
    """Return the first offset of each partition with at least a timestamp (epoch ms); None: there is none.

    Args:
        options: the read options.
        logs: the logs of the partitions.
        times_ms: the timestamps.
        are_local: whether all logs are on local disks.
    """

    def find(tp: TopicPartition) -> int | None:
        if times_ms[tp] == MAX_TIMESTAMP:
            return logs[tp].offset_for_max_timestamp(
                isolation_level=options.isolation_level, mode=options.mode
            )
        # Spark's kafka source accepts every number.
        return logs[tp].offset_for_time_ms(times_ms[tp], options.isolation_level, options.mode)

    return look_up_together(find, times_ms, are_local=are_local)
