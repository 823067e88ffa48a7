"""Decode the records of committed offsets one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.internal_topics.records import timestamp_us
from native_log.messages.coordinators import read_key, read_value
from native_log.messages.groups import OFFSET_TYPES, RECORDS
from native_log.messages.reading import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.internal_topics.records import Record

Row = dict[str, Any]


def commit_rows(records: Iterable[Record], partition: int) -> Iterator[Row]:
    """Yield a row of CONSUMER_OFFSETS_SCHEMA for each record about an offset.

    Other records do not matter: the state of a row is "committed" or "tombstone", or missing if the record
    cannot be decoded.

    Args:
        records: records of a partition of __consumer_offsets.
        partition: its number.
    """
    for record in records:
        row = _decode(record, partition)
        if row is not None:
            yield row


def _decode(record: Record, partition: int) -> Row | None:
    """Return the row of a record. None: the record is not about an offset."""
    key: dict[str, Any] = {}
    try:
        kind, fields = read_key(RECORDS, record.key)
        if kind not in OFFSET_TYPES:
            return None
        key = fields
        values = {"state": "tombstone"} if record.value is None else _commit_values(kind, record.value)
        return {**key, **values, **record.location(partition)}
    except MessageError as error:
        return {**key, **record.undecodable(partition, error)}


def _commit_values(kind: int, value: bytes) -> Row:
    _, commit = read_value(RECORDS, kind, value)
    leader_epoch = commit.get("leaderEpoch", -1)
    return {
        "offset": commit["offset"],
        "leaderEpoch": leader_epoch if leader_epoch >= 0 else None,
        "metadata": commit["metadata"],
        "commitTimestamp": timestamp_us("commitTimestamp", commit["commitTimestamp"]),
        "expireTimestamp": timestamp_us("expireTimestamp", commit.get("expireTimestamp", -1)),
        "state": "committed",
        "topicId": commit.get("topicId"),
    }
