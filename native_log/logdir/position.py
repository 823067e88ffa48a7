"""Where reading starts and ends: offsets and times, for all partitions or for each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from native_log.arguments import check_partition_keys, integer
from native_log.times import to_time_ms

if TYPE_CHECKING:
    from native_log.arguments import IsolationLevel
    from native_log.log.readable_log import ReadableLog
    from native_log.logdir.catalog import PartitionKey

    Position: TypeAlias = int | datetime | Mapping[PartitionKey, int | datetime] | None
    """An offset or a time, for all partitions or by (topic, partition). A time stands for the first record
    with that timestamp or a later one; without a time zone, it is in UTC.
    None: the start or the end of the log."""


def check_position(name: str, position: Position) -> Position:
    """Return the position.

    Args:
        name: the name of the argument, for errors.
        position: the position.

    Raises:
        TypeError: it is neither an offset nor a time.
        ValueError: a key of the mapping is not a pair (topic, partition).
    """
    if isinstance(position, Mapping):
        check_partition_keys(name, position)
        return {key: _checked(name, each) for key, each in position.items()}
    return None if position is None else _checked(name, position)


def position_in(log: ReadableLog, position: Position) -> int | datetime | None:
    """Return the position for one log; None: there is none for it."""
    return position.get((log.topic, log.partition)) if isinstance(position, Mapping) else position


def offset_at(
    log: ReadableLog,
    position: int | datetime | None,
    default: int,
    isolation_level: IsolationLevel = "read_uncommitted",
) -> int:
    """Return the offset of a position. It may lie outside the log.

    A time later than every record stands for the end offset.

    Args:
        log: the log.
        position: as `position_in` returns it.
        default: the offset if there is no position.
        isolation_level: which records are searched for a time.
    """
    if isinstance(position, datetime):
        offset = log.offset_for_timestamp(to_time_ms("time", position), isolation_level=isolation_level)
        return log.end_offset(isolation_level) if offset is None else offset
    return default if position is None else position


def _checked(name: str, position: int | datetime) -> int | datetime:
    return position if isinstance(position, datetime) else integer(name, position)
