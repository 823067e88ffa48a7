"""Read a log while a broker copies its segments to remote storage, and deletes local and remote ones."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from benchmarks.jvm import TIERED_KAFKA
from native_log import LogDir, OffsetOutOfRangeError

from .cluster import Cluster, eventually, run_during

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

READS = int(os.environ.get("KAFKALOG_TIERED_READS", "100"))
MOST_READS = 10 * READS
"""The test goes on until then if the broker, on a busy machine, is slow to delete segments."""
DELETIONS = 5
"""How many times at least the start of the log has to move."""
READS_OF_A_SEGMENT = 4
"""How many reads finish before the broker gets another segment. Without this limit, it outruns the reader."""
SEGMENT_BYTES = 1 << 20
RECORDS = 2000
"""How many records are sent at a time. They fill a segment."""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return tmp_path / "tier"


@pytest.fixture
def broker(class_path: str, tmp_path: Path, tier: Path) -> Iterator[Cluster]:
    settings = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "rsm.config.dir": str(tier),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "50",
    }
    cluster = Cluster(tmp_path / "logs", class_path, TIERED_KAFKA, settings)
    yield cluster
    cluster.stop()


def test_no_record_is_missing_or_repeated_while_segments_move(broker: Cluster, tier: Path) -> None:
    topic = broker.create(
        "moving",
        remote_storage_enable="true",
        segment_bytes=SEGMENT_BYTES,
        local_retention_bytes=2 * SEGMENT_BYTES,
        retention_bytes=6 * SEGMENT_BYTES,
        file_delete_delay_ms=0,
    )
    reads, attempts, next_offset, has_failed = 0, 0, 0, threading.Event()
    starts, ends = [0], [0]

    def send() -> None:
        nonlocal next_offset
        broker.send(topic, RECORDS, first=next_offset, value_bytes=500, plain=True)
        next_offset += RECORDS

    def is_enough() -> bool:
        return reads >= READS and len(set(starts)) > DELETIONS

    def write() -> None:
        while not is_enough() and reads < MOST_READS and not has_failed.is_set():
            send()
            wanted = reads + READS_OF_A_SEGMENT
            eventually(lambda: reads, lambda count, wanted=wanted: count >= wanted or has_failed.is_set())

    def read_safely() -> None:
        try:
            read()
        except BaseException:
            has_failed.set()
            raise

    def read() -> None:
        nonlocal reads, attempts
        attempts += 1
        try:
            log = LogDir(broker.log_dir, remote=tier).partition(topic, 0)
            batches = list(log.read(columns=["offset", "value"]))
        except (FileNotFoundError, OffsetOutOfRangeError) as error:  # the log's first segment was deleted
            print(error)
            return
        reads += 1
        offsets = [offset for batch in batches for offset in batch["offset"].to_pylist()]
        values = [value for batch in batches for value in batch["value"].to_pylist()]
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
        assert [int(value.split(b":")[0]) for value in values] == offsets
        assert offsets[0] >= starts[-1]
        assert offsets[-1] >= ends[-1]
        starts.append(offsets[0])
        ends.append(offsets[-1])

    for _ in range(4):
        send()
    eventually(lambda: list(tier.rglob("*.log")), bool)
    run_during(write, read_safely)
    assert attempts < 2 * reads
    assert len(set(starts)) > DELETIONS, "the broker deleted too few remote segments"
