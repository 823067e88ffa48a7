"""When batches are ready, and what is drained."""

from __future__ import annotations

from typing import Any

import pytest

from native_log.errors import BufferExhaustedError, ProducerClosedError
from native_log.producer.accumulator import NO_DEADLINE
from native_log.producer.block import RecordBlock
from native_log.producer.record import SerializedRecord
from native_log.producer.topic_queues import NO_BATCH, UNKNOWN_PARTITION

from .support import Pipeline

LINGER: dict[str, Any] = {"linger_ms": 10, "batch_size": 200}


def ready(pipeline: Pipeline) -> tuple[bool, int]:
    readiness = pipeline.accumulator.ready(pipeline.clock.now)
    return bool(readiness.nodes), readiness.next_check_ms


def fill(pipeline: Pipeline, partition: int = 0, batches: int = 1) -> None:
    """Append records that fill batches of 200 bytes exactly: 61 bytes, 18 records of 7, and one of 13."""
    for _ in range(batches):
        for _ in range(18):
            pipeline.append(b"", partition)
        pipeline.append(b"123456", partition)


def test_batches_are_filled_exactly() -> None:
    pipeline = Pipeline(**LINGER)
    fill(pipeline, batches=3)
    assert [batch.estimated_bytes for batch in pipeline.topic.queues[0]] == [200, 200, 200]


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        ("nothing", (False, NO_DEADLINE)),
        ("one record", (False, 10)),
        ("4 ms later", (False, 6)),
        ("linger expired", (True, NO_DEADLINE)),
        ("full batch", (True, NO_DEADLINE)),
        ("two batches", (True, NO_DEADLINE)),
        ("large record", (True, NO_DEADLINE)),
        ("flush", (True, NO_DEADLINE)),
        ("end of a flush", (False, 10)),
        ("end of a transaction", (True, NO_DEADLINE)),
        ("close", (True, NO_DEADLINE)),
        ("muted", (False, NO_DEADLINE)),
        ("unmuted", (True, NO_DEADLINE)),
        ("backing off", (False, 100)),
        ("after the backoff", (True, NO_DEADLINE)),
    ],
)
def test_readiness(prepare: str, expected: tuple[bool, int]) -> None:
    pipeline = Pipeline(**LINGER)
    accumulator, (target,) = pipeline.accumulator, pipeline.topic.targets
    if prepare != "nothing":
        pipeline.append(b"")
    if prepare == "4 ms later":
        pipeline.clock.now += 4
    elif prepare == "linger expired":
        pipeline.clock.now += 10
    elif prepare == "full batch":
        for _ in range(17):
            pipeline.append(b"")
        assert not ready(pipeline)[0]
        pipeline.append(b"123456")
        assert len(pipeline.topic.queues[0]) == 1
    elif prepare == "two batches":
        fill(pipeline)
    elif prepare == "large record":
        pipeline.append(b"v" * 300)
    elif prepare in ("flush", "end of a flush"):
        accumulator.begin_flush()
        if prepare == "end of a flush":
            accumulator.end_flush()
    elif prepare == "end of a transaction":
        accumulator.is_completing = True
    elif prepare == "close":
        accumulator.close()
    elif prepare in ("muted", "unmuted"):
        pipeline.clock.now += 10
        accumulator.mute(target)
        if prepare == "unmuted":
            accumulator.unmute(target)
    elif prepare in ("backing off", "after the backoff"):
        accumulator.begin_flush()  # does not end the backoff
        (batch,) = accumulator.drain(["d"], 10**6, pipeline.clock.now)["d"]
        accumulator.requeue(batch, pipeline.clock.now)
        pipeline.clock.now += 100 if prepare == "after the backoff" else 0
    assert ready(pipeline) == expected


