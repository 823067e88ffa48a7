"""The tables of committed offsets as specified: one record at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.internal_topics.commit_records import commit_rows
from native_log.internal_topics.group import Group
from native_log.internal_topics.offset_expiration import OffsetExpiration

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from native_log.internal_topics.offset_expiration import OffsetRetention
    from native_log.internal_topics.records import Record
    from native_log.internal_topics.transactions import TransactionStates

Row = dict[str, Any]


def latest_commits(
    records: Iterable[Record], partition: int, groups: Mapping[str, Group], retention: OffsetRetention
) -> list[Row]:
    """Return the rows of the newest records of all keys. Keys of old clients count less than newer ones."""
    rows: list[Row] = []
    legacy: dict[tuple[object, ...], Row] = {}
    for record in records:
        for row in commit_rows([record], partition):
            name = tuple(row.get(part) for part in ("group", "topic", "partition"))
            legacy.pop(name, None)
            if row.get("state") == "committed" and _is_expired(row, groups, retention):
                row["state"] = "expired"
            if row.get("state") == "tombstone":
                continue
            if (record.key or b"").startswith(b"\0\0") and row.get("group") is not None:
                legacy[name] = row
            else:
                rows.append(row)
    return rows + list(legacy.values())


def all_commits(
    records: Iterable[Record], partition: int, transactions: TransactionStates, expired: Container[int]
) -> Iterator[Row]:
    for record in records:
        for row in commit_rows([record], partition):
            if row.get("state") == "committed":
                if record.offset in expired:
                    row["state"] = "expired"
                elif record.is_transactional:
                    row["state"] = transactions.state(record.producer_id, record.offset)
            yield row


def _is_expired(row: Row, groups: Mapping[str, Group], retention: OffsetRetention) -> bool:
    commit_us, expire_us = row["commitTimestamp"], row["expireTimestamp"]
    return OffsetExpiration.of(groups.get(row["group"]) or Group(row["group"])).is_expired(
        row["topic"],
        -1 if commit_us is None else commit_us // 1000,
        None if expire_us is None else expire_us // 1000,
        retention,
    )
