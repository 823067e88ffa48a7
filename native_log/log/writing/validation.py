"""Check records and batches as a leader does before it appends them (Kafka: LogValidator).

The functions decide by their arguments alone.
"""

from __future__ import annotations

import difflib
import logging
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError
from native_log.records import RECORD_SCHEMA
from native_log.records.encoding import known_timestamps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.config import LogConfig

logger = logging.getLogger(__name__)

_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
LOG_APPEND_TIME = "LogAppendTime"
_COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition")
_PANDAS_INDEX = "__index_level_"
_SIMILARITY = 0.6
MISSING_KEY = (
    "expected a key, because the topic is compacted (cleanup.policy), found null; add a key, or leave the "
    "record out"
)


def check_columns(names: Sequence[str]) -> None:
    """Check that these columns are written.

    Warn of the columns of RECORD_SCHEMA that a log sets itself, such as offset: records that were read can be
    appended, but get new ones. Raise ValueError for any other column, because it may be misspelt.
    """
    unwritten = [name for name in names if name not in _COLUMNS and not name.startswith(_PANDAS_INDEX)]
    for name in unwritten:
        if name not in RECORD_SCHEMA.names:
            similar = difflib.get_close_matches(name.lower(), _COLUMNS, 1, _SIMILARITY)
            hint = f"did you mean {similar[0]}?" if similar else "leave it out"
            raise ValueError(f"expected columns of {', '.join(_COLUMNS)}, found {name!r}; {hint}")
    if unwritten:
        _warn_of_unwritten(tuple(unwritten), tuple(name for name in names if name in _COLUMNS))


@cache  # once for the same columns: a program appends many times
def _warn_of_unwritten(unwritten: tuple[str, ...], written: tuple[str, ...]) -> None:
    logger.warning(
        "the columns %s are not written: a log sets them itself; leave them out, as in records.select(%s)",
        ", ".join(unwritten),
        [*written],
    )


def check_target(
    records: pa.RecordBatch | pa.Table, target: tuple[str, int | None], path: object = None
) -> None:
    """Raise InvalidRecordError if the column topic or partition of a record names another log.

    Args:
        records: the records.
        target: topic and partition; the partition None: any.
        path: the log's path, for error messages.
    """
    for name, expected in zip(("topic", "partition"), target, strict=True):
        if expected is None or name not in records.schema.names:
            continue
        column = records.column(name)
        for value in pc.unique(column).to_pylist():
            if value is not None and value != expected:
                raise InvalidRecordError(
                    f"row {column.to_pylist().index(value)}: expected {name} {expected!r}, found "
                    f"{value!r}; append the record to its own log, or leave the column out",
                    path=path,
                )


def check_records(
    records: pa.RecordBatch,
    config: LogConfig,
    now_ms: int,
    path: object,
    first_row: int = 0,
    rows: pa.Array | None = None,
) -> None:
    """Check keys and timestamps.

    Args:
        records: the records.
        config: the topic's settings.
        now_ms: the current time.
        path: the log's path, for error messages.
        first_row: the row number of the first record, for error messages.
        rows: the indexes of the records to check; None: all.

    Raises:
        InvalidRecordError: a record has no key and the topic is compacted.
        InvalidTimestampError: a timestamp is too far from the current time.
    """
    names = records.schema.names

    def column(name: str) -> pa.Array:
        return records.column(name) if rows is None else records.column(name).take(rows)

    if config.is_compacted:
        missing = 0 if "key" not in names and records.num_rows else -1
        if "key" in names:
            missing = pc.index(column("key").is_null(), True).as_py()
        if missing >= 0:
            raise InvalidRecordError(f"row {first_row + missing}: {MISSING_KEY}", path=path)
    if "timestamp" in names and config.message_timestamp_type != LOG_APPEND_TIME:
        check_timestamps(column("timestamp"), config, now_ms, path, first_row)


