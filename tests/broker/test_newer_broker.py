"""The log directory of a newer broker, compared with what a consumer and the tools of that Kafka showed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

import native_log
from benchmarks.broker import format_files
from benchmarks.jvm import NEWER_KAFKA
from native_log import LogDir

from .cluster import Cluster
from .test_internal_topics import GROUPS, SHARE_GROUPS, described, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from .cluster import Consumed

pytestmark = pytest.mark.broker

SETTINGS = {"group.coordinator.rebalance.protocols": "classic,consumer,streams"}
LEVELS = ("read_uncommitted", "read_committed")


class Stopped(NamedTuple):
    """A log directory, and what a consumer and Kafka's tools showed before its broker was stopped."""

    log_dir: LogDir
    consumed: dict[str, Consumed]
    groups: list[dict[str, str]]
    share_groups: list[dict[str, str]]


@pytest.fixture(scope="module")
def stopped(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    cluster = Cluster(tmp_path_factory.mktemp("newer") / "logs", class_path, NEWER_KAFKA, SETTINGS)
    try:
        cluster.create("followed", partitions=3, segment_bytes=2**20)
        cluster.send("followed", 100)
        cluster.create("mixed")
        cluster.send("mixed", 500, compression_type="zstd")
        for end in ("commit", "abort"):
            cluster.send("mixed", 20, transactional_id="t", end=end)
        cluster.join("classic", "followed", 30)
        cluster.join("modern", "followed", 50, group_protocol="consumer")
        cluster.commit_offset("simple", "followed", 0, 5, metadata="by hand")
        cluster.share("sharing", "followed", 30)
        cluster.stream("streaming", "followed", "first")
        groups, share_groups = described(cluster, "--offsets", GROUPS), described(cluster, "", SHARE_GROUPS)
        consumed = {level: cluster.consume("mixed", level) for level in LEVELS}
    finally:
        cluster.stop()
    return Stopped(LogDir(cluster.log_dir), consumed, groups, share_groups)


@pytest.mark.parametrize("level", LEVELS)
def test_records(stopped: Stopped, level: str) -> None:
    log = stopped.log_dir.partition("mixed", 0)
    columns = ["offset", "key", "value"]
    read = log.read(columns=columns, isolation_level=level).read_all().to_pylist()
    assert [(row["offset"], row["key"], row["value"]) for row in read] == [
        (row.offset, row.key, row.value) for row in stopped.consumed[level].rows
    ]


def test_cluster_metadata(stopped: Stopped) -> None:
    rows = read_table(stopped.log_dir.cluster_metadata())
    assert {row["topic"] for row in rows if row["type"] == "topic"} >= {"followed", "mixed"}
    assert len([row for row in rows if row["type"] == "broker"]) == 1
    assert stopped.log_dir.topic_configs["followed"] == {"segment.bytes": "1048576"}


def test_lag(stopped: Stopped) -> None:
    lag = {(row["group"], row["partition"]): row["lag"] for row in read_table(stopped.log_dir.lag())}
    shown = {(row["GROUP"], int(row["PARTITION"])): int(row["LAG"]) for row in stopped.groups}
    assert lag == shown
    assert {group for group, _ in lag} == {"classic", "modern", "simple"}


def test_share_groups(stopped: Stopped) -> None:
    rows = read_table(stopped.log_dir.share_groups())
    shown = {int(row["PARTITION"]): row["LAG"] for row in stopped.share_groups}
    assert {row["partition"]: "-" if row["lag"] is None else str(row["lag"]) for row in rows} == shown
    assert "-" in shown.values()
    assert set(shown.values()) != {"-"}


def test_groups(stopped: Stopped) -> None:
    rows = read_table(stopped.log_dir.groups())
    assert {row["group"]: (row["type"], row["state"]) for row in rows} == {
        "classic": ("classic", "Stable"),
        "modern": ("consumer", "Stable"),
        "simple": ("classic", "Empty"),
        "sharing": ("share", "Empty"),
        "streaming": ("streams", "Stable"),
    }


def test_nothing_is_wrong_with_its_files(stopped: Stopped) -> None:
    assert native_log.verify(stopped.log_dir.paths).num_rows == 0
    recovered = native_log.recover(stopped.log_dir.paths, dry_run=True, from_start=True).to_pylist()
    assert {row["status"] for row in recovered} == {"whole"}


def test_a_directory_in_which_no_broker_has_started(class_path: str, tmp_path: Path) -> None:
    for name, data in format_files(NEWER_KAFKA).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    features = {row["name"]: row["value"] for row in read_table(LogDir(tmp_path).cluster_metadata())}
    assert features["metadata.version"] == "33"
