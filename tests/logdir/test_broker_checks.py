"""What a broker does not accept beside the records, and log directories that are therefore not changed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import native_log
from native_log import KafkaLogError, LogDir
from native_log.checkpoints.offset_checkpoints import CHECKPOINT_FILES, read_offset_checkpoint
from tests.builders.golden import GOLDEN
from tests.builders.ownership import OWNER, as_root, give

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Copy a broker's log directory. One of its partitions begins at offset 75."""
    return shutil.copytree(GOLDEN / "kafka-4.1/whole-broker/data", tmp_path / "data")


def append(data: Path) -> None:
    with LogDir(data).partition("trimmed", 0) as log:
        log.append(pa.table({"value": [b"v"]}))


CHANGES: dict[str, Callable[[Path], object]] = {
    "append": append,
    "create": lambda data: LogDir(data).create_topic("new"),
    "compact": native_log.compact,
    "retain": native_log.retain,
    "delete records": lambda data: native_log.delete_records(data, {("trimmed", 0): 80}),
    "erase": lambda data: native_log.erase(data, ["trimmed"], keys=[b"k"]),
    "reindex": native_log.reindex,
    "recover one topic": lambda data: native_log.recover(data, ["trimmed"]),
    "recover one partition": lambda data: native_log.recover(data / "trimmed-0"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_a_log_directory_with_a_malformed_checkpoint_is_not_changed(
    data: Path, name: str, change: Callable[[Path], object]
) -> None:
    (data / name).write_bytes(bytes(64))  # as a crash of the machine can leave it
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    with pytest.raises(KafkaLogError, match=rf"{name}: line 1: .* kafkalog recover"):
        change(data)
    after = {file: file.read_bytes() for file in data.rglob("*") if file.is_file() and file.name != ".lock"}
    assert after == {file: content for file, content in before.items() if file.name != ".lock"}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: native_log.compact(data, dry_run=True),
        lambda data: native_log.retain(data, dry_run=True),
        lambda data: native_log.recover(data, ["trimmed"], dry_run=True),
    ],
    ids=["compact", "retain", "recover one topic"],
)
def test_a_dry_run_fails_too(data: Path, change: Callable[[Path], object]) -> None:
    (data / "log-start-offset-checkpoint").write_text("malformed")
    with pytest.raises(KafkaLogError, match=r"log-start-offset-checkpoint: line 1: .* kafkalog recover"):
        change(data)


@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_recovery_of_the_log_directory_sets_malformed_checkpoints_aside(
    data: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    sound = read_offset_checkpoint(data / name)
    (data / name).write_text("0\n3\n")
    (row,) = native_log.verify(data).to_pylist()
    assert (row["topic"], row["partition"], row["path"]) == (None, None, str(data / name))
    assert row["kind"] == "malformed-file"
    assert row["problem"] == "line 2: expected 3 entries, found 0"
    native_log.recover(data, dry_run=True)
    assert f"{name}: the malformed file would be renamed to {name}.malformed" in caplog.text
    assert (data / name).read_text() == "0\n3\n"
    native_log.recover(data)
    assert (data / f"{name}.malformed").read_text() == "0\n3\n"
    assert native_log.verify(data).num_rows == 0
    if name == "recovery-point-offset-checkpoint":
        assert read_offset_checkpoint(data / name) == sound
    else:
        assert not (data / name).exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected version 0 or 1, found none"),
        ("version=2\ncluster.id=c\nnode.id=1\n", "expected version 0 or 1, found 2"),
        ("version=1\ncluster.id=c\n", "expected cluster.id and node.id, found only version, cluster.id"),
    ],
)
def test_meta_properties(data: Path, text: str, problem: str) -> None:
    (data / "meta.properties").write_text(text)
    (row,) = native_log.verify(data, ["trimmed"]).to_pylist()
    assert (row["kind"], row["problem"]) == ("malformed-file", problem)