def timestamp_range(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """Return the earliest and the latest valid timestamp, both inclusive, in epoch ms. -1 is valid too."""
    earliest = max(0, now_ms - config.message_timestamp_before_max_ms)
    return earliest, now_ms + config.message_timestamp_after_max_ms


def timestamp_problem(timestamp_ms: int, valid: tuple[int, int], now_ms: int) -> str:
    """Describe a timestamp outside of `valid`, the result of `timestamp_range`."""
    earliest, latest = valid
    limit = "after" if timestamp_ms > latest else "before"
    return (
        f"expected a timestamp from {earliest} to {latest} ms (now is {now_ms}, see "
        f"message.timestamp.{limit}.max.ms), found {timestamp_ms}; is it in the right unit?"
    )


def check_timestamps(
    timestamps: pa.Array, config: LogConfig, now_ms: int, path: object, first_row: int = 0
) -> None:
    """Raise InvalidTimestampError for the first invalid timestamp.

    A timestamp is invalid if it is negative (except -1), or further from `now_ms` than
    `message.timestamp.before.max.ms` or `message.timestamp.after.max.ms` allow.
    """
    timestamps = known_timestamps(timestamps)
    if pa.types.is_null(timestamps.type):
        return
    factor, divisor = 1, 1
    if pa.types.is_timestamp(timestamps.type):
        factor, divisor = _PER_MS[timestamps.type.unit]
    values = timestamps.cast(pa.int64())
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None:
        return
    earliest, latest = timestamp_range(config, now_ms)
    if earliest <= bounds["min"] * factor // divisor and bounds["max"] * factor // divisor <= latest:
        return
    for row, value in enumerate(values.to_pylist(), first_row):
        ms = -1 if value is None else value * factor // divisor
        if ms != -1 and not earliest <= ms <= latest:
            problem = timestamp_problem(ms, (earliest, latest), now_ms)
            raise InvalidTimestampError(f"row {row}: {problem}", path=path)


def check_sizes(sizes: Sequence[int], config: LogConfig, path: object) -> None:
    """Raise RecordTooLargeError if a batch exceeds max.message.bytes or segment.bytes."""
    for name, limit in (
        ("max.message.bytes", config.max_message_bytes),
        ("segment.bytes", config.segment_bytes),
    ):
        largest = max(sizes, default=0)
        if largest > limit:
            raise RecordTooLargeError(
                f"batch {sizes.index(largest)}: expected at most {limit} bytes ({name}), found {largest}; "
                "write smaller batches, or raise the setting",
                path=path,
            )


def check_order(batches: pa.RecordBatch, log_end_offset: int, path: object) -> None:
    """Raise InvalidRecordError if batches (BATCH_SCHEMA) of a replica overlap with the log or each other."""
    last_offsets = batches.column("lastOffset").to_pylist()
    previous, bound = log_end_offset - 1, "the log end offset"
    for base, last in zip(batches.column("baseOffset").to_pylist(), last_offsets, strict=True):
        first = last if base is None else base
        if first <= previous:
            raise InvalidRecordError(
                f"expected batches of a replica in order of their offsets, the next one at or above {bound} "
                f"{previous + 1}, found one at {first}",
                path=path,
                offset=first,
            )
        previous, bound = last, "the end of the previous batch"


def check_headers(batches: pa.RecordBatch, origin: str, config: LogConfig, path: object) -> None:
    """Check the headers of batches (BATCH_SCHEMA) as a leader does.

    Args:
        batches: the headers.
        origin: "client" or "coordinator".
        config: the topic's settings.
        path: the log's path, for error messages.

    Raises InvalidRecordError, RecordTooLargeError.
    """
    names = ("magic", "baseOffset", "lastOffset", "recordCount", "isControl", "isTransactional", "producerId",
             "baseSequence", "timestampType")  # fmt: skip
    columns = [batches.column(name).to_pylist() for name in names]
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    for i, (magic, base, last, count, control, transactional, producer, sequence, time_type) in enumerate(
        zip(*columns, strict=True)
    ):
        problem = None
        if control:
            problem = None if origin == "coordinator" else "data, found a control batch (see origin)"
        elif magic >= 2:
            if count <= 0:
                problem = f"at least one record, found {count}"
            elif last - base != count - 1:
                problem = f"offsets without gaps, found {count} records over {last - base + 1} offsets"
            elif producer >= 0 and sequence < 0:
                problem = f"a sequence, because it has producer {producer}, found {sequence}"
            elif producer < 0 and transactional:
                problem = "a producer id, because it is transactional, found none"
            elif is_append_time and time_type == 1:
                problem = "CreateTime from a producer, found LogAppendTime"
        if problem is not None:
            raise InvalidRecordError(
                f"batch {i} to append, with base offset {base}: expected {problem}; to append batches of a "
                'replica, use origin "replication"',
                path=path,
            )
    check_sizes(batches.column("sizeInBytes").to_pylist(), config, path)
