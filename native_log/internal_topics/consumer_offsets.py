"""The offsets that groups committed, from records of __consumer_offsets (Kafka: OffsetMetadataManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.internal_topics.group import Group
from native_log.internal_topics.offset_expiration import OffsetExpiration
from native_log.internal_topics.records import timestamp_us
from native_log.messages.coordinators import read_key, read_value
from native_log.messages.groups import OFFSET_TYPES, RECORDS
from native_log.messages.reading import MessageError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from native_log.internal_topics.offset_expiration import OffsetRetention
    from native_log.internal_topics.records import Record
    from native_log.internal_topics.transactions import TransactionStates

_LEGACY_PREFIX = b"\0\0"
"""The type in keys that clients up to 0.8.2 wrote. Otherwise they equal those of today."""

Row = dict[str, Any]


def latest_commits(
    records: Iterable[Record], partition: int, groups: Mapping[str, Group], retention: OffsetRetention
) -> Iterator[Row]:
    """Yield a row of CONSUMER_OFFSETS_SCHEMA for each committed offset.

    Args:
        records: the newest record of each key of a partition of __consumer_offsets, in the order of offsets.
        partition: its number.
        groups: the groups of the partition by name. Groups that only commit offsets may be missing.
        retention: decides which offsets are expired.
    """
    legacy: dict[tuple[object, ...], Row] = {}
    expirations: dict[str, OffsetExpiration] = {}
    for record in records:
        row = _decode(record, partition)
        if row is None:
            continue
        commit = tuple(row.get(name) for name in ("group", "topic", "partition"))
        legacy.pop(commit, None)
        if record.value is None:
            continue
        if row.get("state") == "committed":
            group = row["group"]
            if group not in expirations:
                expirations[group] = OffsetExpiration.of(groups.get(group) or Group(group))
            if _is_expired(row, expirations[group], retention):
                row["state"] = "expired"
        if record.key is not None and record.key.startswith(_LEGACY_PREFIX):
            legacy[commit] = row
        else:
            yield row
    yield from legacy.values()


def all_commits(
    records: Iterable[Record], partition: int, transactions: TransactionStates, expired: Container[int]
) -> Iterator[Row]:
    """Yield a row of CONSUMER_OFFSETS_SCHEMA for each record of an offset: commits and tombstones.

    Args:
        records: all records of a partition of __consumer_offsets.
        partition: its number.
        transactions: those of the partition.
        expired: the offsets of the records of expired commits.
    """
    for record in records:
        row = _decode(record, partition)
        if row is None:
            continue
        if row.get("state") == "committed":
            if record.offset in expired:
                row["state"] = "expired"
            elif record.is_transactional:
                row["state"] = transactions.state(record.producer_id, record.offset)
        yield row


def _decode(record: Record, partition: int) -> Row | None:
    """Return the row of a record, without regard to other records. None: it is not about an offset."""
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


def _is_expired(row: Row, expiration: OffsetExpiration, retention: OffsetRetention) -> bool:
    commit_us, expire_us = row["commitTimestamp"], row["expireTimestamp"]
    return expiration.is_expired(
        row["topic"],
        -1 if commit_us is None else commit_us // 1000,
        None if expire_us is None else expire_us // 1000,
        retention,
    )
