"""What share groups have consumed. tests/broker compares a real broker with kafka-share-groups."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from native_log import SHARE_GROUPS_SCHEMA
from native_log.internal_topics.records import to_batches
from native_log.internal_topics.share_groups import StateBatch, combine_batches, share_state_rows
from native_log.messages.share_groups import RECORDS
from tests.builders.internal_topics import NOW_MS, Pair, records_of
from tests.builders.messages import encode_key, encode_value

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SNAPSHOT, UPDATE = 0, 1
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def share_record(kind: int, *batches: tuple[int, int, int, int], partition: int = 0, **fields: Any) -> Pair:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    state_batches = [dict(zip(names, batch, strict=True)) for batch in batches]
    return (
        encode_key(RECORDS, kind, groupId="g", topicId=TOPIC_ID, partition=partition),
        encode_value(RECORDS, kind, 0, stateBatches=state_batches, **fields),
    )


def share_groups(*pairs: Pair) -> list[dict[str, Any]]:
    rows = share_state_rows(records_of(*pairs), 0, {TOPIC_ID: "orders"}, {("orders", 0): 20})
    return [row for batch in to_batches(rows, SHARE_GROUPS_SCHEMA) for row in batch.to_pylist()]


def test_updates_change_the_last_snapshot() -> None:
    snapshot = share_record(
        *(SNAPSHOT, (5, 9, AVAILABLE, 1)),
        snapshotEpoch=3,
        stateEpoch=1,
        leaderEpoch=2,
        startOffset=5,
        writeTimestamp=NOW_MS,
    )
    update = share_record(UPDATE, (6, 7, ACKNOWLEDGED, 1), startOffset=-1, leaderEpoch=-1)
    later = share_record(UPDATE, startOffset=7, leaderEpoch=4)
    (row,) = share_groups(snapshot, update, later)
    assert (row["group"], row["topic"], row["partition"], row["topicId"]) == ("g", "orders", 0, TOPIC_ID)
    assert (row["startOffset"], row["snapshotEpoch"], row["stateEpoch"], row["leaderEpoch"]) == (7, 3, 1, 4)
    assert [tuple(batch.values()) for batch in row["stateBatches"]] == [
        (7, 7, "ACKNOWLEDGED", 1),
        (8, 9, "AVAILABLE", 1),
    ]
    assert (row["recordOffset"], row["writeTimestamp"].timestamp() * 1000) == (2, NOW_MS)
    (row,) = share_groups(snapshot, update, snapshot)
    assert len(row["stateBatches"]) == 1


def test_lag_is_the_number_of_offsets_that_are_not_finished() -> None:
    states = (5, 6, ACKNOWLEDGED, 1), (7, 7, AVAILABLE, 2), (8, 8, ARCHIVED, 5), (9, 9, 1, 1)
    (row,) = share_groups(share_record(SNAPSHOT, *states, startOffset=5))
    assert (row["logEndOffset"], row["lag"]) == (20, 12)
    (row,) = share_groups(share_record(SNAPSHOT, startOffset=-1))
    assert (row["logEndOffset"], row["lag"]) == (20, None)
    (row,) = share_groups(share_record(SNAPSHOT, startOffset=5, partition=1))  # not in these directories
    assert (row["logEndOffset"], row["lag"]) == (None, None)


def test_tombstones_delete_a_state() -> None:
    deleted = share_record(SNAPSHOT), share_record(SNAPSHOT, partition=1)
    assert [row["partition"] for row in share_groups(*deleted, (deleted[0][0], None))] == [1]


def test_records_that_cannot_be_decoded_are_rows() -> None:
    record = share_record(SNAPSHOT)
    rows = share_groups(
        (record[0], b"\0\x09"), (b"\0\x05", b""), share_record(SNAPSHOT, writeTimestamp=2**62)
    )
    assert [row["error"] for row in rows] == [
        "Could not read the value: expected a version up to 0, found 9",
        "unknown record type 5",
        f"expected writeTimestamp up to 9223372036854775, found {2**62}",
    ]
    assert [row["group"] for row in rows] == ["g", None, "g"]


BATCH = st.builds(
    lambda first, count, state, deliveries: StateBatch(first, first + count, state, deliveries),
    *(st.integers(0, 20), st.integers(0, 8), st.sampled_from([0, 2, 4]), st.integers(1, 3)),
)


@given(st.lists(BATCH, max_size=8), st.integers(-1, 15))
def test_the_state_with_most_deliveries_wins(batches: list[StateBatch], start_offset: int) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            state = batch.delivery_count, batch.delivery_state
            expected[offset] = max(expected.get(offset, state), state)
    combined = list(combine_batches(batches, start_offset))
    actual = {
        offset: (batch.delivery_count, batch.delivery_state)
        for batch in combined
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert actual == expected
    assert sum(batch.last_offset - batch.first_offset + 1 for batch in combined) == len(expected)
    for before, after in itertools.pairwise(combined):
        is_contiguous = before.last_offset + 1 == after.first_offset
        assert before.last_offset < after.first_offset
        assert not is_contiguous or before[2:] != after[2:]