def test_a_full_pool_makes_all_batches_ready() -> None:
    pipeline = Pipeline(2, **LINGER, buffer_memory=400)
    pipeline.append(b"", 0)
    pipeline.append(b"", 1)
    seen = []
    pipeline.clock.while_waiting.append(lambda: seen.append(pipeline.accumulator.pool.queued))
    pipeline.clock.while_waiting.append(lambda: None)
    with pytest.raises(BufferExhaustedError):
        pipeline.append(b"v" * 200, 0)
    assert seen == [1]


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (10**6, [[0, 1, 2, 0, 2, 2]]),
        (0, [[0], [1], [2], [0], [2], [2]]),
        (400, [[0, 1], [2, 0], [2, 2]]),
        (599, [[0, 1], [2, 0], [2, 2]]),
    ],
)
def test_the_partitions_of_a_node_take_turns(max_bytes: int, expected: list[list[int]]) -> None:
    pipeline = Pipeline(3, **LINGER)
    for partition, count in enumerate([2, 1, 3]):
        fill(pipeline, partition, count)
    drained = []
    while batches := pipeline.accumulator.drain(["d"], max_bytes, 0)["d"]:
        drained.append([batch.target.partition for batch in batches])
    assert drained == expected
    sequences: dict[int, list[int]] = {}
    for batch in pipeline.accumulator.incomplete:
        sequences.setdefault(batch.target.partition, []).append(batch.base_sequence)
    assert sequences == {0: [0, 19], 1: [0], 2: [0, 19, 38]}


def test_drained_batches_take_no_more_records() -> None:
    pipeline = Pipeline(**LINGER)
    pipeline.append(b"")
    pipeline.accumulator.drain(["d"], 10**6, 0)
    pipeline.append(b"")
    assert len(pipeline.topic.queues[0]) == 1
    assert len(pipeline.accumulator.incomplete) == 2


def test_a_batch_size_of_0_means_one_record_per_batch() -> None:
    pipeline = Pipeline(batch_size=0)
    for _ in range(3):
        pipeline.append(b"")
    # A small record may use what the first record's upper bound leaves: so does Kafka.
    assert [batch.record_count for batch in pipeline.topic.queues[0]] == [3]
    pipeline.append(b"v" * 20)
    assert len(pipeline.topic.queues[0]) == 2


def test_records_without_partition_stay_until_a_batch_is_full() -> None:
    pipeline = Pipeline(3, **LINGER)
    pipeline.draws = [1, 2, 1, 0]
    for _ in range(4 * 19):
        pipeline.append(b"", UNKNOWN_PARTITION)
    counts = [[batch.record_count for batch in queue] for queue in pipeline.topic.queues]
    assert counts == [[], [19, 19], [19, 19]] or counts == [[19], [19, 19], [19]]


def test_expired_batches_are_taken_in_order() -> None:
    pipeline = Pipeline(**LINGER, delivery_timeout_ms=31_000, request_timeout_ms=30_000)
    accumulator = pipeline.accumulator
    pipeline.append(b"v" * 200)
    pipeline.clock.now += 1000
    pipeline.append(b"v" * 200)
    assert accumulator.expired(pipeline.clock.now) == ([], pipeline.clock.now + 30_000)
    pipeline.clock.now += 30_000
    expired, next_ms = accumulator.expired(pipeline.clock.now)
    assert (len(expired), next_ms) == (1, pipeline.clock.now + 1000)


def test_records_of_a_compressed_batch_count_with_their_size_in_memory() -> None:
    pipeline = Pipeline(compression_type="lz4", batch_size=1000, buffer_memory=10_000)
    pipeline.accumulator.ratios.reset("t", 0.1)
    while len(pipeline.topic.queues[0]) < 2:
        pipeline.append(b"v" * 100)
    first, second = pipeline.topic.queues[0]
    assert first.builder.plain_bytes > 7000
    pool = pipeline.accumulator.pool
    assert pool.available_bytes == 10_000 - first.builder.plain_bytes - 1000
    for batch in (first, second):
        pipeline.accumulator.deallocate(batch)
    assert pool.available_bytes == 10_000


def test_a_block_closes_the_batch_before_it() -> None:
    pipeline = Pipeline(**LINGER)
    pipeline.append(b"")
    records: Any = type("Records", (), {"num_rows": 3})()
    pipeline.accumulator.append_block(pipeline.topic, 0, RecordBlock(records, 500), 0, 0)
    pipeline.append(b"")
    assert [batch.record_count for batch in pipeline.topic.queues[0]] == [1, 3, 1]
    assert pipeline.accumulator.pool.available_bytes == 32 * 2**20 - 900
    for batch in list(pipeline.accumulator.incomplete):
        pipeline.accumulator.deallocate(batch)
    assert pipeline.accumulator.pool.available_bytes == 32 * 2**20


