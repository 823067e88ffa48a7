"""Salvage the damaged directories that brokers left."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log import LogDir
from native_log.records import BATCH_SCHEMA
from tests.builders.golden import DATA, GOLDEN, golden_partitions, open_golden
from tests.contents import states

from .support import findings, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.golden import GoldenPartition

DAMAGED = sorted(
    str(path.relative_to(GOLDEN))
    for path in GOLDEN.glob("*/*")
    if path.name.startswith(("corrupt-", "torn-", "crash", "compact-crash", "txn-noindex", "offsets-gap"))
)


def headers(directory: Path, key: tuple[str, int]) -> list[dict[str, Any]]:
    """Return the headers of all valid batches, without positions and the checksums of message sets."""
    log = LogDir(directory).partition(*key)
    names = [name for name in BATCH_SCHEMA.names if name not in ("position", "crc", "isValid")]
    tables = (batch.select(names) for batch in log.batches(check_crcs=True, mode="dropMalformed"))
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize("fixture", DAMAGED)
def test_the_copy_has_the_readable_rows_and_no_problem(fixture: str, tmp_path: Path) -> None:
    source = GOLDEN / fixture / "data"
    before = states(source)
    report = native_log.salvage(source, tmp_path / "copy", threads=1)
    assert states(source) == before
    copied = rows(tmp_path / "copy")
    assert copied == rows(source)
    assert native_log.verify(tmp_path / "copy").to_pylist() == []
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    planned = native_log.salvage(source, tmp_path / "planned", dry_run=True)
    assert planned == report
    assert not (tmp_path / "planned").exists()


@pytest.mark.parametrize(
    "partition",
    [p for p in golden_partitions() if "error" in p.expected and "batchSize" in p.facts],
    ids=lambda partition: partition.fixture,
)
def test_the_lost_bytes_are_those_that_were_damaged(partition: GoldenPartition, tmp_path: Path) -> None:
    facts = partition.facts
    damaged: list[native_log.DamagedRange] = []
    list(open_golden(partition).read(mode="dropMalformed", on_damage=damaged.append))
    report = native_log.salvage(GOLDEN / partition.fixture / "data", tmp_path / "copy")
    lost = [row for row in report.to_pylist() if row["status"] == "lost"]
    assert [(row["position"], row["sizeInBytes"]) for row in lost] == [
        (facts["batchPosition"], facts["batchSize"])
    ]
    assert lost[0]["path"].endswith(facts["file"].removeprefix("data/"))
    assert lost[0]["firstOffset"] == damaged[0].offset


def test_the_index_of_a_missing_segment_shows_the_loss(tmp_path: Path) -> None:
    source = GOLDEN / "kafka-4.1/corrupt-middle-missing/data"
    report = native_log.salvage(source, tmp_path / "copy")
    assert findings(report) == [("lost", "missing-segment", 80, 160)]


@pytest.mark.parametrize("state", ["missing", "empty"])
@pytest.mark.parametrize(("base", "last"), [(0, 37), (38, 121)])
def test_a_segment_without_records(tmp_path: Path, state: str, base: int, last: int) -> None:
    copy = shutil.copytree(GOLDEN / "kafka-4.1/plain-lz4/data", tmp_path / "data")
    log = copy / f"plain-lz4-1/{base:020}.log"
    log.unlink()
    if state == "empty":
        log.touch()
    report = native_log.salvage(copy, tmp_path / "copy", topics="plain-lz4")
    assert findings(report) == [("lost", "missing-segment", base, last)]
    (reason,) = (row["reason"] for row in report.to_pylist() if row["status"] == "lost")
    assert reason.startswith(f"the file is {state}; ")


def test_a_torn_end_reaches_to_the_high_watermark(tmp_path: Path) -> None:
    report = native_log.salvage(GOLDEN / "kafka-4.1/torn-keep61/data", tmp_path / "copy")
    assert findings(report) == [("lost", "size", 194, 202)]
    assert "replication-offset-checkpoint" in report.to_pylist()[1]["reason"]


def test_zeros_at_the_end_are_no_loss(tmp_path: Path) -> None:
    report = native_log.salvage(GOLDEN / "kafka-4.1/crash-preallocate/data", tmp_path / "copy")
    assert findings(report) == [("warning", "file", None, None)]


def test_a_message_set_with_a_wrong_checksum_is_repaired(tmp_path: Path) -> None:
    """Consumers do not check it, but a broker's recovery does."""
    report = native_log.salvage(GOLDEN / "kafka-2.8/corrupt-v0-snappy/data", tmp_path / "copy")
    assert ("warning", "crc", None, 45) in findings(report)
    (reason,) = (row["reason"] for row in report.to_pylist() if row["kind"] == "crc")
    assert reason == (
        "expected CRC-32 0x8ed330ce by the header of the message set, found 0x8ed230ce; "
        "the copy has the right one"
    )
    done = native_log.recover(tmp_path / "copy", from_start=True)
    assert done.column("status").to_pylist() == ["whole"]


