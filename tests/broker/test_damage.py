"""Damaged logs, recovered by kafkalog and by Kafka's own classes, must be equal.

expected_differences.py lists the exceptions. To repeat a failing case, run
`python -m tests.broker.differential SEED`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from native_log.checkpoints.leader_epochs import EpochEntry, assign

from .cluster import Cluster
from .comparison import compare, epochs, fast_and_quiet, partition_files, shrink
from .damaged_log import Case
from .kafka_loader import KafkaLoader, LoadError
from .log_dir_files import CLEAN_SHUTDOWN, LOG_START, RECOVERY_POINT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.broker

CASES, CASES_PER_TEST = 240, 30
DIFFERED_ONCE = (901397, 2002838, 2006209)
"""Seeds that found a difference."""
CASES_OF_A_BROKER = 40


@pytest.fixture(scope="module")
def loader(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaLoader]:
    """Start the loader. The fixture `class_path` skips the tests if Java is missing."""
    loader = KafkaLoader(tmp_path_factory.mktemp("loader"))
    yield loader
    loader.close()


@pytest.mark.parametrize(
    "seeds",
    [*(range(first, first + CASES_PER_TEST) for first in range(0, CASES, CASES_PER_TEST)), DIFFERED_ONCE],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_recovery_equals_that_of_kafka(seeds: Sequence[int], loader: KafkaLoader, tmp_path: Path) -> None:
    with fast_and_quiet():
        comparisons = [compare(Case(seed), loader, tmp_path) for seed in seeds]
        unexpected = [
            shrink(comparison, loader, tmp_path)
            for comparison in comparisons
            if comparison.unexpected_kinds()
        ]
    assert not unexpected, "\n".join(map(str, unexpected))


def test_the_loader_equals_a_broker(class_path: str, loader: KafkaLoader, tmp_path: Path) -> None:
    """Load the same damaged logs with one broker."""
    cluster = Cluster(tmp_path / "broker", class_path)
    try:
        logs = {}
        for seed in range(CASES_OF_A_BROKER):
            log = Case(seed).damaged_log()
            log.files.checkpoints.pop(CLEAN_SHUTDOWN, None)
            path = tmp_path / str(seed)
            log.files.write(path)
            with contextlib.suppress(LoadError):  # a broker would not start
                logs[f"c{seed}"] = log, path, loader.load(path, log.index_interval_bytes)
        for topic, (log, _, _) in logs.items():
            cluster.create(topic, index_interval_bytes=log.index_interval_bytes, segment_index_bytes=1 << 20)
        cluster.stop()
        offsets: dict[str, dict[str, int]] = {RECOVERY_POINT: {}, LOG_START: {}}
        for topic, (log, _, _) in logs.items():
            directory = cluster.log_dir / f"{topic}-0"
            for file in directory.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for name, data in log.files.partition.items():
                (directory / name).write_bytes(data)
            for name, by_topic in offsets.items():
                if (offset := log.files.checkpointed_offset(name)) is not None:
                    by_topic[topic] = offset
        for name, by_topic in offsets.items():
            lines = "".join(f"{topic} 0 {offset}\n" for topic, offset in by_topic.items())
            (cluster.log_dir / name).write_text(f"0\n{len(by_topic)}\n{lines}")
        (cluster.log_dir / CLEAN_SHUTDOWN).unlink()
        cluster.broker.start()
    finally:
        cluster.stop()
    differences = []
    for topic, (log, path, loaded) in logs.items():
        of_broker, of_loader = partition_files(cluster.log_dir, f"{topic}-0"), partition_files(path)
        of_broker.pop("partition.metadata")
        for name in (name for name in of_loader if name.endswith(".snapshot") and name in of_broker):
            of_broker[name] = of_loader[name]  # a broker forgets producers whose records are a day old
        epochs_of_broker, epochs_of_loader = epochs(cluster.log_dir, f"{topic}-0"), epochs(path)
        # A broker begins a leader epoch when it starts.
        entries = tuple(EpochEntry(*entry) for entry in epochs_of_loader)
        expected = assign(entries, epochs_of_broker[-1][0], loaded.end_offset)
        expected_epochs = [(entry.epoch, entry.start_offset) for entry in expected]
        if of_broker != of_loader or epochs_of_broker != expected_epochs:
            names = [name for name in {*of_broker, *of_loader} if of_broker.get(name) != of_loader.get(name)]
            differences.append(
                f"{log}\n  {names}, epochs of the loader {epochs_of_loader}, of the broker {epochs_of_broker}"
            )
    assert not differences, "\n".join(differences)
    assert len(logs) > CASES_OF_A_BROKER / 2
