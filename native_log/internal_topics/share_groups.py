"""What share groups have consumed, from records of __share_group_state (Kafka: ShareCoordinatorShard)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from native_log.internal_topics.records import timestamp_us
from native_log.messages.coordinators import read_key, read_value
from native_log.messages.reading import MessageError
from native_log.messages.share_groups import RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from native_log.internal_topics.records import Record

Row = dict[str, Any]

_SNAPSHOT = 0
_UNKNOWN = -1
_ACKNOWLEDGED, _ARCHIVED = 2, 4
_DELIVERY_STATES = {0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 3: "ARCHIVING", 4: "ARCHIVED"}
"""The states of records by their number (Kafka: RecordState)."""


class StateBatch(NamedTuple):
    """The state of the records from `first_offset` to `last_offset` (inclusive)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """What a share group has consumed of a partition (Kafka: ShareGroupOffset).

    Attributes:
        start_offset: records before it are finished; -1: not known yet.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    create_time_ms: int = _UNKNOWN
    write_time_ms: int = _UNKNOWN

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> ShareState:
        """Return the state in the value of a ShareSnapshot, or in a ShareUpdate without a snapshot."""
        return cls(
            value["snapshotEpoch"],
            value.get("stateEpoch", _UNKNOWN),
            value["leaderEpoch"],
            value["startOffset"],
            _batches(value),
            value.get("createTimestamp", _UNKNOWN),
            value.get("writeTimestamp", _UNKNOWN),
        )

    def updated(self, value: Mapping[str, Any]) -> ShareState:
        """Return the state after a ShareUpdate."""
        start_offset = self.start_offset if value["startOffset"] == _UNKNOWN else value["startOffset"]
        leader_epoch = self.leader_epoch if value["leaderEpoch"] == _UNKNOWN else value["leaderEpoch"]
        batches = combine_batches((*self.batches, *_batches(value)), start_offset)
        return replace(self, start_offset=start_offset, leader_epoch=leader_epoch, batches=tuple(batches))

    def lag(self, end_offset: int) -> int | None:
        """Return how many records are not finished (KIP-1226). None: it is not known where the group starts.

        Args:
            end_offset: the high watermark of the partition.
        """
        if self.start_offset < 0:
            return None
        finished = sum(
            batch.last_offset - batch.first_offset + 1
            for batch in self.batches
            if batch.delivery_state in (_ACKNOWLEDGED, _ARCHIVED)
        )
        return end_offset - self.start_offset - finished


def combine_batches(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """Yield batches that do not overlap and have the same states, from `start_offset` on.

    An offset that is in several batches gets the state with the greatest delivery count, then the greatest
    delivery state (Kafka: PersisterStateBatchCombiner).
    """
    waiting = sorted((batch for batch in batches if batch.last_offset >= batch.first_offset), reverse=True)
    active: list[tuple[int, int, int]] = []
    combined: StateBatch | None = None
    at = start_offset
    while waiting or active:
        if not active:
            at = max(at, waiting[-1].first_offset)
        while waiting and waiting[-1].first_offset <= at:
            batch = waiting.pop()
            heapq.heappush(active, (-batch.delivery_count, -batch.delivery_state, -batch.last_offset))
        while active and -active[0][2] < at:
            heapq.heappop(active)
        if not active:
            continue
        count, state, last = (-number for number in active[0])
        if waiting:
            last = min(last, waiting[-1].first_offset - 1)
        if combined is not None and combined[1:] == (at - 1, state, count):
            combined = combined._replace(last_offset=last)
        else:
            if combined is not None:
                yield combined
            combined = StateBatch(at, last, state, count)
        at = last + 1
    if combined is not None:
        yield combined


def share_state_rows(
    records: Iterable[Record],
    partition: int,
    topic_names: Mapping[str, str],
    end_offsets: Mapping[tuple[str, int], int],
) -> Iterator[Row]:
    """Yield a row of SHARE_GROUPS_SCHEMA for each group and partition. All of them are in memory.

    Args:
        records: all records of a partition of __share_group_state, in the order of offsets.
        partition: its number.
        topic_names: names of topics by id.
        end_offsets: the high watermarks of partitions, by topic and partition.
    """
    states: dict[tuple[str, str, int], tuple[ShareState, Record]] = {}
    for record in records:
        key: dict[str, Any] = {}
        try:
            kind, key = read_key(RECORDS, record.key)
            name = key["groupId"], key["topicId"], key["partition"]
            if record.value is None:
                states.pop(name, None)
                continue
            value = read_value(RECORDS, kind, record.value)[1]
            before = states.get(name)
            if kind == _SNAPSHOT or before is None:
                states[name] = ShareState.of(value), record
            else:
                states[name] = before[0].updated(value), record
        except MessageError as error:
            yield {**_location(key, topic_names), **record.undecodable(partition, error)}
    for (group, topic_id, number), (state, record) in states.items():
        location = _location({"groupId": group, "topicId": topic_id, "partition": number}, topic_names)
        end_offset = end_offsets.get((location["topic"] or "", number))
        try:
            yield {**location, **_values(state, end_offset), **record.location(partition)}
        except MessageError as error:
            yield {**location, **record.undecodable(partition, error)}


def _location(key: Mapping[str, Any], topic_names: Mapping[str, str]) -> Row:
    return {
        "group": key.get("groupId"),
        "topic": topic_names.get(key.get("topicId", "")),
        "topicId": key.get("topicId"),
        "partition": key.get("partition"),
    }


def _values(state: ShareState, end_offset: int | None) -> Row:
    return {
        "startOffset": state.start_offset if state.start_offset >= 0 else None,
        "logEndOffset": end_offset,
        "lag": None if end_offset is None else state.lag(end_offset),
        "snapshotEpoch": state.snapshot_epoch,
        "stateEpoch": state.state_epoch if state.state_epoch >= 0 else None,
        "leaderEpoch": state.leader_epoch if state.leader_epoch >= 0 else None,
        "stateBatches": [
            {
                "firstOffset": batch.first_offset,
                "lastOffset": batch.last_offset,
                "deliveryState": _DELIVERY_STATES.get(batch.delivery_state, str(batch.delivery_state)),
                "deliveryCount": batch.delivery_count,
            }
            for batch in state.batches
        ],
        "createTimestamp": timestamp_us("createTimestamp", state.create_time_ms),
        "writeTimestamp": timestamp_us("writeTimestamp", state.write_time_ms),
    }


def _batches(value: Mapping[str, Any]) -> tuple[StateBatch, ...]:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return tuple(StateBatch(*(batch[name] for name in names)) for batch in value["stateBatches"])
