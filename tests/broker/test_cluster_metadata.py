"""The cluster metadata as a table, compared with what kafka-metadata-shell shows of the same log."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.broker import format_files
from benchmarks.jvm import HERE, KAFKA, jars, java_tool
from native_log import LogDir

from .cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

SHELL = HERE / "maven" / "kafka-shell.xml"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def log_dir(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the metadata log of a stopped broker."""
    cluster = Cluster(tmp_path_factory.mktemp("metadata") / "logs", class_path, settings=SETTINGS)
    try:
        cluster.create("followed", partitions=3, retention_ms=5)
        cluster.alter("followed", retention_ms=None, segment_bytes=2_000_000)
        cluster.create("deleted")
        cluster.delete("deleted")
        cluster.allow("User:alice", "read", "foll")
        cluster.limit("alice", None, "request_percentage", 12.5)
        cluster.set_password("alice")
        cluster.upgrade("share.version", 1)
        cluster.send("followed", 10, transactional_id="t", end="commit")
    finally:
        cluster.stop()
    return shutil.copytree(cluster.log_dir, tmp_path_factory.mktemp("copy") / "logs")


@pytest.fixture(scope="module")
def rows(log_dir: Path) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = LogDir(log_dir).cluster_metadata().read_all().to_pylist()
    assert [row for row in table if row["error"] is not None] == []
    return table


@pytest.fixture(scope="module")
def image(log_dir: Path) -> dict[str, str]:
    return shell_image(log_dir / f"__cluster_metadata-0/{0:020}.log")


