"""Groups and their members. tests/broker compares those of a real broker with Kafka's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import GROUPS_SCHEMA, LogDir
from native_log.internal_topics.groups import group_rows
from native_log.internal_topics.records import Record, to_batches
from native_log.messages.groups import ASSIGNMENT, SUBSCRIPTION
from tests.builders.internal_topics import (
    NOW_MS,
    SUBTOPOLOGY,
    InternalTopic,
    Pair,
    commit,
    group_record,
    records_of,
)
from tests.builders.messages import encode

if TYPE_CHECKING:
    from pathlib import Path

TOPIC_ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
GROUP, MEMBER = {"groupId": "g"}, {"groupId": "g", "memberId": "m"}
(CLASSIC, METADATA, PARTITIONS, MEMBER_METADATA, TARGET_EPOCH, TARGET, CURRENT) = range(2, 9)
SHARE_MEMBER, SHARE_METADATA = 10, 11
STREAMS_METADATA, STREAMS_MEMBER, STREAMS_EPOCH, STREAMS_TARGET, STREAMS_CURRENT, TOPOLOGY = (
    *(17, 19, 20, 21, 22),
    23,
)


def groups(*pairs: Pair) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in to_batches(group_rows(records_of(*pairs), 3, {TOPIC_ID: "orders"}), GROUPS_SCHEMA):
        rows += batch.to_pylist()
    return rows


def member_of(*pairs: Pair) -> dict[str, Any]:
    ((member,),) = [group["members"] for group in groups(*pairs)]
    return {name: value for name, value in member.items() if value is not None}


def classic(subscription: bytes = b"", assignment: bytes = b"", protocol_type: str = "consumer") -> Pair:
    member = {
        "memberId": "m",
        "groupInstanceId": "static",
        "clientId": "c",
        "clientHost": "/host",
        "rebalanceTimeout": 300,
        "sessionTimeout": 45,
        "subscription": subscription,
        "assignment": assignment,
    }
    fields = {"generation": 7, "protocol": "range", "leader": "m", "currentStateTimestamp": NOW_MS}
    key = {"group": "g"}
    return group_record(CLASSIC, 4, key=key, protocolType=protocol_type, members=[member], **fields)


def embedded(message: Any, version: int, **fields: Any) -> bytes:
    return version.to_bytes(2) + encode(message, min(version, 3), fields)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_a_classic_group(version: int) -> None:
    subscription = embedded(SUBSCRIPTION, version, topics=["orders", "payments"], userData=None)
    assigned = [{"topic": "orders", "partitions": [0, 2]}]
    assignment = embedded(ASSIGNMENT, version, assignedPartitions=assigned, userData=b"data")
    (group,) = groups(classic(subscription, assignment))
    assert (group["group"], group["type"], group["state"]) == ("g", "classic", "Stable")
    assert (group["epoch"], group["protocolType"], group["protocol"]) == (7, "consumer", "range")
    assert (group["leader"], group["recordPartition"], group["recordOffset"]) == ("m", 3, 0)
    assert group["stateTimestamp"].timestamp() * 1000 == NOW_MS
    member = member_of(classic(subscription, assignment))
    assert member["subscribedTopics"] == ["orders", "payments"]
    (entry,) = member["assignment"]
    assert (entry["topic"], entry["partitions"]) == ("orders", [0, 2])
    assert (member["groupInstanceId"], member["sessionTimeoutMs"]) == ("static", 45)
    assert "subscriptionBytes" not in member


@pytest.mark.parametrize(("protocol_type", "data"), [("connect", b"worker"), ("consumer", b"\0")])
def test_bytes_of_other_clients_stay_bytes(protocol_type: str, data: bytes) -> None:
    member = member_of(classic(data, data, protocol_type))
    assert (member["subscriptionBytes"], member["assignmentBytes"]) == (data, data)
    assert "assignment" not in member


def test_a_group_that_only_commits_offsets() -> None:
    (group,) = groups(commit(1, group="simple"))
    assert (group["group"], group["type"], group["state"], group["members"]) == (
        *("simple", "classic", "Empty"),
        [],
    )


CONSUMER = group_record(MEMBER_METADATA, key=MEMBER, clientId="c", subscribedTopicNames=["orders"])


def consumer_group(
    epoch: int = 5, target_epoch: int = 5, member_epoch: int = 5, member_state: int = 0
) -> list[Pair]:
    assigned = [{"topicId": TOPIC_ID, "partitions": [1, 2]}, {"topicId": OTHER_ID, "partitions": [0]}]
    return [
        group_record(METADATA, key=GROUP, epoch=epoch),
        CONSUMER,
        group_record(TARGET_EPOCH, key=GROUP, assignmentEpoch=target_epoch),
        group_record(TARGET, key=MEMBER, topicPartitions=assigned),
        group_record(
            *(CURRENT,),
            key=MEMBER,
            memberEpoch=member_epoch,
            state=member_state,
            assignedPartitions=assigned[:1],
            partitionsPendingRevocation=assigned[1:],
        ),
    ]


def test_a_consumer_group() -> None:
    (group,) = groups(*consumer_group())
    assert (group["type"], group["state"]) == ("consumer", "Stable")
    assert (group["epoch"], group["targetAssignmentEpoch"], group["recordOffset"]) == (5, 5, 4)
    member = member_of(*consumer_group())
    assert (member["state"], member["memberEpoch"], member["subscribedTopics"]) == ("STABLE", 5, ["orders"])
    orders, unknown = member["targetAssignment"]
    assert (orders["topic"], orders["topicId"], orders["partitions"]) == ("orders", TOPIC_ID, [1, 2])
    assert (unknown["topic"], unknown["topicId"]) == (None, OTHER_ID)
    assert member["assignment"] == [orders]
    assert member["pendingRevocation"] == [unknown]


def test_names_of_topics_in_the_group_itself() -> None:
    """Brokers up to 4.0 store the names of subscribed topics in a record of the group."""
    topics = [{"topicId": OTHER_ID, "topicName": "payments", "numPartitions": 1, "partitionMetadata": []}]
    member = member_of(*consumer_group(), group_record(PARTITIONS, key=GROUP, topics=topics))
    assert [entry["topic"] for entry in member["targetAssignment"]] == ["orders", "payments"]


def streams_group(**metadata: int) -> list[Pair]:
    return [
        group_record(STREAMS_METADATA, key=GROUP, **metadata),
        group_record(STREAMS_MEMBER, key=MEMBER),
        group_record(TOPOLOGY, key=GROUP, epoch=1),
    ]


@pytest.mark.parametrize(
    ("records", "state"),
    [
        (consumer_group(epoch=6), "Assigning"),
        (consumer_group(member_epoch=4), "Reconciling"),
        (consumer_group(member_state=1), "Reconciling"),
        (consumer_group()[:4], "Reconciling"),
        (consumer_group()[:1], "Empty"),
        ([group_record(SHARE_METADATA, key=GROUP, epoch=1)], "Empty"),
        ([group_record(SHARE_METADATA, key=GROUP), group_record(SHARE_MEMBER, key=MEMBER)], "Stable"),
        (streams_group()[:2], "NotReady"),
        (streams_group(validatedTopologyEpoch=0), "NotReady"),
        (streams_group(), "NotReady"),  # as of Kafka 4.1
        (streams_group(validatedTopologyEpoch=1), "Reconciling"),
        (streams_group(validatedTopologyEpoch=1, epoch=1), "Assigning"),
    ],
)
def test_states(records: list[Pair], state: str) -> None:
    assert [group["state"] for group in groups(*records)] == [state]


def test_a_streams_group() -> None:
    task = {"subtopologyId": "0", "partitions": [0, 1]}
    records = [
        group_record(STREAMS_METADATA, key=GROUP, epoch=2, validatedTopologyEpoch=0),
        group_record(
            STREAMS_MEMBER, key=MEMBER, processId="p", userEndpoint=None, rackId="r", instanceId=None
        ),
        group_record(STREAMS_EPOCH, key=GROUP, assignmentEpoch=2),
        group_record(STREAMS_TARGET, key=MEMBER, activeTasks=[task], standbyTasks=[task]),
        group_record(
            STREAMS_CURRENT, key=MEMBER, memberEpoch=2, state=1, warmupTasksPendingRevocation=[task]
        ),
        group_record(TOPOLOGY, key=GROUP, subtopologies=[SUBTOPOLOGY]),
    ]
    (group,) = groups(*records)
    assert (group["type"], group["state"]) == ("streams", "Stable")
    assert group["subtopologies"][0]["sourceTopics"] == ["orders"]
    member = member_of(*records)
    assert [(entry["taskType"], entry["partitions"]) for entry in member["targetAssignment"]] == [
        ("active", [0, 1]),
        ("standby", [0, 1]),
    ]
    assert (member["assignment"], member["pendingRevocation"][0]["taskType"]) == ([], "warmup")
    assert (member["processId"], member["rackId"], member["state"]) == ("p", "r", "STABLE")


def test_a_commit_of_an_old_client_that_a_newer_one_replaced_or_removed() -> None:
    old = [commit(1, group=group, kind=0, version=0) for group in ("removed", "replaced", "kept", "back")]
    rows = groups(
        *old[:3], commit(None, group="removed"), commit(2, group="replaced"), commit(2, "back"), old[3]
    )
    assert {row["group"]: row["recordOffset"] for row in rows} == {"kept": 2, "replaced": 4, "back": 6}


def test_records_that_cannot_be_decoded_are_rows(tmp_path: Path) -> None:
    topic = InternalTopic(tmp_path / "logs")
    key = classic()[0]
    topic.append((b"\x7f\xff", b""), (key, b"\0\x09"), commit(1, group="other"))
    rows = LogDir(topic.path).groups().read_all().to_pylist()
    assert [(row["group"], row["error"]) for row in rows] == [
        ("other", None),
        (None, "unknown record type 32767"),
        ("g", "Could not read the value: expected a version up to 4, found 9"),
    ]
    assert [row["recordValue"] for row in rows] == [None, b"", b"\0\x09"]


def test_a_time_that_is_too_large_is_a_row_with_an_error() -> None:
    record = group_record(CLASSIC, 3, key={"group": "g"}, currentStateTimestamp=2**62)
    (group,) = groups(record)
    assert group["error"].startswith("expected currentStateTimestamp up to 9223372036854775, found")


@given(st.lists(st.tuples(st.integers(0, 24), st.binary(max_size=80), st.binary(max_size=80)), max_size=4))
def test_hostile_bytes_are_rows(parts: list[tuple[int, bytes, bytes]]) -> None:
    records = [
        Record(offset, 0, kind.to_bytes(2) + key, b"\0\0" + value)
        for offset, (kind, key, value) in enumerate(parts)
    ]
    for batch in to_batches(group_rows(records, 0, {}), GROUPS_SCHEMA):
        batch.validate(full=True)
