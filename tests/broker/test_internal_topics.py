"""Internal topics as tables, compared with what Kafka's tools show of a running broker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir

from .cluster import Cluster, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

pytestmark = pytest.mark.broker

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TOPIC = "followed"
STREAMS = "streaming"


@pytest.fixture(scope="module", autouse=True)
def groups(cluster: Cluster) -> Iterator[None]:
    """Let groups of all kinds use the broker."""
    cluster.create(TOPIC, partitions=3)
    cluster.send(TOPIC, 100)
    cluster.join("classic", TOPIC, 30)
    cluster.join("classic", TOPIC, 0, group_instance_id="static")
    cluster.join("left", TOPIC, 100)
    cluster.leave("left")
    cluster.join("modern", TOPIC, 50, group_protocol="consumer")
    cluster.commit_offset("simple", TOPIC, 0, 5, metadata="by hand")
    cluster.commit_offset("simple", TOPIC, 1, 0)
    cluster.delete_offset("simple", TOPIC, 1)
    for offset, end in enumerate(["commit", "abort"], 10):
        cluster.commit_offset("exactly-once", TOPIC, 0, offset, transactional_id="t", end=end)
    cluster.commit_offset("undecided", TOPIC, 0, 10, transactional_id="u", end="open")
    cluster.commit_offset("after", TOPIC, 0, 77)  # after an open transaction
    cluster.upgrade("share.version", 1)
    cluster.share("sharing", TOPIC, 30)
    cluster.upgrade("streams.version", 1)
    for client_id in ("first", "second"):
        cluster.stream(STREAMS, TOPIC, client_id)
    yield
    for group in ("classic", "modern", STREAMS):
        cluster.leave(group)


def read_table(table: pa.RecordBatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.read_all().to_pylist()
    assert [row for row in rows if row["error"] is not None] == []
    return rows


def described(cluster: Cluster, what: str, tool: str = GROUPS) -> list[dict[str, str]]:
    """Return the rows that kafka-consumer-groups --describe --all-groups prints, by column."""
    arguments = ["--bootstrap-server", cluster.broker.bootstrap, "--describe", "--all-groups", *what.split()]
    output, _ = cluster.broker.run_tool(tool, *arguments)
    return list(tool_rows(output))


def tool_rows(output: str) -> Iterator[dict[str, str]]:
    """Yield the rows of the tables that a tool prints. The cells are below their heads."""
    heads: list[tuple[str, int, int]] = []
    for line in filter(str.strip, output.splitlines()):
        if line.startswith("GROUP "):
            headings = list(re.finditer(r"\S+( \(ID\))?", line))
            ends = [match.start() for match in headings[1:]]
            heads = [(m[0], m.start(), end) for m, end in zip(headings, [*ends, len(line) + 99], strict=True)]
        elif heads:
            yield {name: line[start:end].strip() for name, start, end in heads}


def test_lag_is_that_of_kafka_consumer_groups(cluster: Cluster) -> None:
    names = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    expected = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): tuple(int(row[name]) for name in names)
        for row in described(cluster, "--offsets")
        if row["CURRENT-OFFSET"] != "-"
    }
    assert {group for group, _, _ in expected} == {
        *("classic", "left", "modern", "simple", "exactly-once", "after")
    }

    def lag() -> dict[tuple[str, str, int], tuple[int, int, int]]:
        return {
            (row["group"], row["topic"], row["partition"]): (row["offset"], row["logEndOffset"], row["lag"])
            for row in read_table(LogDir(cluster.log_dir).lag())
        }

    # The high watermark is checkpointed some time after the last commit.
    assert eventually(lag, lambda rows: rows == expected)


def test_the_history_of_offsets(cluster: Cluster) -> None:
    rows = read_table(LogDir(cluster.log_dir).consumer_offsets(history=True))
    states = [(row["group"], row["offset"], row["state"]) for row in rows]
    assert [state for state in states if state[0] in ("simple", "exactly-once", "undecided")] == [
        ("simple", 5, "committed"),
        ("simple", 0, "committed"),
        ("simple", None, "tombstone"),
        ("exactly-once", 10, "committed"),
        ("exactly-once", 11, "aborted"),
        ("undecided", 10, "open"),
    ]


def test_members_are_those_of_kafka_consumer_groups(cluster: Cluster) -> None:
    def assignment(entries: list[dict[str, Any]]) -> str:
        return ";".join(f"{each['topic']}:{','.join(map(str, each['partitions']))}" for each in entries)

    expected = {
        (
            *(row["GROUP"], row["CONSUMER-ID"], row.get("GROUP-INSTANCE-ID", ""), row["HOST"]),
            *(row["CLIENT-ID"], row["CURRENT-EPOCH"], row["CURRENT-ASSIGNMENT"], row["TARGET-ASSIGNMENT"]),
        )
        for row in described(cluster, "--members --verbose")
    }
    actual = {
        (
            *(group["group"], member["memberId"], member["groupInstanceId"] or "", member["clientHost"]),
            *(member["clientId"], str(member["memberEpoch"] or "-"), assignment(member["assignment"])),
            assignment(member["targetAssignment"]) if member["targetAssignment"] else "-",
        )
        for group in read_table(LogDir(cluster.log_dir).groups())
        if group["type"] != "streams"
        for member in group["members"]
    }
    assert actual == expected
    assert {row[0] for row in actual} == {"classic", "modern"}


def test_states_are_those_of_kafka_consumer_groups(cluster: Cluster) -> None:
    expected = {
        row["GROUP"]: (row["STATE"], row["#MEMBERS"], row["GROUP-EPOCH"], row["TARGET-ASSIGNMENT-EPOCH"])
        for row in described(cluster, "--state --verbose")
    }
    groups = read_table(LogDir(cluster.log_dir).groups())
    actual = {}
    for group in groups:
        epochs = ("-", "-")
        if group["type"] == "consumer":
            epochs = str(group["epoch"]), str(group["targetAssignmentEpoch"])
        actual[group["group"]] = (group["state"], str(len(group["members"])), *epochs)
    assert actual.pop("sharing") == ("Empty", "0", "-", "-")
    del actual[STREAMS]
    # A coordinator also creates a group for commits in a transaction that is open.
    assert expected.pop("undecided")[0] == "Empty"
    assert actual == expected
    kinds = {group["group"]: (group["type"], group["protocol"]) for group in groups}
    assert kinds["classic"] == ("classic", "range")
    assert kinds["modern"] == ("consumer", None)
    assert kinds["sharing"] == ("share", None)


def test_a_streams_group_is_that_of_the_broker(cluster: Cluster) -> None:
    def tasks(entries: list[dict[str, Any]]) -> list[list[Any]]:
        return sorted([task["taskType"], task["subtopologyId"], task["partitions"]] for task in entries)

    expected = cluster.describe_streams(STREAMS)
    for member in expected["members"]:
        member |= {name: sorted(member[name]) for name in ("assignment", "targetAssignment")}

    def described(group: dict[str, Any]) -> dict[str, Any]:
        """Return the same as `expected`."""
        members = [
            {name: member[name] for name in expected["members"][0]}
            | {name: tasks(member[name]) for name in ("assignment", "targetAssignment")}
            for member in group["members"]
        ]
        subtopologies = [
            {name: part[name] for name in expected["subtopologies"][0]} for part in group["subtopologies"]
        ]
        return {name: group[name] for name in expected} | {"members": members, "subtopologies": subtopologies}

    (group,) = [row for row in read_table(LogDir(cluster.log_dir).groups()) if row["group"] == STREAMS]
    actual = described(group)
    # The records do not say that the topology is valid. Those of later brokers do: see test_newer_broker.py.
    assert (actual.pop("state"), expected.pop("state")) == ("NotReady", "Stable")
    for description in (actual, expected):
        description["members"].sort(key=lambda member: member["memberId"])
        description["subtopologies"].sort(key=lambda part: part["subtopologyId"])
    assert actual == expected
    assert group["type"] == "streams"
    kinds = {(kind, part) for member in actual["members"] for kind, part, _ in member["assignment"]}
    assert kinds == {("active", "0"), ("active", "1"), ("standby", "1")}


def test_transactions_are_those_of_kafka_transactions(cluster: Cluster) -> None:
    output, _ = cluster.broker.run_tool(TRANSACTIONS, "--bootstrap-server", cluster.broker.bootstrap, "list")
    expected = {tuple(line.split("\t")[at].strip() for at in (0, 2, 3)) for line in output.splitlines()[1:]}
    rows = read_table(LogDir(cluster.log_dir).transaction_state())
    assert {(row["transactionalId"], str(row["producerId"]), row["state"]) for row in rows} == expected
    (ongoing,) = [row for row in rows if row["transactionalId"] == "u"]
    assert ongoing["state"] == "Ongoing"
    assert ongoing["partitions"] == [{"topic": "__consumer_offsets", "partitions": [0]}]
    assert ongoing["transactionTimeoutMs"] == 900_000
    states = [row["state"] for row in read_table(LogDir(cluster.log_dir).transaction_state(history=True))]
    assert {"Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"} <= set(states)


def test_share_groups_are_those_of_kafka_share_groups(cluster: Cluster) -> None:
    expected = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): row["START-OFFSET"]
        for row in described(cluster, "--offsets", SHARE_GROUPS)
    }
    rows = read_table(LogDir(cluster.log_dir).share_groups())
    actual = {
        (row["group"], row["topic"], row["partition"]): str(
            "-" if row["startOffset"] is None else row["startOffset"]
        )
        for row in rows
    }
    assert actual == expected
    states = [batch for row in rows for batch in row["stateBatches"]]
    assert {batch["deliveryState"] for batch in states} == {"ACKNOWLEDGED", "AVAILABLE", "ARCHIVED"}


def test_a_share_group_gets_as_many_records_as_its_lag(cluster: Cluster) -> None:
    """kafka-share-groups shows the lag since Kafka 4.2."""

    def lag() -> int:
        rows = read_table(LogDir(cluster.log_dir).share_groups())
        return sum(row["lag"] or 0 for row in rows if row["group"] == "sharing")

    before = lag()
    assert 0 < before < 100
    assert cluster.share("sharing", TOPIC, before, accepts_all=True) == before
    assert eventually(lag, lambda after: after == 0) == 0