def shell_image(log: Path) -> dict[str, str]:
    """Return the files that kafka-metadata-shell shows of a log or a snapshot, by path."""
    main = ("org.apache.kafka.shell.MetadataShell", "--snapshot", str(log), "tree", "/image")
    command = [java_tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars(SHELL)}/*", *main]
    # On a busy machine the shell may print the image before it has loaded the log, or wait for ever.
    for _ in range(20):
        try:
            process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=25)
        except subprocess.TimeoutExpired:
            continue
        files = dict(_files(process.stdout))
        if not files["provenance"].startswith("offset -1,"):
            return files
    raise AssertionError(f"kafka-metadata-shell did not load {log}")


def _files(tree: str) -> Iterator[tuple[str, str]]:
    """Yield path and content of the files in a tree: a line for each directory or file, then the content."""
    path: list[str] = []
    for line in tree.splitlines():
        text = line.strip()
        depth = (len(line) - len(line.lstrip())) // 2
        path = path[:depth]
        if text.endswith(":"):
            path.append(text[:-1])
        else:
            yield "/".join(path), text


def ints(values: list[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def test_topics_and_partitions(rows: list[dict[str, Any]], image: dict[str, str]) -> None:
    expected = {path: text for path, text in image.items() if path.startswith("topics/byId")}
    actual = {}
    for row in rows:
        directory = f"topics/byId/{row['topicId']}"
        if row["type"] == "topic":
            actual |= {f"{directory}/id": row["topicId"], f"{directory}/name": row["topic"]}
        elif row["type"] == "partition":
            actual[f"{directory}/{row['partition']}"] = (
                f"PartitionRegistration(replicas={ints(row['replicas'])}, "
                f"directories=[{', '.join(row['directories'])}], isr={ints(row['isr'])}, "
                f"removingReplicas={ints(row['removingReplicas'])}, "
                f"addingReplicas={ints(row['addingReplicas'])}, elr={ints(row['eligibleLeaderReplicas'])}, "
                f"lastKnownElr={ints(row['lastKnownElr'])}, leader={row['leader']}, "
                f"leaderRecoveryState={row['leaderRecoveryState']}, leaderEpoch={row['leaderEpoch']}, "
                f"partitionEpoch={row['partitionEpoch']})"
            )
    assert actual == expected
    topics = {row["topic"] for row in rows if row["type"] == "topic"}
    assert topics == {"followed", "__transaction_state"}


def test_configurations(rows: list[dict[str, Any]], image: dict[str, str]) -> None:
    expected = {path: text for path, text in image.items() if path.startswith("configs/")}
    actual = {}
    for row in rows:
        if row["type"] == "config":
            resource = row["resourceType"] + (f":{row['resourceName']}" if row["resourceName"] else "")
            actual[f"configs/{resource}/{row['name']}"] = row["value"]
    assert actual == expected
    assert actual["configs/TOPIC:followed/segment.bytes"] == "2000000"


def test_brokers_and_controllers(rows: list[dict[str, Any]], image: dict[str, str]) -> None:
    expected = {path: text for path, text in image.items() if path.startswith("cluster/")}
    actual = {}
    for row in rows:
        if row["type"] not in ("broker", "controller"):
            continue
        listeners = ", ".join(
            f"Endpoint(listenerName='{end['name']}', securityProtocol={end['securityProtocol']}, "
            f"host='{end['host']}', port={end['port']})"
            for end in row["endPoints"]
        )
        features = ", ".join(
            sorted(f"{each['name']}: {each['minVersion']}-{each['maxVersion']}" for each in row["features"])
        )
        known = f"listeners=[{listeners}], supportedFeatures={{{features}}}"
        node = f"id={row['nodeId']}, "
        if row["type"] == "controller":
            text = f"ControllerRegistration({node}incarnationId={row['incarnationId']}, "
            text += f"zkMigrationReady=false, {known})"
        else:
            states = [str(row[name]).lower() for name in ("isFenced", "inControlledShutdown")]
            text = f"BrokerRegistration({node}epoch={row['brokerEpoch']}, "
            text += (
                f"incarnationId={row['incarnationId']}, {known}, rack=Optional.empty, fenced={states[0]}, "
            )
            text += f"inControlledShutdown={states[1]}, isMigratingZkBroker=false, "
            text += f"directories=[{', '.join(row['directories'])}])"
        actual[f"cluster/{row['type']}s/{row['nodeId']}"] = text
    assert actual == expected


def test_features_acls_and_the_rest(rows: list[dict[str, Any]], image: dict[str, str]) -> None:
    by_type: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_type.setdefault(row["type"], []).append(row)
    features = {f"features/finalized_{row['name']}": row["value"] for row in by_type["feature"]}
    assert features.pop("features/finalized_metadata.version") == "27"
    assert features == {path: text for path, text in image.items() if "finalized" in path}

    (acl,) = by_type["acl"]
    tokens = dict(re.findall(r"(\w+)=([^,()]+)", acl["text"]))
    tokens["resourceName"] = tokens.pop("name")
    del tokens["pattern"]
    assert tokens == dict(re.findall(r"(\w+)=([^,()]+)", image[f"acls/byId/{acl['name']}"]))
    assert (acl["resourceType"], acl["resourceName"]) == ("TOPIC", "foll")

    (quota,) = by_type["quota"]
    assert (quota["name"], quota["value"]) == ("request_percentage", "12.5")
    assert sorted(quota["text"].split(", ")) == ["client-id=<default>", "user=alice"]
    (scram,) = by_type["scramCredential"]
    assert f"iterations={scram['value']})" in image[f"scram/{scram['name']}/{scram['resourceName']}"]
    (producer_ids,) = by_type["producerIds"]
    assert producer_ids["value"] == image["producerIds/nextProducerId"]


def test_a_directory_in_which_no_broker_has_started(class_path: str, tmp_path: Path) -> None:
    for name, data in format_files(KAFKA).items():
        (tmp_path / name).write_bytes(data)
    rows = LogDir(tmp_path, allow_empty=True).cluster_metadata().read_all().to_pylist()
    assert {row["type"] for row in rows} == {"feature"}
    features = {f"features/finalized_{row['name']}": row["value"] for row in rows}
    assert features.pop("features/finalized_metadata.version") == "27"
    image = shell_image(tmp_path / "bootstrap.checkpoint")
    assert features == {path: text for path, text in image.items() if "finalized" in path}
