"""A broker loads what kafkalog salvaged, and serves the records that were readable before."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log import LogDir

from .cluster import Cluster
from .comparison import fast_and_quiet
from .damaged_log import Case
from .kafka_loader import KafkaLoader
from .log_dir_files import CLEAN_SHUTDOWN, RECOVERY_POINT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

CASES = 40
TOPICS = ["untouched", "flipped", "missing", "transactions"]
LEVELS = ["read_uncommitted", "read_committed"]


@pytest.fixture(scope="module")
def loader(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaLoader]:
    """Start the loader. The fixture `class_path` skips the tests if Java is missing."""
    loader = KafkaLoader(tmp_path_factory.mktemp("loader"))
    yield loader
    loader.close()


def test_kafka_loads_salvaged_logs_as_they_are(loader: KafkaLoader, tmp_path: Path) -> None:
    with fast_and_quiet():
        for seed in range(CASES):
            log = Case(seed).damaged_log()
            source, copy = tmp_path / f"{seed}-source", tmp_path / f"{seed}-copy"
            log.files.write(source)
            native_log.salvage(source, copy)
            ours = LogDir(copy).partition("t", 0)
            offsets = ours.read(columns=["offset"]).read_all().column(0).to_pylist()
            epochs = [(entry.epoch, entry.start_offset) for entry in ours.leader_epochs]
            logs = {path.name: path.read_bytes() for path in (copy / "t-0").glob("*.log")}
            for is_clean in (True, False):  # as it is, and after a recovery of all segments
                if not is_clean:
                    (copy / CLEAN_SHUTDOWN).unlink(missing_ok=True)
                    (copy / RECOVERY_POINT).unlink()
                loaded = loader.load(copy, log.index_interval_bytes)
                assert loaded.consumer_error is None, log
                assert loaded.offsets == offsets, log
                assert (loaded.start_offset, loaded.end_offset) == (
                    ours.log_start_offset,
                    ours.log_end_offset,
                ), log
                assert not is_clean or loaded.epochs == epochs, log
                assert {path.name: path.read_bytes() for path in (copy / "t-0").glob("*.log")} == logs, log
            shutil.rmtree(source)
            shutil.rmtree(copy)


def damage(log_dir: Path) -> None:
    flipped = sorted((log_dir / "flipped-0").glob("*.log"))[1]
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 8
    flipped.write_bytes(data)
    missing = sorted((log_dir / "missing-0").glob("*.log"))[1]
    for file in missing.parent.glob(f"{missing.stem}.*"):
        file.unlink()
    for index in (log_dir / "transactions-0").glob("*index"):
        index.write_bytes(b"garbage")


def test_a_broker_serves_a_salvaged_log_directory(class_path: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "logs", class_path)
    try:
        for topic in TOPICS:
            cluster.create(topic, segment_bytes=2**20)
            for turn in range(4):
                ending = {"transactional_id": f"{topic}-{turn % 2}"} if topic == "transactions" else {}
                cluster.send(
                    topic,
                    3000,
                    first=3000 * turn,
                    value_bytes=250,
                    **ending,
                    end="abort" if ending and turn % 2 == 0 else "commit" if ending else "",
                )
        before = {(topic, level): cluster.consume(topic, level).rows for topic in TOPICS for level in LEVELS}
    finally:
        cluster.stop(cleanly=False)
    damage(cluster.log_dir)
    report = native_log.salvage(cluster.log_dir, tmp_path / "salvaged").to_pylist()
    lost = {
        row["topic"]: range(row["firstOffset"], row["lastOffset"] + 1)
        for row in report
        if row["status"] == "lost"
    }
    assert lost.keys() == {"flipped", "missing"}
    salvaged = Cluster(tmp_path / "salvaged", class_path)
    try:
        for (topic, level), rows in before.items():
            kept = [row for row in rows if row.offset not in lost.get(topic, ())]
            assert salvaged.consume(topic, level).rows == kept
        assert salvaged.log_problems() == []
    finally:
        salvaged.stop()