def test_a_closed_accumulator_takes_no_records() -> None:
    pipeline = Pipeline()
    pipeline.append(b"")
    pipeline.accumulator.close()
    with pytest.raises(ProducerClosedError, match="Producer closed while send in progress"):
        pipeline.append(b"")


def test_a_custom_partitioner_is_asked_again_before_a_new_batch() -> None:
    pipeline = Pipeline()
    arguments = (pipeline.topic, 0, SerializedRecord(b"", None, None, 0), 0)
    assert pipeline.accumulator.append(*arguments, abort_on_new_batch=True) == (None, False)
    assert pipeline.accumulator.append(*arguments)[1]
    assert pipeline.accumulator.append(*arguments, abort_on_new_batch=True)[0] is not None


def test_partitions_of_unavailable_nodes_are_not_chosen() -> None:
    pipeline = Pipeline(2, **LINGER, partitioner_availability_timeout_ms=50)
    accumulator = pipeline.accumulator
    accumulator.topic("t", ["d", "e"])
    pipeline.append(b"", 0)
    pipeline.append(b"", 1)
    now = pipeline.clock.now
    accumulator.latencies.note("d", now, can_drain=True)
    accumulator.latencies.note("d", now + 51, can_drain=False)
    accumulator.latencies.note("e", now + 51, can_drain=True)
    accumulator.ready(now + 51)
    for _ in range(40):
        pipeline.append(b"", UNKNOWN_PARTITION)
    assert [sum(batch.record_count for batch in queue) for queue in pipeline.topic.queues] == [1, 41]


def test_batches_are_open_until_they_are_drained() -> None:
    pipeline = Pipeline(2, **LINGER)
    topic, accumulator = pipeline.topic, pipeline.accumulator
    assert (topic.open, topic.sticky) == ([NO_BATCH, NO_BATCH], NO_BATCH)
    pipeline.append(b"", 1)
    pipeline.append(b"", UNKNOWN_PARTITION)
    batches = [queue[-1] for queue in topic.queues]
    assert (topic.open, topic.sticky) == ([NO_BATCH, batches[1]], batches[0])
    assert topic.sticky.builder.append(b"", None, None, 1) == 2
    accumulator.drain(["d"], 10**6, pipeline.clock.now)
    assert (topic.open, topic.sticky) == ([NO_BATCH, NO_BATCH], NO_BATCH)
    assert [batch.builder.append(b"", None, None, 1) for batch in batches] == [0, 0]
    assert [batch.record_count for batch in batches] == [2, 1]


@pytest.mark.parametrize("settings", [{"max_request_size": 220}, {"buffer_memory": 220}])
def test_no_batch_is_open_that_could_take_a_record_larger_than_a_request(settings: dict[str, Any]) -> None:
    pipeline = Pipeline(**LINGER, **settings)
    pipeline.append(b"")
    assert (pipeline.topic.open, pipeline.topic.sticky) == ([NO_BATCH], NO_BATCH)


def test_bytes_that_are_appended_to_the_sticky_batch_count_for_the_partitioner() -> None:
    pipeline = Pipeline(2, **LINGER)
    pipeline.draws = [0, 1]
    partitions = []
    for _ in range(3):  # The first batch has less than batch.size bytes, so the second one follows it.
        partitions.append(pipeline.append(b"", UNKNOWN_PARTITION).batch.result.partition)
        while pipeline.topic.sticky.builder.append(b"", None, None, pipeline.clock.now):
            pass
    assert partitions == [0, 0, 1]


def test_records_with_keys_do_not_count_for_the_partitioner() -> None:
    pipeline = Pipeline(2, **LINGER)
    pipeline.draws = [0, 1]
    pipeline.append(b"", UNKNOWN_PARTITION)
    for _ in range(15):
        pipeline.append(b"", 0)
    pipeline.accumulator.drain(["d"], 10**6, pipeline.clock.now)
    assert pipeline.append(b"", UNKNOWN_PARTITION).batch.result.partition == 0
