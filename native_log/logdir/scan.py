"""Plan the scan of many partitions: which of them, which offsets, and how they are read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from native_log.arguments import optional_count
from native_log.log.reading.columns import record_schema
from native_log.log.reading.log_scan import LogScan
from native_log.logdir.position import check_position, offset_at, position_in
from native_log.prefetch import look_up_together
from native_log.records import RECORD_SCHEMA
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.arguments import IsolationLevel
    from native_log.filters import RecordFilter
    from native_log.log import LogRange
    from native_log.log.readable_log import ReadableLog
    from native_log.log.reading.options import ReadArguments
    from native_log.logdir.catalog import PartitionKey
    from native_log.logdir.position import Position

logger = logging.getLogger(__name__)


def plan_scan(
    keys: Sequence[PartitionKey],
    open_logs: Callable[[Sequence[PartitionKey]], Mapping[PartitionKey, ReadableLog]],
    columns: Sequence[str] | None,
    start: Position,
    end: Position,
    isolation_level: IsolationLevel,
    threads: int | None,
    key_partitions: int | Mapping[str, int] | None,
    options: ReadArguments,
    *,
    are_local: bool,
) -> LogScan:
    """Return the scan of partitions. See LogDir.scan for the other arguments and errors.

    Args:
        keys: the partitions to scan, as far as the filter can select their records.
        open_logs: opens the logs of partitions.
        are_local: whether they are on local disks.
    """
    names = tuple(RECORD_SCHEMA.names if columns is None else columns)
    record_schema(names)
    start, end = check_position("start", start), check_position("end", end)
    threads = optional_count("threads", threads)
    for count in key_partitions.values() if isinstance(key_partitions, Mapping) else [key_partitions]:
        optional_count("key_partitions", count)
    filter: Any = options.get("filter")
    if filter is not None:
        from native_log.filters import to_filter  # takes long to import

        filter = to_filter(filter)
        options = {**options, "filter": filter}
        keys = filter.possible_partitions(keys, key_partitions)
    logs = open_logs(keys)
    ranges = look_up_together(
        lambda key: _range(logs[key], start, end, isolation_level, filter), logs, are_local=are_local
    ).values()
    with_offsets = tuple(each for each in ranges if each.start_offset < each.end_offset)
    return LogScan(with_offsets, names, options, available_cores() if threads is None else threads)


def _range(
    log: ReadableLog,
    start: Position,
    end: Position,
    isolation_level: IsolationLevel,
    filter: RecordFilter | None,
) -> LogRange:
    """Return the range of a log from `start` to `end`, as far as the log and the filter have offsets."""
    start, end = position_in(log, start), position_in(log, end)
    first, limit = log.local_log_start_offset, log.end_offset(isolation_level)
    low = offset_at(log, start, first, isolation_level)
    high = offset_at(log, end, limit, isolation_level)
    if isinstance(start, int) and low < first:
        logger.warning("%s: offset %d is before its first one, %d", log.path, low, first)
    if filter is not None:
        least, most = filter.offsets
        low = low if least is None else max(low, least)
        high = high if most is None else min(high, most + 1)
    low, high = min(max(low, first), limit), min(high, limit)
    is_whole = start is None and low == first
    is_to_end = end is None and high == limit
    return log.range(
        None if is_whole else low,
        None if is_to_end else max(low, high),
        isolation_level=isolation_level,
    )
