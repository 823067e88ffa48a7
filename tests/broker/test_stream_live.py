"""A stream reads the directory of a running broker, which appends, rolls, deletes and compacts."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from typing import TYPE_CHECKING

import pyspark
import pytest

from kafkalog_spark.errors import DataLossError
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, read_offset_checkpoint
from tests.spark.stream_query import Checkpoint, StreamQuery

from .cluster import Cluster, eventually, run_during

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        pyspark.__version__.startswith(("4.0.", "4.1.")), reason="Spark has no read limits before 4.2"
    ),
]

Key = tuple[str, int]
"""Topic and partition."""


class Stream:
    """A query that reads a broker's directory from the earliest offsets.

    Attributes:
        read: the offsets that it has read of each partition, in order.
        triggers: the number of micro-batches.
    """

    def __init__(self, cluster: Cluster, topics: str, **options: str) -> None:
        self.options = {
            "path": str(cluster.log_dir),
            "subscribePattern": topics,
            "startingOffsets": "earliest",
            **options,
        }
        self.read: dict[Key, list[int]] = defaultdict(list)
        self.triggers = 0
        self._high_watermarks = cluster.log_dir / REPLICATION_OFFSET_CHECKPOINT
        self._query = StreamQuery(**self.options)

    def trigger(self) -> bool:
        """Run one trigger, and check that it reads nothing twice and nothing above the high watermark.

        Return whether there was something new.
        """
        batch = self._query.trigger()
        if batch is None:
            return False
        self.triggers += 1
        high_watermarks = read_offset_checkpoint(self._high_watermarks)
        for topic, ends in json.loads(batch.end).items():
            for partition, end in ends.items():
                assert end <= high_watermarks.get((topic, int(partition)), 0)
        for key, offsets in batch.rows.items():
            before = self.read[key][-1:]
            assert before + offsets == sorted({*before, *offsets}), "a record is read twice, or out of order"
            self.read[key] += offsets
        return True

    def drain(self) -> None:
        """Run triggers until there is nothing new."""
        while self.trigger():
            pass

    def drain_up_to(self, topic: str, end: int, partition: int = 0) -> None:
        """Run triggers until the end of a partition is read."""
        eventually(
            lambda: (self.drain(), self.position(topic, partition))[1], lambda position: position == end
        )

    def position(self, topic: str, partition: int = 0) -> int | None:
        """Return the next offset to read of a partition; None if it is not known yet."""
        offsets = self._query.checkpoint.offsets
        known = json.loads(offsets[-1]).get(topic, {}) if offsets else {}
        return known.get(str(partition))

    def with_options(self, **options: str) -> StreamQuery:
        """Return a query that continues here, as if it were restarted with other options."""
        known = self._query.checkpoint
        return StreamQuery(Checkpoint(list(known.offsets), known.commits), **{**self.options, **options})


def consumed(cluster: Cluster, topic: str, isolation_level: str = "read_uncommitted") -> list[int]:
    return [row.offset for row in cluster.consume(topic, isolation_level).rows]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_a_log_that_grows_and_rolls(cluster: Cluster, isolation_level: str) -> None:
    topic = cluster.create(f"stream-{isolation_level}", segment_ms=100)
    stream = Stream(cluster, topic, **{"kafka.isolation.level": isolation_level})

    def work() -> None:
        for number, end in enumerate(["commit", "abort", "open", "commit", "abort", "commit"]):
            triggers = stream.triggers
            cluster.send(topic, 800, first=number * 1000, transactional_id="s", end=end)
            cluster.send(topic, 200, first=number * 1000 + 800)
            if end != "open":
                # On a busy machine, the broker may be much faster than the stream.
                eventually(lambda: stream.triggers, lambda now, before=triggers: now > before)

    run_during(work, stream.trigger)
    assert stream.triggers > 3, "the log never grew while it was read"
    stream.drain_up_to(topic, cluster.consume(topic).end)
    assert stream.read[topic, 0] == consumed(cluster, topic, isolation_level)
    assert len(cluster.log(topic).segments) > 3


def test_records_that_are_deleted_after_they_were_read(cluster: Cluster) -> None:
    topic = cluster.create("stream-deleted", segment_ms=200, file_delete_delay_ms=0)
    stream = Stream(cluster, topic)

    def work() -> None:
        for number in range(20):
            cluster.send(topic, 300, first=number * 300)
            cluster.delete_records(topic, stream.position(topic) or 0)

    run_during(work, stream.trigger)
    assert cluster.consume(topic).start > 0
    stream.drain_up_to(topic, 6000)
    assert stream.read[topic, 0] == list(range(6000))


def test_a_log_that_is_compacted(cluster: Cluster) -> None:
    topic = cluster.create(
        "stream-compacted",
        cleanup_policy="compact",
        segment_ms=500,
        min_cleanable_dirty_ratio=0.01,
        file_delete_delay_ms=0,
    )
    stream = Stream(cluster, topic, maxOffsetsPerTrigger="700")

    def work() -> None:
        for number in range(10):
            cluster.send(topic, 1000, first=number * 1000, keys=100, plain=True)
        eventually(lambda: len(consumed(cluster, topic)), lambda count: count < 5000)

    run_during(work, stream.trigger)
    stream.drain_up_to(topic, 10_000)
    # Compaction removes records that have a later value. What it has left, the stream has read.
    assert set(stream.read[topic, 0]) >= set(consumed(cluster, topic))
    assert {offset % 100 for offset in stream.read[topic, 0]} == set(range(100))


def test_new_partitions_and_topics_are_read_from_the_earliest_offset(cluster: Cluster) -> None:
    topic, later = cluster.create("stream-new"), "stream-new-later"
    cluster.send(topic, 100)
    cluster.log_up_to(topic, 100)
    stream = Stream(cluster, "stream-new.*", startingOffsets="latest")
    stream.drain()
    assert stream.read == {}
    cluster.create_partitions(topic, 2)
    cluster.create(later)
    eventually(lambda: cluster.log_dir / f"{topic}-1", lambda path: path.exists())
    for name, partition in [(topic, 0), (topic, 1), (later, 0)]:
        cluster.send(name, 10, partition=partition)
        stream.drain_up_to(name, 110 if (name, partition) == (topic, 0) else 10, partition)
    assert stream.read == {
        (topic, 0): list(range(100, 110)),
        (topic, 1): list(range(10)),
        (later, 0): list(range(10)),
    }


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_topic_that_is_deleted_and_created_again(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, restart: bool
) -> None:
    topic = cluster.create(f"stream-recreated-{restart}")
    cluster.send(topic, 50)
    failing = Stream(cluster, topic, offsetStateLocation=str(tmp_path / "state"))
    failing.drain_up_to(topic, 50)
    lenient = Stream(cluster, topic, failOnDataLoss="false")
    lenient.drain_up_to(topic, 50)
    cluster.delete(topic)
    eventually(lambda: cluster.log_dir / f"{topic}-0", lambda path: not path.exists())
    cluster.create(topic)
    cluster.send(topic, 80)  # The log is longer than the old one.
    cluster.log_up_to(topic, 80)
    with pytest.raises(DataLossError, match=rf"created again.* of {topic}-0 from offset 0 to 50"):
        (failing.with_options() if restart else failing).trigger()
    lenient.read.clear()
    lenient.drain_up_to(topic, 80)
    assert lenient.read == {(topic, 0): list(range(80))}
    assert any("created again" in message for message in warnings(caplog))


def test_retention_that_overtakes_a_slow_stream(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = cluster.create("stream-slow", segment_ms=100, file_delete_delay_ms=0)
    cluster.send(topic, 1000)
    cluster.log_up_to(topic, 1000)
    stream = Stream(cluster, topic, maxOffsetsPerTrigger="100")
    stream.trigger()
    cluster.delete_records(topic, 450)
    eventually(lambda: cluster.log(topic).log_start_offset, lambda start: start == 450)
    lenient = stream.with_options(failOnDataLoss="false", maxOffsetsPerTrigger="1000")
    with pytest.raises(DataLossError, match=rf"expected offsets \[100, 200\) of {topic}-0, .* holds \[450,"):
        stream.trigger()
    batch = lenient.trigger()
    assert batch is not None
    assert batch.rows == {(topic, 0): list(range(450, 1000))}
    assert any(f"[100, 1000) of {topic}-0" in message for message in warnings(caplog))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
