"""`verify` reports what keeps a broker from starting, or from serving a partition."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from benchmarks.jvm import JavaError
from native_log.checkpoints.offset_checkpoints import CHECKPOINT_FILES

from .cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

OTHER_ID = "EnLPaIafOS4u6TmZoJcUQg"
FILES = (
    *CHECKPOINT_FILES,
    *("meta.properties", "bootstrap.checkpoint", "__cluster_metadata-0/quorum-state"),
    *("malformed-0/leader-epoch-checkpoint", "malformed-0/partition.metadata"),
)
TOPICS = ("whole", "missing", "foreign", "versioned", "malformed")
RECORDS = 7


@pytest.fixture(scope="module")
def cluster(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return a broker that was stopped, with a few records in each topic."""
    cluster = Cluster(tmp_path_factory.mktemp("metadata-files") / "logs", class_path)
    for topic in TOPICS:
        cluster.create(topic)
        cluster.send(topic, RECORDS)
    cluster.stop()
    return cluster


def metadata(log_dir: Path, topic: str) -> Path:
    return log_dir / f"{topic}-0/partition.metadata"


def problems(log_dir: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = native_log.verify(log_dir, [*TOPICS, "__cluster_metadata"]).to_pylist()
    return rows


@pytest.mark.parametrize("name", FILES)
def test_a_broker_does_not_start_with_a_malformed_file(cluster: Cluster, name: str) -> None:
    file = cluster.log_dir / name
    before = file.read_bytes()
    file.write_text("malformed")
    (problem,) = problems(cluster.log_dir)
    assert problem["path"] == str(file)
    assert problem["advice"].startswith("A broker does not start with it")
    with pytest.raises(JavaError):
        cluster.consume("whole")
    cluster.stop(cleanly=False)
    if "recover" in problem["advice"]:
        native_log.recover(cluster.log_dir)
    else:
        file.write_bytes(before)
    assert problems(cluster.log_dir) == []  # the last test starts a broker with what recovery left


def test_a_broker_does_not_start_with_a_foreign_directory(cluster: Cluster) -> None:
    foreign = cluster.log_dir / "lost+found"
    foreign.mkdir()
    (problem,) = problems(cluster.log_dir)
    assert problem["path"] == str(foreign)
    with pytest.raises(JavaError):
        cluster.consume("whole")
    cluster.stop(cleanly=False)
    foreign.rmdir()


def test_a_broker_does_not_start_with_a_partition_in_two_log_directories(cluster: Cluster) -> None:
    other = cluster.log_dir.with_name("other")
    shutil.copytree(cluster.log_dir / "whole-0", other / "whole-0")
    properties = (cluster.log_dir / "meta.properties").read_text()
    other_id = re.sub("directory.id=.*", f"directory.id={OTHER_ID}", properties)
    (other / "meta.properties").write_text(other_id)
    cluster.broker.more_log_dirs.append(other)
    rows = native_log.verify([cluster.log_dir, other], ["whole"]).to_pylist()
    assert [(row["kind"], row["path"]) for row in rows] == [("duplicate", str(other / "whole-0"))]
    with pytest.raises(JavaError, match="Duplicate log directories"):
        cluster.consume("whole")
    cluster.stop(cleanly=False)
    cluster.broker.more_log_dirs.remove(other)


def test_a_broker_sets_other_topics_aside(cluster: Cluster) -> None:
    log_dir = cluster.log_dir
    later_version = metadata(log_dir, "versioned").read_text().replace("version: 0", "version: 1")
    metadata(log_dir, "versioned").write_text(later_version)
    metadata(log_dir, "missing").unlink()
    metadata(log_dir, "foreign").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    rows = problems(log_dir)
    assert [(row["kind"], row["topic"]) for row in rows] == [("topic-id", "foreign"), ("topic-id", "missing")]
    assert all("-stray" in row["advice"] for row in rows)
    served = {topic: len(cluster.consume(topic).rows) for topic in TOPICS}
    assert served == dict.fromkeys(TOPICS, RECORDS) | {"foreign": 0, "missing": 0}
    cluster.stop()
    assert sorted(path.name.partition("-")[0] for path in log_dir.glob("*-stray")) == ["foreign", "missing"]
