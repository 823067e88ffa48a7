"""Follow log directories: records of all partitions, also of those that appear later."""

from __future__ import annotations

import pickle
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from broker_lock import held_lock

from native_log import LogDir, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, write_offset_checkpoint
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.log.test_follow import NEVER_MS, WAITING, ScriptedWatch, append, choose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from native_log import LogFollower

COLUMNS = ["topic", "partition", "offset"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory with the partitions t-0, t-1 and __consumer_offsets-0 of 6 records each."""
    root = tmp_path / "logs"
    for name in ("t-0", "t-1", "__consumer_offsets-0"):
        write_log(root / name, {0: [batch(0), batch(3)]})
    write_offset_checkpoint(root / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): 3, ("t", 1): 6})
    return root


def records(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Return topic-partition:offset for each row."""
    return ["{topic}-{partition}:{offset}".format(**row) for batch_ in batches for row in batch_.to_pylist()]


def scripted(follower: LogFollower, *steps: Callable[[], object]) -> list[str]:
    follower._new_watch = lambda _: ScriptedWatch(follower, *steps)  # type: ignore[assignment, return-value]
    return records(follower)


def follow(root: Path, *steps: Callable[[], object], **how: Any) -> list[str]:
    """Follow a log directory through changes. Each is made when the records before it have arrived."""
    return scripted(LogDir(root).follow(columns=COLUMNS, **how), *steps)


class TestPartitions:
    def test_new_records_of_all_topics(self, root: Path) -> None:
        arrived = follow(
            root,
            lambda: append(root / "t-1", 0, batch(6, 1)),
            lambda: (append(root / "t-0", 0, batch(6, 1)), append(root / "t-1", 0, batch(7, 1))),
            lambda: append(root / "__consumer_offsets-0", 0, batch(6, 1)),
        )
        assert arrived == ["t-1:6", "t-0:6", "t-1:7"]

    def test_an_internal_topic_by_the_path_of_its_directory(self, root: Path) -> None:
        path = root / "__consumer_offsets-0"
        assert follow(path, lambda: append(path, 0, batch(6, 1))) == ["__consumer_offsets-0:6"]

    def test_new_partitions_and_topics_are_read_from_their_first_record_on(self, root: Path) -> None:
        arrived = follow(
            root,
            lambda: write_log(root / "t-2", {0: [batch(0, 1)]}),
            lambda: write_log(root / "u-0", {5: []}),
            lambda: (append(root / "u-0", 5, batch(5, 1)), write_log(root / "__new-0", {0: [batch(0, 1)]})),
            lambda: write_log(root / "__transaction_state-0", {0: [batch(0, 1)]}),
        )
        assert arrived == ["t-2:0", "u-0:5", "__new-0:0"]

    @pytest.mark.parametrize("topics", ["t", ["t"], lambda topic, partition: (topic, partition) != ("u", 0)])
    def test_topics_that_are_named(self, root: Path, topics: Any) -> None:
        write_log(root / "u-0", {0: []})
        arrived = follow(
            root,
            lambda: append(root / "u-0", 0, batch(0, 1)),
            lambda: append(root / "t-0", 0, batch(6, 1)),
            topics=topics,
        )
        assert arrived == ["t-0:6"]

    def test_an_internal_topic_that_is_named(self, root: Path) -> None:
        directory = root / "__consumer_offsets-0"
        arrived = follow(root, lambda: append(directory, 0, batch(6, 1)), topics="__consumer_offsets")
        assert arrived == ["__consumer_offsets-0:6"]

    def test_start_offsets(self, root: Path) -> None:
        arrived = follow(root, start_offsets={("t", 0): 5, ("t", 1): 6})
        assert arrived == ["t-0:5"]

    @pytest.mark.parametrize(
        ("how", "error"),
        [
            ({"topics": "unknown"}, UnknownTopicOrPartitionError),
            ({"start_offsets": {("t", 5): 0}}, UnknownTopicOrPartitionError),
            ({"start_offsets": {("t", 0): 7}}, OffsetOutOfRangeError),
            ({"start_offsets": {("t", "0"): 0}}, TypeError),
            ({"topics": 1}, TypeError),
            ({"mdoe": "failFast"}, TypeError),
            ({"isolation_level": "unknown"}, ValueError),
        ],
    )
    def test_invalid_arguments(self, root: Path, how: dict[str, Any], error: type[Exception]) -> None:
        with pytest.raises(error):
            LogDir(root).follow(**how)

    def test_a_partition_that_is_removed(self, root: Path, caplog: pytest.LogCaptureFixture) -> None:
        def remove() -> None:
            (root / "t-0").rename(root / f"t-0.{'a' * 32}-delete")

        steps = (
            lambda: append(root / "t-1", 0, batch(6, 1)),
            lambda: write_log(root / "t-0", {0: [batch(0, 1)]}),
        )
        assert follow(root, remove, *steps, fail_on_data_loss=False) == ["t-1:6", "t-0:0"]
        assert "t-0: the partition was removed after its records up to offset 6" in caplog.text
        shutil.rmtree(root / f"t-0.{'a' * 32}-delete")
        with pytest.raises(UnknownTopicOrPartitionError, match="removed after its records up to offset 1"):
            follow(root, remove)

    def test_one_partition_of_a_log_dir(self, root: Path) -> None:
        log = LogDir(root).partition("t", 0)
        arrived = scripted(
            pickle.loads(pickle.dumps(log)).follow(5, COLUMNS),
            lambda: append(root / "t-1", 0, batch(6, 1)),
            lambda: append(root / "t-0", 0, batch(6, 1)),
        )
        assert arrived == ["t-0:5", "t-0:6"]
        with pytest.raises(UnknownTopicOrPartitionError, match="removed after"):
            scripted(log.follow(), lambda: shutil.rmtree(root / "t-0"))


class TestRunningBroker:
    def test_records_arrive_when_the_high_watermark_is_written(self, root: Path) -> None:
        def checkpoint(offset: int) -> None:
            write_offset_checkpoint(root / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): offset, ("t", 1): 6})

        steps = (
            lambda: append(root / "t-0", 0, batch(6, 1), batch(7, 1)),
            lambda: checkpoint(6),
            lambda: checkpoint(7),
        )
        with held_lock(root):
            log = LogDir(root).partition("t", 0)
            assert scripted(log.follow(columns=COLUMNS), *steps) == ["t-0:3", "t-0:4", "t-0:5", "t-0:6"]
            log = LogDir(root, high_watermark="ignore").partition("t", 0)
            step = lambda: append(root / "t-0", 0, batch(8, 1))  # noqa: E731
            assert scripted(log.follow(columns=COLUMNS), step) == ["t-0:8"]

    def test_a_broker_that_stops(self, root: Path) -> None:
        """Then nothing can be truncated any more, and the rest of the log arrives."""
        with held_lock(root):
            follower = LogDir(root).partition("t", 0).follow(columns=COLUMNS)
        assert scripted(follower, lambda: None) == ["t-0:3", "t-0:4", "t-0:5"]


