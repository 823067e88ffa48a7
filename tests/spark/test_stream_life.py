"""A stream reads every record exactly once, even if logs are truncated or replaced, or the query crashes."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from native_log import LogDir, delete_records, retain
from native_log.checkpoints.partition_metadata import PARTITION_METADATA
from native_log.system import current_ms
from tests.effort import examples

from .query_life import CONFIG, QueryLife
from .read_limits import needs_read_limits


@dataclass
class Partition:
    """The expected log of a partition: (leader epoch, values) of each batch, its start and current epoch."""

    batches: list[tuple[int, list[bytes]]] = field(default_factory=list)
    start: int = 0
    epoch: int = 0

    def values(self) -> list[bytes]:
        """Return the values that can be read."""
        return [value for _, values in self.batches for value in values][self.start :]


class StreamLife(QueryLife):
    """Random changes to the logs, and crashes of the query that reads them."""

    @initialize(
        limits=st.sampled_from([{}, {"maxOffsetsPerTrigger": "3"}, {"maxBytesPerTrigger": "500"}]),
        partitions=st.integers(1, 2),
    )
    def begin(self, limits: dict[str, str], partitions: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "logs"
        self.begun_ms = current_ms()
        options = {
            "path": str(self.path),
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "offsetStateLocation": str(self.folder / "state"),
            **limits,
        }
        self.model: dict[tuple[str, int], Partition] = {}
        self.names = (f"topic{number}" for number in count())
        self.unused = (b"%d" % number for number in count())
        LogDir.create(self.path).close()
        self.create(partitions)
        self.start_query(options)

    def teardown(self) -> None:
        if not hasattr(self, "query"):
            return
        self.read_rest()
        expected = {value for partition in self.model.values() for value in partition.values()}
        shutil.rmtree(self.folder)
        assert not self.repeated()
        assert expected <= self.seen.keys()

    def write(self, key: tuple[str, int], number: int) -> None:
        partition, values = self.model[key], list(islice(self.unused, number))
        self.append(key, partition.epoch, values)
        partition.batches.append((partition.epoch, values))

    def append(self, key: tuple[str, int], epoch: int, values: list[bytes]) -> None:
        """Append a batch. All replicas have the same bytes, so the times depend on the values alone."""
        times = [self.begun_ms + int(value) for value in values]
        with LogDir(self.path) as log_dir:
            records = pa.record_batch({"value": values, "timestamp": times})
            log_dir.partition(*key, config=CONFIG).append(records, leader_epoch=epoch)

    def choose(self, index: int) -> tuple[str, int]:
        return sorted(self.model)[index % len(self.model)]

    # What happens to the logs.

    @rule(partitions=st.integers(1, 2))
    def create(self, partitions: int) -> None:
        if len({topic for topic, _ in self.model}) < 3:
            topic = next(self.names)
            with LogDir(self.path, allow_empty=True) as log_dir:
                log_dir.create_topic(topic, partitions)
            self.model |= {(topic, number): Partition() for number in range(partitions)}

    @rule(index=st.integers(0, 5), number=st.integers(1, 6))
    def append_records(self, index: int, number: int) -> None:
        self.write(self.choose(index), number)

    @rule(index=st.integers(0, 5), number=st.integers(1, 8))
    def delete_some(self, index: int, number: int) -> None:
        key = self.choose(index)
        partition = self.model[key]
        partition.start += len(partition.values()[:number])
        delete_records(self.path, {key: partition.start})
        retain(self.path)

    @rule(index=st.integers(0, 5))
    def create_again(self, index: int) -> None:
        topic, _ = self.choose(index)
        partitions = [key for key in self.model if key[0] == topic]
        self.remove(partitions)
        with LogDir(self.path, allow_empty=True) as log_dir:
            log_dir.create_topic(topic, len(partitions))
        self.model |= {key: Partition() for key in partitions}

    @rule(index=st.integers(0, 5), cut=st.integers(1, 3))
    def replace_last_batches(self, index: int, cut: int) -> None:
        """A replica without the last batches becomes the leader and receives new ones."""
        key = self.choose(index)
        partition = self.model[key]
        left = partition.batches[:-cut]
        if sum(len(values) for _, values in left) < partition.start:
            return
        topic_id = (self.path / "{}-{}".format(*key) / PARTITION_METADATA).read_bytes()
        self.remove([key])
        directory = self.path / "{}-{}".format(*key)
        directory.mkdir()
        (directory / PARTITION_METADATA).write_bytes(topic_id)
        for epoch, values in left:
            self.append(key, epoch, values)
        self.model[key] = Partition(left, partition.start, partition.epoch + 1)
        if partition.start:
            delete_records(self.path, {key: partition.start})
        self.write(key, 1)

    def remove(self, partitions: list[tuple[str, int]]) -> None:
        """Remove the directories of partitions, and their entries in the checkpoint files."""
        for key in partitions:
            shutil.rmtree(self.path / "{}-{}".format(*key))
        removed = {"{} {}".format(*key) for key in partitions}
        for file in self.path.glob("*-checkpoint"):
            version, _, *lines = file.read_text().splitlines()
            kept = [line for line in lines if line.rpartition(" ")[0] not in removed]
            file.write_text("\n".join([version, str(len(kept)), *kept, ""]))

    # What happens to the query.

    @rule()
    def trigger(self) -> None:
        self.run_trigger()

    @rule(lost=st.sampled_from(["nothing", "plan", "rows"]))
    def restart(self, lost: str) -> None:
        """Stop the query between micro-batches, before it plans one, or before it commits one."""
        if lost == "plan":
            self.query.log_offsets()
        elif lost == "rows":
            self.query.plan()
        self.start_again()


TestStreamLife = needs_read_limits(StreamLife.TestCase)
TestStreamLife.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)