def test_meta_properties_of_a_zookeeper_cluster(data: Path) -> None:
    (data / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert native_log.verify(data, ["trimmed"]).num_rows == 0


def test_leader_epochs_are_reported_once(data: Path) -> None:
    file = data / "trimmed-0/leader-epoch-checkpoint"
    file.write_text("0\n1\n0 x\n")
    (row,) = native_log.verify(data, ["trimmed"]).to_pylist()
    assert (row["kind"], row["path"], row["topic"]) == ("leader-epochs", str(file), "trimmed")
    assert "does not start" in row["advice"]


def test_foreign_directories(data: Path) -> None:
    foreign = ["lost+found", ".snapshot", "t-1-delete"]
    for name in (*foreign, "remote-log-index-cache", "a topic-0"):
        (data / name).mkdir()
    (data / "notes.txt").touch()
    rows = native_log.verify(data, ["trimmed"]).to_pylist()
    assert {row["kind"] for row in rows} == {"foreign-directory"}
    assert {row["path"] for row in rows} == {
        str(data / name) for name in ("lost+found", ".snapshot", "t-1-delete")
    }


@pytest.mark.parametrize(
    ("properties", "is_duplicate"),
    [
        ("directory.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\ncluster.id=Z29sZGVuLWZpeHR1cmVzMQ", True),
        ("directory.id=EnLPaIafOS4u6TmZoJcUQg\nnode.id=1\ncluster.id=Z29sZGVuLWZpeHR1cmVzMQ", False),
        ("directory.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=2\ncluster.id=Z29sZGVuLWZpeHR1cmVzMQ", False),
        ("directory.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\ncluster.id=other", False),
        (None, False),
    ],
    ids=["of-the-broker", "copy-of-the-directory", "of-another-broker", "of-another-cluster", "unknown"],
)
def test_a_partition_in_two_log_directories(data: Path, properties: str | None, is_duplicate: bool) -> None:
    other = data.with_name("other")
    shutil.copytree(data / "trimmed-0", other / "trimmed-0")
    if properties is not None:
        (other / "meta.properties").write_text(f"version=1\n{properties}\n")
    rows = native_log.verify([data, other], ["trimmed"]).to_pylist()
    found = [(row["kind"], row["path"]) for row in rows]
    assert found == ([("duplicate", str(other / "trimmed-0"))] if is_duplicate else [])


@pytest.mark.parametrize("text", ["", "malformed", "[]"])
def test_the_quorum_state(data: Path, text: str) -> None:
    file = data / "__cluster_metadata-0/quorum-state"
    assert file.exists()
    file.write_text(text)
    (row,) = native_log.verify(data, ["__cluster_metadata"]).to_pylist()
    assert (row["kind"], row["path"]) == ("malformed-file", str(file))


@pytest.mark.parametrize("kept_bytes", [0, 9, -1])
def test_snapshots_of_the_cluster_metadata(data: Path, kept_bytes: int) -> None:
    bootstrap = data / "bootstrap.checkpoint"
    *_, older, newest = sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))
    for file in (bootstrap, older, newest):
        file.write_bytes(file.read_bytes()[:kept_bytes])
    rows = native_log.verify(data, ["__cluster_metadata"]).to_pylist()
    assert [(row["kind"], row["path"], row["topic"]) for row in rows] == [
        ("malformed-file", str(bootstrap), None),
        ("malformed-file", str(newest), "__cluster_metadata"),
    ]


def test_the_topic_id_of_the_cluster_metadata(data: Path) -> None:
    file = data / "__cluster_metadata-0/partition.metadata"
    file.write_text("")
    (row,) = native_log.verify(data, ["__cluster_metadata"]).to_pylist()
    assert (row["kind"], row["path"]) == ("topic-id", str(file))
    assert row["problem"] == "expected AAAAAAAAAAAAAAAAAAAAAQ, found ''"
    file.unlink()
    assert native_log.verify(data, ["__cluster_metadata"]).num_rows == 0


@as_root
def test_files_that_the_owner_may_not_write(tmp_path: Path) -> None:
    """Earlier work of root may have left some."""
    LogDir.create(tmp_path / "logs").create_topic("t")
    give(tmp_path)
    assert not native_log.verify(tmp_path / "logs").num_rows
    of_root = [tmp_path / "logs" / name for name in ("meta.properties", "t-0/00000000000000000000.log")]
    for path in (*of_root, tmp_path / "logs/t-0/00000000000000000000.timeindex"):
        os.chown(path, 0, 0)
    group_writable = tmp_path / "logs/t-0/leader-epoch-checkpoint"
    os.chown(group_writable, 0, OWNER)
    group_writable.chmod(0o664)
    rows = native_log.verify(tmp_path / "logs").to_pylist()
    assert [(row["kind"], row["path"]) for row in rows] == [("owner", str(path)) for path in of_root]
    assert "found one of user 0, and 1 more files of others in" in rows[1]["problem"]
    assert rows[1]["advice"].endswith(f"chown -R {OWNER}:{OWNER} {tmp_path}/logs")
