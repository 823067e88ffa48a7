"""What a leader takes from a producer (Kafka: LogValidator). Decisions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.config import LogConfig

_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
LOG_APPEND_TIME = "LogAppendTime"


def check_records(records: pa.RecordBatch, config: LogConfig, now_ms: int, path: object) -> None:
    """Raises InvalidRecordError where one has no key and the topic is compacted; InvalidTimestampError."""
    names = records.schema.names
    if config.is_compacted:
        missing = 0 if "key" not in names and records.num_rows else -1
        if "key" in names:
            missing = pc.index(records.column("key").is_null(), True).as_py()
        if missing >= 0:
            raise InvalidRecordError(
                f"row {missing}: expected a key, for the topic is compacted (cleanup.policy), found null; "
                "give it one, or leave the record out",
                path=path,
            )
    if "timestamp" in names and config.message_timestamp_type != LOG_APPEND_TIME:
        check_timestamps(records.column("timestamp"), config, now_ms, path)


def check_timestamps(
    timestamps: pa.Array, config: LogConfig, now_ms: int, path: object, first_row: int = 0
) -> None:
    """Raises InvalidTimestampError for the first one that is negative (but not -1), or further from `now_ms`
    than `message.timestamp.before.max.ms` or `message.timestamp.after.max.ms` allow."""
    if pa.types.is_null(timestamps.type):
        return
    factor, divisor = 1, 1
    if pa.types.is_timestamp(timestamps.type):
        factor, divisor = _PER_MS[timestamps.type.unit]
    values = timestamps.cast(pa.int64())
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None:
        return
    earliest = max(0, now_ms - config.message_timestamp_before_max_ms)
    latest = now_ms + config.message_timestamp_after_max_ms
    if earliest <= bounds["min"] * factor // divisor and bounds["max"] * factor // divisor <= latest:
        return
    for row, value in enumerate(values.to_pylist(), first_row):
        ms = -1 if value is None else value * factor // divisor
        if ms != -1 and not earliest <= ms <= latest:
            limit = "after" if ms > latest else "before"
            raise InvalidTimestampError(
                f"row {row}: expected a timestamp from {earliest} to {latest} ms (now is {now_ms}, see "
                f"message.timestamp.{limit}.max.ms), found {ms}; is it in the right unit?",
                path=path,
            )


def check_sizes(sizes: Sequence[int], config: LogConfig, path: object) -> None:
    """Raises RecordTooLargeError for a batch beyond max.message.bytes or segment.bytes."""
    for name, limit in (
        ("max.message.bytes", config.max_message_bytes),
        ("segment.bytes", config.segment_bytes),
    ):
        largest = max(sizes, default=0)
        if largest > limit:
            raise RecordTooLargeError(
                f"batch {sizes.index(largest)} of these: expected at most {limit} bytes ({name}), found "
                f"{largest}; write smaller batches, or raise the setting",
                path=path,
            )
