"""The offsets that groups committed, from records of __consumer_offsets (Kafka: OffsetMetadataManager)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from native_log.internal_topics.commit_columns import CommitDecoder
from native_log.internal_topics.commit_records import commit_rows
from native_log.internal_topics.group import Group
from native_log.internal_topics.offset_expiration import OffsetExpiration
from native_log.internal_topics.records import records_of, times_ms, to_batches
from native_log.internal_topics.schemas import CONSUMER_OFFSETS_SCHEMA
from native_log.messages.groups import LEGACY_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from native_log.internal_topics.offset_expiration import OffsetRetention
    from native_log.internal_topics.transactions import TransactionStates

_LEGACY_PREFIX = LEGACY_OFFSET.to_bytes(2)
"""The type in keys that clients up to 0.8.2 wrote. Otherwise they equal those of today."""
_NAME = ("group", "topic", "partition")
_STATE = CONSUMER_OFFSETS_SCHEMA.get_field_index("state")

Row = dict[str, Any]


def latest_commits(
    batches: Iterable[pa.RecordBatch], partition: int, groups: Mapping[str, Group], retention: OffsetRetention
) -> Iterator[pa.RecordBatch]:
    """Yield a row of CONSUMER_OFFSETS_SCHEMA for each committed offset.

    Args:
        batches: the newest record of each key of a partition of __consumer_offsets, in the order of offsets,
            with RECORD_FIELDS.
        partition: its number.
        groups: the groups of the partition by name. Groups that only commit offsets may be missing.
        retention: decides which offsets are expired.
    """
    decoder = CommitDecoder(partition)
    expirations: dict[str, OffsetExpiration] = {}
    legacy: dict[tuple[object, ...], Row] = {}
    for batch in batches:
        is_legacy = pc.fill_null(pc.equal(pc.binary_slice(batch.column("key"), 0, 2), _LEGACY_PREFIX), False)
        undecodable = []
        for row in commit_rows(records_of(batch.filter(is_legacy)), partition):
            if row.get("group") is None:
                undecodable.append(row)
            else:
                legacy[tuple(row[name] for name in _NAME)] = row
        yield from to_batches(undecodable, CONSUMER_OFFSETS_SCHEMA)
        for commits in decoder.decode(batch.filter(pc.invert(is_legacy))):
            if legacy:
                _remove_replaced(legacy, commits)
            is_commit = pc.fill_null(pc.not_equal(commits.column("state"), "tombstone"), True)
            yield _with_expired(commits.filter(is_commit), groups, expirations, retention)
    rows = (row for row in legacy.values() if row.get("state") != "tombstone")
    for commits in to_batches(rows, CONSUMER_OFFSETS_SCHEMA):
        yield _with_expired(commits, groups, expirations, retention)


def all_commits(
    batches: Iterable[pa.RecordBatch],
    partition: int,
    transactions: TransactionStates,
    expired: Sequence[int],
) -> Iterator[pa.RecordBatch]:
    """Yield a row of CONSUMER_OFFSETS_SCHEMA for each record of an offset: commits and tombstones.

    Args:
        batches: all records of a partition of __consumer_offsets, in the order of offsets, with
            HISTORY_FIELDS.
        partition: its number.
        transactions: those of the partition.
        expired: the offsets of the records of expired commits, sorted.
    """
    decoder = CommitDecoder(partition)
    for batch in batches:
        for commits in decoder.decode(batch):
            offsets = commits.column("recordOffset")
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            expired_here = expired[bisect_left(expired, first) : bisect_right(expired, last)]
            states = _transactional_states(commits, batch, transactions)
            if expired_here:
                is_expired = pc.is_in(offsets, pa.array(expired_here, pa.int64()))
                is_commit = pc.not_equal(states, "tombstone")
                states = pc.if_else(pc.and_(is_expired, is_commit), "expired", states)
            yield commits.set_column(_STATE, "state", states)


def _transactional_states(
    commits: pa.RecordBatch, batch: pa.RecordBatch, transactions: TransactionStates
) -> pa.Array:
    """Return the states of commits, with those of their transactions."""
    states = commits.column("state")
    transactional = batch.filter(batch.column("isTransactional"))
    if not transactional.num_rows:
        return states
    places = pc.index_in(commits.column("recordOffset"), transactional.column("offset"))
    is_transactional = pc.fill_null(pc.and_(places.is_valid(), pc.equal(states, "committed")), False)
    some = transactional.take(places.filter(is_transactional))
    outcomes = map(transactions.state, *(some.column(name).to_pylist() for name in ("producerId", "offset")))
    return pc.replace_with_mask(states, is_transactional, pa.array(outcomes, pa.string()))


def _remove_replaced(legacy: dict[tuple[object, ...], Row], commits: pa.RecordBatch) -> None:
    """Remove commits with keys of old clients that have been committed again."""
    names = zip(*(commits.column(name).to_pylist() for name in _NAME), strict=True)
    for name, offset in zip(names, commits.column("recordOffset").to_pylist(), strict=True):
        if name in legacy and legacy[name]["recordOffset"] < offset:
            del legacy[name]


def _with_expired(
    commits: pa.RecordBatch,
    groups: Mapping[str, Group],
    expirations: dict[str, OffsetExpiration],
    retention: OffsetRetention,
) -> pa.RecordBatch:
    """Return commits with the state "expired" where it applies. Remember the expiration of groups."""
    states = commits.column("state").to_pylist()
    columns = (
        *(commits.column(name).to_pylist() for name in ("group", "topic")),
        *(times_ms(commits.column(name)).to_pylist() for name in ("commitTimestamp", "expireTimestamp")),
    )
    for at, (group, topic, commit_ms, expire_ms) in enumerate(zip(*columns, strict=True)):
        if states[at] != "committed":
            continue
        if group not in expirations:
            expirations[group] = OffsetExpiration.of(groups.get(group) or Group(group))
        time_ms = -1 if commit_ms is None else commit_ms
        if expirations[group].is_expired(topic, time_ms, expire_ms, retention):
            states[at] = "expired"
    return commits.set_column(_STATE, "state", pa.array(states, pa.string()))
