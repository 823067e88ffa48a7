"""Logs of internal topics for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log import LogDir
from native_log.internal_topics.records import HISTORY_FIELDS, Record
from native_log.internal_topics.schemas import TIMESTAMP
from native_log.messages.groups import RECORDS
from native_log.records.control import encode_marker

from .messages import encode_key, encode_value

if TYPE_CHECKING:
    from pathlib import Path

    from native_log import PartitionLog

Pair = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
COMMIT = 1
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
PRODUCER = 7
SUBTOPOLOGY = {
    "subtopologyId": "0",
    "sourceTopics": ["orders"],
    "sourceTopicRegex": [],
    "stateChangelogTopics": [],
    "repartitionSinkTopics": ["r"],
    "repartitionSourceTopics": [],
    "copartitionGroups": [],
}
"""A part of the topology of a streams group."""


def commit(
    offset: int | None,
    group: str = "g",
    topic: str = "orders",
    partition: int = 0,
    *,
    version: int = 3,
    kind: int = COMMIT,
    **fields: Any,
) -> Pair:
    """Return the record of a committed offset; None: its tombstone."""
    key = encode_key(RECORDS, kind, group=group, topic=topic, partition=partition)
    if offset is None:
        return key, None
    fields = {"commitTimestamp": NOW_MS, **fields}
    return key, encode_value(RECORDS, kind, version, offset=offset, **fields)


def group_record(kind: int, version: int = 0, *, key: dict[str, str], **fields: Any) -> Pair:
    """Return a record of __consumer_offsets about a group."""
    return encode_key(RECORDS, kind, **key), encode_value(RECORDS, kind, version, **fields)


def records_of(*pairs: Pair) -> list[Record]:
    """Return records with these keys and values, with offsets from 0."""
    return [Record(offset, NOW_MS * 1000, *pair) for offset, pair in enumerate(pairs)]


def history_of(pairs: list[Pair], is_transactional: list[bool]) -> pa.RecordBatch:
    """Return records with HISTORY_FIELDS and offsets 0, 2, 4 and so on. The flags belong to PRODUCER."""
    count = len(pairs)
    columns = [
        pa.array(range(0, 2 * count, 2), pa.int64()),
        pa.array([NOW_MS * 1000, None] * count, pa.int64()).cast(TIMESTAMP)[:count],
        *(pa.array([pair[at] for pair in pairs], pa.binary()) for at in (0, 1)),
        pa.array([PRODUCER if is_so else -1 for is_so in is_transactional], pa.int64()),
        pa.array(is_transactional, pa.bool_()),
    ]
    return pa.RecordBatch.from_arrays(columns, list(HISTORY_FIELDS))


class InternalTopic:
    """A log directory with an internal topic of one partition that a test fills."""

    def __init__(self, path: Path, topic: str = OFFSETS_TOPIC) -> None:
        self.path = path
        self.topic = topic
        with LogDir.create(path, node_id=1) as log_dir:
            log_dir.create_topic(topic, config={"cleanup.policy": "delete"})

    def append(self, *records: Pair, producer_id: int = -1, sequence: int = -1) -> None:
        """Append records; with a producer id as part of a transaction."""
        keys, values = zip(*records, strict=True)
        table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        is_transactional = producer_id >= 0
        self._write(
            lambda log: log.append(
                table,
                now_ms=NOW_MS,
                producer_id=producer_id,
                producer_epoch=0 if is_transactional else -1,
                base_sequence=sequence if sequence >= 0 else (0 if is_transactional else -1),
                is_transactional=is_transactional,
            )
        )

    def end(self, producer_id: int, *, commit: bool) -> None:
        """End the transaction of a producer."""

        def write(log: PartitionLog) -> None:
            marker = encode_marker(
                offset=log.log_end_offset,
                producer_id=producer_id,
                producer_epoch=0,
                commit=commit,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
            )
            log.append_batches(bytearray(marker), origin="coordinator", now_ms=NOW_MS)

        self._write(write)

    def _write(self, write: Any) -> None:
        config = {"cleanup.policy": "delete"}
        with LogDir(self.path) as log_dir, log_dir.partition(self.topic, 0, config=config) as log:
            write(log)
