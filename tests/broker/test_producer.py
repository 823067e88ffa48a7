"""Our producer fills, chooses and drains batches as Kafka's does, and a broker serves what it wrote."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.jvm import Jvm, compile_java
from native_log import LogDir
from native_log.producer import KafkaLogProducer
from native_log.producer.accumulator import NO_DEADLINE
from native_log.producer.partitioners import BuiltInPartitioner
from native_log.producer.record import SerializedRecord
from native_log.producer.record_size import BATCH_OVERHEAD
from tests.producer.support import Pipeline

from .cluster import Cluster
from .conftest import HERE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def java(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    compiled_path = compile_java([HERE / "Accumulator.java"], tmp_path_factory.mktemp("classes"))
    main = "org.apache.kafka.clients.producer.internals.Accumulator"
    with Jvm(compiled_path, main, options=["-Xmx256m"]) as jvm:
        yield jvm


class InOrder(BuiltInPartitioner):
    """A partitioner that numbers the partitions as a Cluster of Kafka does."""

    order: list[int]

    def _next(self) -> int:
        chosen = super()._next()
        return self.order[chosen] if self._weights is None else chosen


class Ours:
    """Our accumulator, driven by the same steps."""

    def __init__(self, request: dict[str, Any], order: list[int]) -> None:
        names = ("linger_ms", "batch_size", "delivery_timeout_ms")
        settings: dict[str, Any] = {name: request[name] for name in names}
        settings |= {"compression_type": request["compression"], "request_timeout_ms": 0}
        self.pipeline = Pipeline(request["partitions"], idempotent=False, **settings)
        self.pipeline.draws = list(request["draws"])
        self.pipeline.accumulator.ratios.reset("t", request["ratio"])
        partitioner = InOrder(request["batch_size"], request["partitions"], self.pipeline.draw)
        partitioner.order = order
        self.pipeline.topic.partitioner = partitioner

    def run(self, steps: list[list[Any]]) -> list[list[Any]]:
        return [getattr(self, name)(*arguments) for name, *arguments in steps]

    def append(self, partition: int, value_bytes: int, key_bytes: int) -> list[Any]:
        pipeline = self.pipeline
        key, now_ms = None if key_bytes < 0 else bytes(key_bytes), pipeline.clock.now
        record = SerializedRecord(bytes(value_bytes), key, None, now_ms)
        future, _ = pipeline.accumulator.append(pipeline.topic, partition, record, 0)
        assert future is not None
        return [future.batch.result.partition, future.index == 0]

    def advance(self, ms: int) -> list[Any]:
        self.pipeline.clock.now += ms
        return []

    def flush(self) -> list[Any]:
        self.pipeline.accumulator.begin_flush()
        return []

    def ready(self) -> list[Any]:
        readiness = self.pipeline.accumulator.ready(self.pipeline.clock.now)
        return [bool(readiness.nodes), readiness.next_check_ms]

    def expired(self) -> list[Any]:
        batches, _ = self.pipeline.accumulator.expired(self.pipeline.clock.now)
        return [[batch.target.partition, batch.record_count] for batch in batches]

    def drain(self, max_bytes: int) -> list[Any]:
        batches = self.pipeline.accumulator.drain(["d"], max_bytes, self.pipeline.clock.now)["d"]
        return [
            [batch.target.partition, batch.record_count, BATCH_OVERHEAD + batch.builder.plain_bytes]
            for batch in batches
        ]


def steps(chance: random.Random, partitions: int, sizes: list[int], count: int) -> list[list[Any]]:
    """Return random appends, readiness checks and moves of the clock."""
    made: list[list[Any]] = []
    for _ in range(count):
        kind = chance.random()
        if kind < 0.8:
            partition = chance.choice([-1, -1, chance.randrange(partitions)])
            made.append(["append", partition, chance.choice(sizes), chance.choice([-1, -1, 0, 8])])
        elif kind < 0.9:
            made.append(["ready"])
        else:
            made.append(["advance", chance.choice([0, 1, 3, 10])])
    return made


@pytest.mark.parametrize("seed", range(40))
def test_batches_partitions_and_readiness(java: Jvm, seed: int) -> None:
    chance = random.Random(seed)
    partitions = chance.choice([1, 2, 3, 7])
    request: dict[str, Any] = {
        "partitions": partitions,
        "batch_size": chance.choice([1, 200, 1000, 16384]),
        "linger_ms": chance.choice([0, 5, 100]),
        "delivery_timeout_ms": 200,
        "compression": chance.choice(["none", "none", "lz4"]),
        "ratio": chance.choice([1.0, 0.5, 0.123]),
        "draws": [chance.randrange(2**31) for _ in range(2000)],
    }
    made = steps(chance, partitions, chance.choice([[0, 5, 90], [100], [10, 2000, 63, 64]]), 600)
    made += chance.choice([[], [["flush"], ["ready"]]])
    made += [["advance", 100], ["expired"], ["advance", 100], ["expired"], ["ready"]]
    order, *theirs = json.loads(java.ask(json.dumps(request | {"steps": [["order"], *made]})))
    ours = Ours(request, order).run(made)
    never = [[False, NO_DEADLINE], [True, NO_DEADLINE]]
    assert any(answer not in never for answer in ours)
    for number, (step, mine, expected) in enumerate(zip(made, ours, theirs, strict=True)):
        if step[0] == "ready" and mine[0] and expected[0]:
            continue  # the time of the next check counts if nothing is ready
        if step[0] == "expired":
            mine, expected = sorted(mine), sorted(expected)
        assert mine == expected, f"step {number}: {step}"


@pytest.mark.parametrize("seed", range(10))
def test_drained_batches(java: Jvm, seed: int) -> None:
    """Kafka drains one batch of each partition at a time, we drain as many as a request may have."""
    chance = random.Random(seed)
    request: dict[str, Any] = {
        "partitions": 3,
        "batch_size": 300,
        "linger_ms": 0,
        "delivery_timeout_ms": 10_000,
        "compression": "none",
        "ratio": 1.0,
        "draws": [chance.randrange(2**31) for _ in range(2000)],
    }
    made = steps(chance, 3, [0, 50, 400], 200)
    drains = [["drain", 10**6]] * 100
    order, *theirs = json.loads(java.ask(json.dumps(request | {"steps": [["order"], *made, *drains]})))
    theirs, ours = theirs[-100:], Ours(request, order).run(made + drains)[-100:]
    for partition in range(3):
        mine, expected = (
            [batch for answer in answers for batch in answer if batch[0] == partition]
            for answers in (ours, theirs)
        )
        assert mine == expected
        assert expected


LEVELS = ["read_uncommitted", "read_committed"]


def test_a_broker_serves_what_the_producer_wrote(class_path: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "logs", class_path)
    try:
        for topic in ("plain", "transactions"):
            cluster.create(topic)
        cluster.send("plain", 10)
        cluster.stop()
        write(tmp_path / "logs")
        for topic in ("plain", "transactions"):
            log = LogDir(tmp_path / "logs").partition(topic, 0)
            for level in LEVELS:
                expected = log.read(columns=["offset", "value"], isolation_level=level).read_all()  # type: ignore[arg-type]
                rows = cluster.consume(topic, level).rows
                assert [(row.offset, row.value) for row in rows] == list(
                    zip(*expected.to_pydict().values(), strict=True)
                )
                assert rows
        uncommitted, committed = (cluster.consume("transactions", level) for level in LEVELS)
        assert len(uncommitted.rows) > len(committed.rows)
        assert cluster.log_problems() == []
        cluster.send("transactions", 20, transactional_id="x", end="commit")
        assert len(cluster.consume("transactions", "read_committed").rows) == len(committed.rows) + 20
    finally:
        cluster.stop()
    with KafkaLogProducer(tmp_path / "logs") as producer:
        assert producer.send("plain", b"after the broker").get(30).offset == 2010


def write(path: Path) -> None:
    with KafkaLogProducer(path, batch_size=1000, compression_type="lz4") as producer:
        for number in range(2000):
            producer.send("plain", b"%d" % number * 10, key=b"k", headers=[("n", b"%d" % number)])
    now_ms = time.time_ns() // 1_000_000
    for round_number in range(2):
        with KafkaLogProducer(path, transactional_id="x", batch_size=500) as producer:
            producer.init_transactions()
            for number in range(9):
                producer.begin_transaction()
                for record in range(30):
                    producer.send(
                        "transactions", b"%d %d %d" % (round_number, number, record), timestamp_ms=now_ms
                    )
                producer.flush()
                (producer.abort_transaction if number % 3 else producer.commit_transaction)()