@pytest.mark.parametrize("waiting", WAITING)
def test_writers_and_new_topics_in_another_thread(
    tmp_path: Path, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both ways to wait, all records of a partition arrive in order."""
    interval = choose(waiting, monkeypatch)
    log_dir = LogDir.create(tmp_path / "logs")
    topics, per_topic = 6, 30
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with LogDir(tmp_path / "logs", allow_empty=True) as writers:
                logs = []
                for number in range(topics):
                    writers.create_topic(f"t{number}")
                    logs.append(writers.partition(f"t{number}", 0))
                    for n in range(per_topic):
                        for log in logs if n == 0 else logs[-1:]:
                            log.append(pa.table({"value": [b"%d" % n]}))
        except BaseException as error:
            failed.append(error)

    expected = sum(per_topic + topics - 1 - topic for topic in range(topics))
    arrived: dict[str, list[int]] = {}
    with log_dir.follow(columns=COLUMNS, poll_interval_ms=interval, timeout_ms=60_000) as follower:
        writer = threading.Thread(target=write)
        writer.start()
        for arrived_batch in follower:
            for row in arrived_batch.to_pylist():
                arrived.setdefault(row["topic"], []).append(row["offset"])
            if sum(map(len, arrived.values())) >= expected:
                follower.stop()
        writer.join()
    assert not failed
    assert arrived == {f"t{topic}": list(range(per_topic + topics - 1 - topic)) for topic in range(topics)}


def test_no_partition_yet(tmp_path: Path) -> None:
    LogDir.create(tmp_path / "logs")
    log_dir = LogDir(tmp_path / "logs", allow_empty=True)
    follower = log_dir.follow(columns=COLUMNS, poll_interval_ms=NEVER_MS)
    assert scripted(follower, lambda: write_log(tmp_path / "logs" / "t-0", {0: [batch(0, 1)]})) == ["t-0:0"]
