"""kafkalog and a broker recover the damaged log directory of a killed broker in the same way."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

import native_log
from native_log.checkpoints.leader_epochs import parse_leader_epochs
from native_log.log.producers.producer_state import parse_snapshot

from .cluster import Cluster, Consumed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

TOPICS = ["untouched", "torn", "flipped", "zeros", "transactions", "no-indexes", "empty-log"]
INDEXES = ("index", "timeindex", "txnindex")
FILES = ("log", *INDEXES, "snapshot")
LEVELS = ["read_uncommitted", "read_committed"]


class Recovered(NamedTuple):
    """A log directory after a clean stop of its broker.

    Attributes:
        files: content by topic and name.
        consumed: what consumers got before the stop, by topic and isolation level.
        log_problems: warnings and errors of the broker.
    """

    files: dict[str, dict[str, bytes]]
    consumed: dict[tuple[str, str], Consumed]
    log_problems: list[str]


def logs_of(log_dir: Path, topic: str) -> list[Path]:
    return sorted((log_dir / f"{topic}-0").glob("*.log"))


def damage(log_dir: Path) -> None:
    last = logs_of(log_dir, "torn")[-1]
    last.write_bytes(last.read_bytes()[:-9])
    second = logs_of(log_dir, "flipped")[1]
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 8
    second.write_bytes(data)
    with logs_of(log_dir, "zeros")[-1].open("ab") as file:
        file.write(bytes(5000))
    for kind in INDEXES:
        for index in (log_dir / "no-indexes-0").glob(f"*.{kind}"):
            index.unlink()
    logs_of(log_dir, "empty-log")[0].write_bytes(b"")
    for later in logs_of(log_dir, "empty-log")[1:]:
        later.unlink()
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nempty-log 0 700\n")
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    stray = log_dir / "untouched-0" / f"{99999:020d}"
    stray.with_suffix(".log.cleaned").write_bytes(b"cut short")
    stray.with_suffix(".index").write_bytes(bytes(80))


@pytest.fixture(scope="module")
def crashed(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write logs with a broker, kill it, and damage the logs."""
    cluster = Cluster(tmp_path_factory.mktemp("crashed") / "logs", class_path)
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
        cluster.send("transactions", 50, first=12000, transactional_id="left-open", end="open")
    finally:
        cluster.stop(cleanly=False)
    damage(cluster.log_dir)
    return cluster.log_dir


def serve(log_dir: Path, class_path: str) -> Recovered:
    """Start a broker, consume all topics, and stop it."""
    cluster = Cluster(log_dir, class_path)
    try:
        consumed = {(topic, level): cluster.consume(topic, level) for topic in TOPICS for level in LEVELS}
        log_problems = cluster.log_problems()
    finally:
        cluster.stop()
    return Recovered(files_of(log_dir), consumed, log_problems)


def files_of(log_dir: Path) -> dict[str, dict[str, bytes]]:
    return {
        topic: {
            path.name: path.read_bytes()
            for path in (log_dir / f"{topic}-0").iterdir()
            if path.suffix[1:] in FILES or path.name == "leader-epoch-checkpoint"
        }
        for topic in TOPICS
    }


@pytest.fixture(scope="module")
def by_broker(crashed: Path, class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Recovered:
    copy = shutil.copytree(crashed, tmp_path_factory.mktemp("by-broker") / "logs")
    return serve(copy, class_path)


@pytest.fixture(scope="module")
def by_us(crashed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = shutil.copytree(crashed, tmp_path_factory.mktemp("by-us") / "logs")
    assert "failed" not in native_log.recover(copy).column("status").to_pylist()
    return copy


@pytest.fixture(scope="module")
def ours(by_us: Path) -> dict[str, dict[str, bytes]]:
    return files_of(by_us)


@pytest.fixture(scope="module")
def ours_served(by_us: Path, ours: dict[str, dict[str, bytes]], class_path: str) -> Recovered:
    return serve(by_us, class_path)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_files_are_left(topic: str, ours: dict[str, dict[str, bytes]], by_broker: Recovered) -> None:
    theirs = by_broker.files[topic]
    for kind in ("log", *INDEXES):
        names = {name for name in (*ours[topic], *theirs) if name.endswith(f".{kind}")}
        assert {name: ours[topic].get(name) for name in names} == {name: theirs.get(name) for name in names}
    if topic == "empty-log":
        return
    last = max(name for name in theirs if name.endswith(".snapshot"))
    our_producers, their_producers = (
        {entry.producer_id: entry for entry in parse_snapshot(files[last])} for files in (ours[topic], theirs)
    )
    our_epochs, their_epochs = (
        parse_leader_epochs(files["leader-epoch-checkpoint"].decode()) for files in (ours[topic], theirs)
    )
    # The broker begins a leader epoch when it starts.
    assert their_epochs[: len(our_epochs)] == our_epochs
    assert our_epochs
    # A broker forgets producers whose records are a day old.
    assert their_producers.items() <= our_producers.items()
    assert their_producers


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_broker_serves_the_same_records(
    topic: str, level: str, by_broker: Recovered, ours_served: Recovered
) -> None:
    consumed = ours_served.consumed[topic, level]
    assert consumed == by_broker.consumed[topic, level]
    assert consumed.rows or topic == "empty-log"


def test_the_broker_has_nothing_left_to_repair(
    ours: dict[str, dict[str, bytes]], ours_served: Recovered
) -> None:
    assert ours_served.log_problems == []
    for topic in TOPICS:
        logs = {name: data for name, data in ours_served.files[topic].items() if name.endswith(".log")}
        assert logs == {name: data for name, data in ours[topic].items() if name.endswith(".log")}