def test_offsets_in_remote_storage_are_reported(tmp_path: Path) -> None:
    report = native_log.salvage(DATA / "tiered", tmp_path / "copy")
    starts = {row["topic"]: row for row in report.to_pylist() if row["kind"] == "missing-start"}
    bounds = {topic: (row["firstOffset"], row["lastOffset"]) for topic, row in starts.items()}
    assert bounds == {"d-rec": (174, 240), "d-ret": (110, 363)}
    copied, source = LogDir(tmp_path / "copy"), LogDir(DATA / "tiered")
    for directory in source.partitions():
        logs = copied.partition(*directory.key), source.partition(*directory.key)
        assert logs[0].log_start_offset == logs[1].log_start_offset
        assert logs[0].log_end_offset == logs[1].log_end_offset


def test_the_start_that_only_the_metadata_of_remote_storage_knows_is_reported(tmp_path: Path) -> None:
    report = native_log.salvage(DATA / "tiered-crash", tmp_path / "copy")
    (row,) = (row for row in report.to_pylist() if row["kind"] == "missing-start")
    assert (row["topic"], row["firstOffset"], row["lastOffset"]) == ("crash", 0, 290)
    assert "(__remote_log_metadata), its files later: they are in remote storage" in row["reason"]


def test_a_whole_log_directory(tmp_path: Path) -> None:
    source = GOLDEN / "kafka-4.1/whole-broker/data"
    report = native_log.salvage(source, tmp_path / "copy")
    assert findings(report) == [("skipped", "directory", None, None)] * 2
    ours, theirs = LogDir(tmp_path / "copy"), LogDir(source)
    assert ours.topics() == theirs.topics()
    assert ours.meta_properties.cluster_id == theirs.meta_properties.cluster_id
    assert ours.meta_properties.node_id == theirs.meta_properties.node_id
    assert ours.meta_properties.directory_id != theirs.meta_properties.directory_id
    for directory in theirs.partitions():
        log, original = ours.partition(*directory.key), theirs.partition(*directory.key)
        assert log.topic_id == original.topic_id
        # A broker that loads a log drops epochs that begin at its end, too.
        epochs = [entry for entry in original.leader_epochs if entry.start_offset < log.log_end_offset]
        assert list(log.leader_epochs) == epochs
        assert log.checkpoints.log_start_offset == original.checkpoints.log_start_offset
        assert log.checkpoints.first_dirty_offset == original.checkpoints.first_dirty_offset
        assert headers(tmp_path / "copy", directory.key) == headers(source, directory.key)
    names = {path.name for path in (source / "__cluster_metadata-0").iterdir()}
    assert {name for name in names if name.endswith(".checkpoint") or name == "quorum-state"} <= {
        path.name for path in (tmp_path / "copy/__cluster_metadata-0").iterdir()
    }


@pytest.mark.parametrize("name", ["quorum-state", "00000000000000000142-0000000003.checkpoint"])
def test_damaged_files_of_the_controllers_are_left_out(tmp_path: Path, name: str) -> None:
    source = shutil.copytree(GOLDEN / "kafka-4.1/whole-broker/data", tmp_path / "source")
    damaged = source / "__cluster_metadata-0" / name
    assert damaged.exists()
    damaged.write_text("damaged")
    for dry_run in (True, False):
        report = native_log.salvage(source, tmp_path / "copy", dry_run=dry_run)
        (lost,) = (row for row in report.to_pylist() if row["status"] == "lost")
        assert (lost["kind"], lost["path"]) == ("malformed-file", str(damaged))
    assert not (tmp_path / "copy/__cluster_metadata-0" / name).exists()
    assert native_log.verify(tmp_path / "copy").num_rows == 0


def test_deleted_directories_if_asked(tmp_path: Path) -> None:
    source = GOLDEN / "kafka-4.1/whole-broker/data"
    native_log.salvage(source, tmp_path / "copy", "gone", include_deleted=True)
    assert LogDir(tmp_path / "copy").topics() == {"gone": [0, 1]}
    assert rows(tmp_path / "copy")["gone", 0].equals(rows(source, include_deleted=True)["gone", 0])


def test_a_single_partition_directory(tmp_path: Path) -> None:
    source = shutil.copytree(GOLDEN / "kafka-4.1/corrupt-log-only/data", tmp_path / "data")
    (directory,) = source.glob("corrupt-log-only-0")
    native_log.salvage(directory, tmp_path / "copy", cluster_id="b" * 22, node_id=7)
    assert rows(tmp_path / "copy") == rows(source)
    properties = LogDir(tmp_path / "copy").meta_properties
    assert (properties.cluster_id, properties.node_id, properties.version) == ("b" * 22, 7, 1)


def test_several_log_directories_become_one(tmp_path: Path) -> None:
    sources = [GOLDEN / "kafka-4.1/jbod/data" / name for name in ("dir1", "dir2")]
    native_log.salvage(sources, tmp_path / "copy")
    assert rows(tmp_path / "copy") == rows(sources)
