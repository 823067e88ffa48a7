"""The replicas of a cluster that was killed have, merged, all records that a consumer read before."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log import LogDir
from native_log.log.sources.joined import JoinedSource

from .replicated import ReplicatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.broker

TOPIC = "t"
PARTITIONS = 3
Record = tuple[int, int, bytes, bytes]
"""Partition, offset, key and value."""


class Producer(threading.Thread):
    """Send numbered records until it is stopped. `acknowledged` has those that all in-sync replicas have."""

    def __init__(self, bootstrap: Iterable[str]) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[Record] = []
        self._servers = list(bootstrap)
        self._is_stopped = threading.Event()

    def run(self) -> None:
        import kafka
        from kafka.errors import KafkaTimeoutError

        producer = kafka.KafkaProducer(
            bootstrap_servers=self._servers,
            acks="all",
            linger_ms=2,
            request_timeout_ms=2000,
            delivery_timeout_ms=3000,  # so that what was not sent is dropped when all brokers are killed
            enable_idempotence=False,
        )
        number = 0
        while not self._is_stopped.is_set():
            key, value = str(number % 7).encode(), f"value {number}".encode() * 10
            sent = producer.send(TOPIC, key=key, value=value, partition=number % PARTITIONS)
            sent.add_callback(self._note, key, value)
            number += 1
            if number % 50 == 0:
                self._is_stopped.wait(0.01)
        with suppress(KafkaTimeoutError):
            producer.flush(timeout=10)
        producer.close(timeout=10)

    def _note(self, key: bytes, value: bytes, metadata: Any) -> None:
        self.acknowledged.append((metadata.partition, metadata.offset, key, value))

    def stop(self) -> None:
        self._is_stopped.set()
        self.join(timeout=30)


def create_topic(bootstrap: str) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    settings = {"min.insync.replicas": "2", "segment.bytes": str(1 << 20)}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, topic_configs=settings)])
    admin.close()


def consume(consumer: Any, records: list[Record], count: int) -> None:
    """Read until `records` has `count` records more."""
    end = len(records) + count
    while len(records) < end:
        for batch in consumer.poll(timeout_ms=500).values():
            records += ((r.partition, r.offset, r.key, r.value) for r in batch)


def merged_rows(log_dir: LogDir, partition: int) -> list[Record]:
    log = log_dir.partition(TOPIC, partition)
    assert isinstance(log.state.source, JoinedSource)
    table = log.read(columns=["partition", "offset", "key", "value"]).read_all()
    return [tuple(row.values()) for row in table.to_pylist()]  # type: ignore[misc]


def test_merged_replicas_have_what_a_consumer_read_before_the_cluster_was_killed(
    class_path: str, tmp_path: Path
) -> None:
    import kafka

    consumed: list[Record] = []
    with ReplicatedCluster(tmp_path) as cluster:
        create_topic(cluster.bootstrap[1])
        producer = Producer(cluster.bootstrap.values())
        producer.start()
        consumer = kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=list(cluster.bootstrap.values()),
            auto_offset_reset="earliest",
            group_id=None,
        )
        consume(consumer, consumed, 3000)
        cluster.nodes[1].kill()  # its partitions get new leaders
        consume(consumer, consumed, 3000)
        consumer.close(autocommit=False)
        for node in (3, 2):
            cluster.nodes[node].kill()
        producer.stop()
    paths = [broker.log_dir for broker in cluster.nodes.values()]
    log_dir = LogDir(paths, replicas="merge")
    merged = [row for partition in range(PARTITIONS) for row in merged_rows(log_dir, partition)]
    by_place = {(partition, offset): (key, value) for partition, offset, key, value in merged}
    assert len(by_place) == len(merged)
    for partition in range(PARTITIONS):
        read = [record for record in consumed if record[0] == partition]
        assert read
        assert merged_rows(log_dir, partition)[: len(read)] == read
    for partition, offset, key, value in producer.acknowledged:
        assert by_place[partition, offset] == (key, value)
    leaders = {entry.epoch for p in range(PARTITIONS) for entry in log_dir.partition(TOPIC, p).leader_epochs}
    assert len(leaders) > 1
    differences = native_log.diff(paths, topics=TOPIC).read_all().to_pylist()
    assert {row["kind"] for row in differences} <= {
        *("log-end-offset", "high-watermark", "leader-epochs", "log-start-offset"),
    }
    assert any(row["kind"] == "log-end-offset" and "node-1" in row["path"] for row in differences)
