"""Committed offsets and lag."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import CONSUMER_OFFSETS_SCHEMA, LAG_SCHEMA, LogDir, UnknownTopicOrPartitionError
from native_log.errors import CorruptRecordError
from native_log.internal_topics.consumer_offsets import all_commits, latest_commits
from native_log.internal_topics.offset_expiration import OffsetRetention
from native_log.internal_topics.transactions import TransactionStates
from native_log.log.producers.transactions import transactions_table
from tests.builders.golden import GOLDEN
from tests.builders.internal_topics import (
    DAY_MS,
    NOW_MS,
    SUBTOPOLOGY,
    InternalTopic,
    commit,
    group_record,
    history_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    from native_log.arguments import Mode
    from tests.builders.internal_topics import Pair

BROKER = GOLDEN / "kafka-4.1/whole-broker"
COMMIT = ("group", "topic", "partition", "offset", "state")
CLASSIC, MEMBER, REGEX, STREAMS, TOPOLOGY = 2, 5, 16, 19, 23


def rows(batches: Iterable[pa.RecordBatch], *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of batches as tuples of the named columns."""
    return [tuple(row[name] for name in columns) for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def topic(tmp_path: Path) -> InternalTopic:
    return InternalTopic(tmp_path / "logs")


def latest(topic: InternalTopic, **options: Any) -> list[tuple[Any, ...]]:
    return rows(LogDir(topic.path).consumer_offsets(now_ms=NOW_MS, **options), *COMMIT)


def dumped_commits(partition: int) -> dict[int, tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return key and value of the commits that kafka-dump-log --offsets-decoder prints, by record offset."""
    dumps = json.loads(gzip.decompress((BROKER / "dump-4.1.1.json.gz").read_bytes()))
    name = f"__consumer_offsets-{partition}/{0:020}.log#offsets-decoder"
    commits = {}
    for line in dumps[name]["stdout"].splitlines():
        match = re.match(r"\| offset: (\d+) .* key: (\{.*\}) payload: (.*)", line)
        if match and json.loads(match[2])["type"] == "1":
            value = None if match[3] == "<DELETE>" else json.loads(match[3])["data"]
            commits[int(match[1])] = json.loads(match[2])["data"], value
    return commits


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_all_commits_are_those_of_kafka_dump_log(partition: int) -> None:
    names = ("offset", "leaderEpoch", "metadata", "commitTimestamp")
    expected = {
        at: (*key.values(), *(None if value is None else value[name] for name in names))
        for at, (key, value) in dumped_commits(partition).items()
    }
    reader = LogDir(BROKER / f"data/__consumer_offsets-{partition}").consumer_offsets(history=True)
    assert reader.schema == CONSUMER_OFFSETS_SCHEMA
    actual = {}
    for row in reader.read_all().to_pylist():
        values = {**row, "leaderEpoch": -1 if row["leaderEpoch"] is None else row["leaderEpoch"]}
        if row["commitTimestamp"] is None:
            values = dict.fromkeys(names) | {"group": row["group"], "topic": row["topic"]}
        else:
            values["commitTimestamp"] = round(row["commitTimestamp"].timestamp() * 1000)
        actual[row["recordOffset"]] = (
            *(row["group"], row["topic"], row["partition"]),
            *(values[name] for name in names),
        )
    assert actual == expected


def test_the_latest_commits_of_a_broker() -> None:
    """The last committed, not deleted, commit of each key, which a read_committed consumer got."""
    expected = {}
    for partition in range(3):
        visible = LogDir(BROKER / "data").partition("__consumer_offsets", partition)
        offsets = visible.read(columns=["offset"], isolation_level="read_committed").read_all()
        committed = set(offsets.column(0).to_pylist())
        for at, (key, value) in dumped_commits(partition).items():
            if at in committed:
                expected[tuple(key.values())] = None if value is None else value["offset"]
    table = LogDir(BROKER / "data").consumer_offsets().read_all()
    actual = {(g, t, p): offset for g, t, p, offset, _ in rows(table.to_batches(), *COMMIT)}
    assert actual == {key: offset for key, offset in expected.items() if offset is not None}
    assert actual["group-tx", "events", 0] == 12  # the commit after it was aborted


@pytest.mark.parametrize("version", ["0.8", "0.10", "1.1"])
def test_the_latest_commits_of_old_brokers(version: str) -> None:
    data = GOLDEN / f"kafka-{version}/whole-broker/data"
    table = LogDir(data).consumer_offsets(now_ms=NOW_MS).read_all()
    commits = rows(table.to_batches(), "group", "topic", "partition", "offset", "metadata")
    topics = set(LogDir(data).topics()) - {"__consumer_offsets"}
    assert sorted(commits) == [("readers", topic, 0, 150, "step 5") for topic in sorted(topics)]
    expirations = set(table.column("expireTimestamp").to_pylist())
    assert (expirations == {None}) == (version == "0.8")


def test_lag_of_a_broker() -> None:
    log_dir = LogDir(BROKER / "data")
    reader = log_dir.lag()
    assert reader.schema == LAG_SCHEMA
    for topic, partition, offset, end, lag in rows(
        reader, "topic", "partition", "offset", "logEndOffset", "lag"
    ):
        assert end == log_dir.partition(topic, partition).high_watermark
        assert lag == end - offset


def test_lag_of_a_partition_that_is_not_there(topic: InternalTopic) -> None:
    topic.append(commit(5))
    assert rows(LogDir(topic.path).lag(), "offset", "logEndOffset", "lag") == [(5, None, None)]


def test_a_tombstone_deletes_a_commit(topic: InternalTopic) -> None:
    topic.append(commit(1), commit(2, partition=1), commit(None), commit(3, topic="other"))
    assert latest(topic) == [("g", "orders", 1, 2, "committed"), ("g", "other", 0, 3, "committed")]
    assert latest(topic, history=True) == [
        ("g", "orders", 0, 1, "committed"),
        ("g", "orders", 1, 2, "committed"),
        ("g", "orders", 0, None, "tombstone"),
        ("g", "other", 0, 3, "committed"),
    ]


def test_transactional_commits_count_when_they_are_committed(topic: InternalTopic) -> None:
    topic.append(commit(1))
    topic.append(commit(2), producer_id=7)
    topic.append(commit(10, group="h"), producer_id=8)
    topic.append(commit(20, group="i"), producer_id=9)
    topic.end(7, commit=False)
    topic.end(8, commit=True)
    topic.append(commit(30, group="j"))  # after an open transaction
    assert latest(topic) == [
        ("g", "orders", 0, 1, "committed"),
        ("h", "orders", 0, 10, "committed"),
        ("j", "orders", 0, 30, "committed"),
    ]
    states = {(group, offset): state for group, _, _, offset, state in latest(topic, history=True)}
    assert states == {
        ("g", 1): "committed",
        ("g", 2): "aborted",
        ("h", 10): "committed",
        ("i", 20): "open",
        ("j", 30): "committed",
    }


def test_the_newest_record_wins_not_the_newest_marker(topic: InternalTopic) -> None:
    topic.append(commit(2), producer_id=7)
    topic.append(commit(1))
    topic.end(7, commit=True)
    assert latest(topic) == [("g", "orders", 0, 1, "committed")]


def test_all_versions(topic: InternalTopic) -> None:
    expire_ms = NOW_MS + DAY_MS
    topic.append(
        *(commit(9, group=f"v{version}", version=version) for version in range(5)),
        commit(9, group="expire", version=1, expireTimestamp=expire_ms),
        commit(9, group="epoch", version=4, leaderEpoch=6, topicId="AAAAAAAAAAAAAAAAAAAAAQ", metadata="m"),
    )
    columns = ("group", "leaderEpoch", "metadata", "expireTimestamp", "topicId")
    actual = rows(LogDir(topic.path).consumer_offsets(now_ms=NOW_MS), *columns)
    assert [row[0] for row in actual] == ["v0", "v1", "v2", "v3", "v4", "expire", "epoch"]
    assert actual[2][1:] == (None, "", None, None)
    # Versions with a leader epoch or an expiration have 0 here, which is a valid value of both.
    assert actual[5][3].timestamp() * 1000 == expire_ms
    assert actual[6][1:] == (6, "m", None, "AAAAAAAAAAAAAAAAAAAAAQ")


def test_commits_of_clients_before_0_9_are_replaced_by_newer_ones(topic: InternalTopic) -> None:
    old = {"kind": 0, "version": 0}
    topic.append(commit(1, **old), commit(2, partition=1, **old), commit(3), commit(4, partition=2, **old))
    topic.append(commit(None, partition=2))
    assert latest(topic) == [("g", "orders", 0, 3, "committed"), ("g", "orders", 1, 2, "committed")]


NO_USER_DATA = b"\xff\xff\xff\xff"
DEAD = {"commitTimestamp": NOW_MS - 8 * DAY_MS}


def classic(state_ms: int, *topics: str, protocol_type: str = "consumer") -> Pair:
    """Return the record of a classic group; without topics it has no members."""
    subscription = b"\0\1" + len(topics).to_bytes(4)
    subscription += b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics) + NO_USER_DATA
    members = [{"memberId": "m", "subscription": subscription, "assignment": b""}] if topics else []
    return group_record(
        *(CLASSIC, 3),
        key={"group": "g"},
        protocolType=protocol_type,
        currentStateTimestamp=state_ms,
        members=members,
    )


def subscribed(**fields: Any) -> Pair:
    return group_record(MEMBER, key={"groupId": "g", "memberId": "m"}, **fields)


RESOLVED_REGEX = group_record(
    REGEX, key={"groupId": "g", "regularExpression": "ord.*"}, topics=["orders"], version=0
)

STREAMS_MEMBER = group_record(STREAMS, key={"groupId": "g", "memberId": "m"})
STREAMS_TOPOLOGY = group_record(TOPOLOGY, key={"groupId": "g"}, subtopologies=[SUBTOPOLOGY])


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([commit(1)], "committed"),
        ([commit(1, **DEAD)], "expired"),
        ([commit(1, commitTimestamp=NOW_MS - 7 * DAY_MS)], "expired"),
        ([commit(1, commitTimestamp=NOW_MS - 7 * DAY_MS + 1)], "committed"),
        ([commit(1, version=1, expireTimestamp=NOW_MS, commitTimestamp=NOW_MS)], "expired"),
        ([commit(1, version=1, expireTimestamp=NOW_MS + 1, **DEAD)], "committed"),
        # Offsets of an empty classic group expire after its last member left.
        ([commit(1, **DEAD), classic(NOW_MS - DAY_MS)], "committed"),
        ([commit(1), classic(NOW_MS - 7 * DAY_MS)], "expired"),
        ([commit(1, **DEAD), classic(-1)], "expired"),
        # Those of a group with members, if they are not subscribed to the topic.
        ([commit(1, **DEAD), classic(NOW_MS, "orders")], "committed"),
        ([commit(1, **DEAD), classic(NOW_MS, "others")], "expired"),
        ([commit(1, **DEAD), classic(NOW_MS, "others", protocol_type="connect")], "committed"),
        ([commit(1, **DEAD), subscribed(subscribedTopicNames=["orders"])], "committed"),
        ([commit(1, **DEAD), subscribed(subscribedTopicNames=["others"])], "expired"),
        ([commit(1, **DEAD), subscribed(subscribedTopicRegex="ord.*"), RESOLVED_REGEX], "committed"),
        ([commit(1, **DEAD), STREAMS_TOPOLOGY, STREAMS_MEMBER], "committed"),
        ([commit(1, **DEAD), STREAMS_TOPOLOGY], "expired"),
    ],
)
def test_expired_offsets(topic: InternalTopic, records: list[tuple[bytes, bytes]], state: str) -> None:
    topic.append(*records)
    assert [row[-1] for row in latest(topic)] == [state]
    assert [row[-1] for row in latest(topic, history=True)] == [state]


def test_only_the_latest_commit_expires(topic: InternalTopic) -> None:
    topic.append(commit(1, **DEAD), commit(2, **DEAD))
    assert [row[-1] for row in latest(topic, history=True)] == ["committed", "expired"]
    assert [row[-1] for row in latest(topic, offsets_retention_minutes=12_000)] == ["committed"]


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"\x7f\xff", b"", "unknown record type 32767"),
        (b"\0\1\0\x09g", b"", "Could not read the key: expected 9 more bytes, found 1"),
        (commit(1)[0], b"\0\x63", "Could not read the value: expected a version up to 4, found 99"),
        (commit(1)[0], b"\0\3\0", "Could not read the value: expected 8 more bytes, found 1"),
        (*commit(1, commitTimestamp=2**62), "expected commitTimestamp up to 9223372036854775, found"),
    ],
)
def test_records_that_cannot_be_decoded_are_rows(
    topic: InternalTopic, key: bytes, value: bytes, error: str
) -> None:
    topic.append((key, value), commit(5, group="other"))
    for history in (False, True):
        table = LogDir(topic.path).consumer_offsets(history=history, now_ms=NOW_MS).read_all()
        row, other = table.to_pylist()
        assert row["error"].startswith(error)
        assert (row["recordKey"], row["recordValue"], row["recordOffset"]) == (key, value, 0)
        assert (row["state"], row["offset"]) == (None, None)
        assert row["group"] == ("g" if key == commit(1)[0] else None)
        assert (other["offset"], other["error"], other["recordKey"]) == (5, None, None)
    assert rows(LogDir(topic.path).lag(), "offset", "lag") == [(None, None), (5, None)]


BYTES = st.none() | st.binary(max_size=60)


@given(st.lists(st.tuples(BYTES, BYTES), max_size=5))
def test_hostile_bytes_are_rows(pairs: list[Pair]) -> None:
    pairs = [(key if key is None else b"\0\1" + key, value) for key, value in pairs] + pairs
    history = history_of(pairs, [False] * len(pairs))
    transactions = TransactionStates(transactions_table([]))
    commits = rows(all_commits([history], 0, transactions, ()), "recordOffset", "error")
    assert {at for at, _ in commits} >= set(range(0, len(pairs), 2))
    latest = latest_commits([history], 0, {}, OffsetRetention(NOW_MS))
    assert len(rows(latest, "error")) <= len(pairs)


def test_a_directory_without_the_topic(tmp_path: Path) -> None:
    with LogDir.create(tmp_path / "logs") as log_dir:
        log_dir.create_topic("orders")
        with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic __consumer_offsets"):
            log_dir.consumer_offsets()


def test_damaged_bytes(topic: InternalTopic) -> None:
    topic.append(commit(1))
    topic.append(commit(2, partition=1))
    (file,) = topic.path.glob("*/*.log")
    data = bytearray(file.read_bytes())
    data[80] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        latest(topic)
    assert latest(topic, mode="dropMalformed") == [("g", "orders", 1, 2, "committed")]
    mode: Mode = "permissive"
    with pytest.raises(ValueError, match="expected failFast or dropMalformed, found 'permissive'"):
        LogDir(topic.path).consumer_offsets(mode=mode)
