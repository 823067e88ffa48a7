"""Damaged logs, recovered by us and by Kafka's own classes: what is left must be the same.

What differs on purpose is listed in meant.py. `python -m tests.broker.trial SEED` runs a failing case again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.jvm import compiled
from native_log.checkpoints.leader_epochs import EpochEntry, assign

from .cluster import Cluster
from .damage import CLEAN_SHUTDOWN, LOG_START, RECOVERY_POINT, Case
from .trial import LOADER, Loader, contents, epochs, quickly, run, shrunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

CASES, AT_ONCE = 240, 30
CASES_OF_A_BROKER = 40


@pytest.fixture(scope="module")
def loader(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    """`class_path` skips the tests where there is no Java."""
    loader = Loader(compiled([LOADER], tmp_path_factory.mktemp("loader")))
    yield loader
    loader.close()


@pytest.mark.parametrize("first", range(0, CASES, AT_ONCE))
def test_recovery_leaves_what_a_broker_leaves(first: int, loader: Loader, tmp_path: Path) -> None:
    with quickly():
        results = [run(Case(seed), loader, tmp_path) for seed in range(first, first + AT_ONCE)]
        wrong = [shrunk(one, loader, tmp_path) for one in results if one.kinds()]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_loader_leaves_what_a_broker_leaves(class_path: str, loader: Loader, tmp_path: Path) -> None:
    """The same damaged logs, all in one broker's log directory."""
    cluster = Cluster(tmp_path / "broker", class_path)
    try:
        loaded = {}
        for seed in range(CASES_OF_A_BROKER):
            made = Case(seed).make()
            made.files.beside.pop(CLEAN_SHUTDOWN, None)
            path = tmp_path / str(seed)
            made.files.write(path)
            answer = loader.load(path, made.index_interval_bytes)
            if "error" not in answer:  # a broker would end
                loaded[f"c{seed}"] = made, path, answer
        for topic, (made, _, _) in loaded.items():
            cluster.create(topic, index_interval_bytes=made.index_interval_bytes, segment_index_bytes=1 << 20)
        cluster.stop()
        offsets: dict[str, dict[str, int]] = {RECOVERY_POINT: {}, LOG_START: {}}
        for topic, (made, _, _) in loaded.items():
            directory = cluster.log_dir / f"{topic}-0"
            for file in directory.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for name, data in made.files.partition.items():
                (directory / name).write_bytes(data)
            for name, by_topic in offsets.items():
                if (offset := made.files.offset_of(name)) is not None:
                    by_topic[topic] = offset
        for name, by_topic in offsets.items():
            lines = "".join(f"{topic} 0 {offset}\n" for topic, offset in by_topic.items())
            (cluster.log_dir / name).write_text(f"0\n{len(by_topic)}\n{lines}")
        (cluster.log_dir / CLEAN_SHUTDOWN).unlink()
        cluster.broker.start()
    finally:
        cluster.stop()
    wrong = []
    for topic, (made, path, answer) in loaded.items():
        served, found = contents(cluster.log_dir, f"{topic}-0"), contents(path)
        served.pop("partition.metadata")
        ours, theirs = epochs(path), epochs(cluster.log_dir, f"{topic}-0")
        for name in (name for name in found if name.endswith(".snapshot") and name in served):
            served[name] = found[name]  # a broker forgets producers whose records are a day old
        # Its start is an epoch of its own.
        begun = assign(tuple(EpochEntry(*one) for one in ours), theirs[-1][0], answer["end"])
        if served != found or theirs != [(one.epoch, one.start_offset) for one in begun]:
            differ = [name for name in {*served, *found} if served.get(name) != found.get(name)]
            wrong.append(f"{made}\n  {differ}, epochs of the loader {ours}, of the broker {theirs}")
    assert not wrong, "\n".join(wrong)
    assert len(loaded) > CASES_OF_A_BROKER / 2
