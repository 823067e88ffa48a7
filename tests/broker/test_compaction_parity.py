"""Compacting random logs with kafkalog and copies of them with a broker gives the same logs.

The steps: A broker creates the topics and stops. kafkalog writes logs, copies them, and compacts the
originals. A broker compacts the copies. All this is done twice, the second time with more records.
"""

from __future__ import annotations

import random
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from native_log import LogDir, compact
from native_log.checkpoints.offset_checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from native_log.records import scan
from tests.builders.batches import ABORT, COMMIT, marker

from .cluster import Cluster, eventually
from .written_log import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from native_log.log import PartitionLog

pytestmark = pytest.mark.broker

NOW = time.time_ns() // 1_000_000 - 3_600_000
TOPICS = [f"random-{seed}" for seed in range(8)]
CODECS = ["none", "none", "gzip", "snappy", "lz4", "zstd"]
COMPACTION = {"min.cleanable.dirty.ratio": 0.001, "segment.bytes": 2**20, "index.interval.bytes": 2000}
LOGS = {"segment.bytes": 30_000, "index.interval.bytes": 2000}


def twin(topic: str) -> str:
    return f"{topic}-by-the-broker"


def random_records(rnd: random.Random, count: int, keys: int, value_bytes: int) -> pa.RecordBatch:
    rows = range(count)
    return pa.record_batch(
        {
            "key": [b"k%d" % rnd.randrange(keys) for _ in rows],
            "value": pa.array(
                [None if rnd.random() < 0.15 else rnd.randbytes(value_bytes) for _ in rows], pa.binary()
            ),
            "timestamp": [NOW + rnd.randrange(1000) for _ in rows],
            "headers": pa.array(
                [None if rnd.random() < 0.7 else [{"key": "h", "value": b"x"}] for _ in rows], HEADERS
            ),
        }
    )


def write(log: PartitionLog, rnd: random.Random, first_id: int) -> None:
    """Write records without a producer, of idempotent producers, and of transactions. Most of these end.

    Args:
        first_id: the first of 10 producer ids that have not been used yet.
    """
    keys, value_bytes = rnd.choice([5, 50, 400]), rnd.choice([0, 60, 1000])
    sequences: dict[int, int] = {}
    is_open: set[int] = set()

    def append(producer_id: int | None = None, **options: Any) -> None:
        count = rnd.randrange(1, 25)
        if producer_id is not None:
            options |= {"producer_id": producer_id, "base_sequence": sequences.get(producer_id, 0)}
            options["producer_epoch"] = 0
            sequences[producer_id] = options["base_sequence"] + count
        batch_size = rnd.choice([300, 2000, 9000])
        log.append(random_records(rnd, count, keys, value_bytes), batch_size=batch_size, **options)

    def end(producer_id: int) -> None:
        is_open.discard(producer_id)
        kind = rnd.choice([COMMIT, ABORT])
        log.append_batches(marker(0, producer_id, kind, timestamp=NOW), origin="coordinator")

    for _ in range(rnd.choice([60, 120])):
        match rnd.choice(["plain", "idempotent", "transaction", "transaction", "end", "empty"]):
            case "plain":
                append(compression=rnd.choice(CODECS))
            case "idempotent":
                append(first_id + rnd.randrange(3))
            case "transaction":
                is_open.add(producer_id := first_id + 5 + rnd.randrange(4))
                append(producer_id, is_transactional=True)
            case "end" if is_open:
                end(rnd.choice(sorted(is_open)))
            case "empty" if idle := [
                number for number in sequences if number >= first_id + 5 and number not in is_open
            ]:
                end(rnd.choice(idle))
    for producer_id in sorted(is_open):
        if rnd.random() < 0.9:
            end(producer_id)


def copy(log_dir: Path, topic: str) -> None:
    """Replace the log of the topic's twin by a copy of the topic's log."""
    target = log_dir / f"{twin(topic)}-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (log_dir / f"{topic}-0").iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, target)
    for name in (RECOVERY_POINT_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT):
        saved = read_offset_checkpoint(log_dir / name)
        if (topic, 0) in saved:
            write_offset_checkpoint(log_dir / name, saved | {(twin(topic), 0): saved[topic, 0]})


def contents(log_dir: Path, topic: str) -> dict[str, Any]:
    """Return batches and transaction indexes, without values that depend on the compressor or the time."""
    content: dict[str, Any] = {
        path.name: path.read_bytes() for path in (log_dir / f"{topic}-0").glob("*.txnindex")
    }
    for path in (log_dir / f"{topic}-0").glob("*.log"):
        content[path.name] = scan(path.read_bytes(), check_crcs=True).batches.to_pylist()
        for batch in content[path.name]:
            assert batch["isValid"]
            has_horizon = batch["deleteHorizonMs"] is not None
            batch["deleteHorizonMs"] = has_horizon
            differing = ["position", "crc"] + ["baseTimestamp"] * has_horizon
            for name in differing + ["sizeInBytes"] * (batch["compression"] != "none"):
                del batch[name]
    return content


def first_dirty_offsets(log_dir: Path, topics: list[str]) -> dict[str, int | None]:
    saved = read_offset_checkpoint(log_dir / CLEANER_OFFSET_CHECKPOINT)
    return {topic: saved.get((topic, 0)) for topic in topics}


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("alike") / "logs", class_path)
    for topic in (*TOPICS, *map(twin, TOPICS)):
        cluster.create(
            topic,
            cleanup_policy="compact",
            segment_bytes=2**20,
            index_interval_bytes=2000,
            min_cleanable_dirty_ratio=1,
        )
    cluster.stop()
    yield cluster
    cluster.stop()


def test_a_brokers_cleaner_leaves_the_same_batches(broker: Cluster) -> None:
    rounds = 0
    for turn in range(2):
        with LogDir(broker.log_dir) as logs:
            for seed, topic in enumerate(TOPICS):
                with logs.partition(topic, 0, config=LOGS) as log:
                    write(log, random.Random(100 * turn + seed), 10 * turn)
        for topic in TOPICS:
            copy(broker.log_dir, topic)
        report = compact(broker.log_dir, TOPICS, COMPACTION).to_pylist()
        ends = {twin(row["topic"]): row["endOffset"] for row in report if row["status"] == "cleaned"}
        for topic in TOPICS:
            broker.alter(twin(topic), min_cleanable_dirty_ratio=0.001)

        eventually(partial(first_dirty_offsets, broker.log_dir, list(ends)), ends.__eq__)
        for topic in TOPICS:
            broker.alter(twin(topic), min_cleanable_dirty_ratio=1)
        broker.stop()
        for topic in TOPICS:
            assert contents(broker.log_dir, topic) == contents(broker.log_dir, twin(topic)), topic
        rounds += len(ends)
    assert rounds > len(TOPICS)
