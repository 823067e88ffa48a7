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
TOPIC = "followed"


@pytest.fixture(scope="module")
def cluster(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a broker with groups of all kinds."""
    cluster = Cluster(tmp_path_factory.mktemp("groups") / "logs", class_path)
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
    yield cluster
    cluster.stop()


def read_table(table: pa.RecordBatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.read_all().to_pylist()
    assert [row for row in rows if row["error"] is not None] == []
    return rows


def described(cluster: Cluster, what: str) -> list[dict[str, str]]:
    """Return the rows that kafka-consumer-groups --describe --all-groups prints, by column."""
    arguments = ["--bootstrap-server", cluster.broker.bootstrap, "--describe", "--all-groups", f"--{what}"]
    output, _ = cluster.broker.run_tool(GROUPS, *arguments)
    rows, names = [], []
    for line in output.splitlines():
        cells = re.split(r"\s+", line.strip())
        if cells[0] == "GROUP":
            names = cells
        elif len(cells) > 1 and names and len(cells) >= len(names):
            rows.append(dict(zip(names, cells, strict=False)))
    return rows


def test_lag_is_that_of_kafka_consumer_groups(cluster: Cluster) -> None:
    names = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    expected = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): tuple(int(row[name]) for name in names)
        for row in described(cluster, "offsets")
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
