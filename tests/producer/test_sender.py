"""Requests, retries, sequences and splitting, with a client that a test answers."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from native_log.errors import (
    InvalidTimestampError,
    KafkaTimeoutError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
)
from native_log.producer.backoff import ExponentialBackoff
from native_log.producer.record import SerializedRecord

from .support import Pipeline

if TYPE_CHECKING:
    from native_log.producer.futures import RecordFuture

DISK = OSError(28, "No space left on device")
GAP = OutOfOrderSequenceError("expected sequence")
TOO_LARGE = RecordTooLargeError("too large")


def test_a_written_batch_completes_its_records() -> None:
    pipeline = Pipeline(batch_size=300)
    futures = [pipeline.append(b"v") for _ in range(3)]
    pipeline.round()
    assert [batch.record_count for batch in pipeline.sent()] == [3]
    pipeline.client.answer(40)
    assert not futures[0].is_done
    pipeline.round()
    assert [future.get(0).offset for future in futures] == [40, 41, 42]
    assert not pipeline.accumulator.has_incomplete
    assert pipeline.accumulator.pool.available_bytes == pipeline.config.buffer_memory
    assert pipeline.metrics.records_sent == 3


def test_acks_0_gives_no_offsets() -> None:
    pipeline = Pipeline(idempotent=False, acks=0)
    future = pipeline.append()
    pipeline.round()
    pipeline.client.answer(40)
    pipeline.round()
    assert future.get(0).offset == -1


def test_a_retry_waits_for_the_backoff_and_keeps_its_sequence() -> None:
    pipeline = Pipeline()
    future = pipeline.append()
    for attempt in range(3):
        pipeline.round()
        assert pipeline.sequences_sent() == [0]
        pipeline.client.answer(DISK)
        pipeline.round()
        assert not pipeline.client.requests
        pipeline.round()
        assert pipeline.client.timeouts[-1] == 100, attempt
        pipeline.clock.now += 100
    pipeline.round()
    pipeline.client.answer(0)
    pipeline.round()
    assert future.get(0).offset == 0
    assert pipeline.metrics.records_retried == 3


def test_a_batch_that_is_ready_after_a_random_backoff_is_sent() -> None:
    pipeline = Pipeline()
    delays = itertools.cycle([0.8, 1.2])
    pipeline.accumulator.backoff = ExponentialBackoff(100, 1000, lambda *_: next(delays))
    pipeline.append()
    pipeline.round()
    for _ in range(10):
        pipeline.client.answer(DISK)
        pipeline.round()
        pipeline.round()
        pipeline.clock.now += pipeline.client.timeouts[-1]
        pipeline.round()
        assert pipeline.sequences_sent() == [0]


def test_retries_end() -> None:
    pipeline = Pipeline(idempotent=False, retries=1)
    future = pipeline.append()
    for _ in range(2):
        pipeline.round()
        pipeline.client.answer(DISK)
        pipeline.round()
        pipeline.clock.now += 100
    assert future.exception is DISK


def test_later_batches_do_not_overtake_one_that_is_retried() -> None:
    """Three requests are in flight; the first one fails, so the log rejects the others."""
    pipeline = Pipeline()
    futures = []
    for _ in range(3):
        futures.append(pipeline.append())
        pipeline.round()
    pipeline.client.answer(DISK)
    pipeline.client.answer(GAP)
    pipeline.client.answer(GAP)
    pipeline.round()
    pipeline.clock.now += 100
    for sequence in range(3):  # one by one until all of them are written
        pipeline.round()
        assert pipeline.sequences_sent() == [sequence]
        assert len(pipeline.client.requests) == 1
        pipeline.client.answer(sequence)
        pipeline.round()
    assert [future.get(0).offset for future in futures] == [0, 1, 2]


def test_a_batch_that_fails_gives_its_sequences_to_those_after_it() -> None:
    pipeline = Pipeline(batch_size=100)
    futures = [pipeline.append(b"v" * 40) for _ in range(4)]
    pipeline.round()
    assert pipeline.sequences_sent() == [0, 1, 2, 3]
    pipeline.client.answer(0, InvalidTimestampError("too old"), None, None)
    pipeline.round()
    pipeline.round()
    assert pipeline.sequences_sent() == [1]
    pipeline.client.answer(1)
    pipeline.round()
    pipeline.round()
    assert pipeline.sequences_sent() == [2]
    pipeline.client.answer(2)
    pipeline.round()
    assert [future.failed() for future in futures] == [False, True, False, False]
    pipeline.append()
    pipeline.round()
    assert pipeline.sequences_sent() == [3]


def test_batches_of_a_request_fail_in_their_order() -> None:
    pipeline = Pipeline(2, batch_size=100)
    failed: list[int] = []
    for number in range(4):
        pipeline.append(b"v" * 40, number % 2, callback=lambda _, __, number=number: failed.append(number))
    pipeline.round()
    pipeline.client.answer(*[InvalidTimestampError("too old")] * 4)
    pipeline.round()
    assert failed == [0, 1, 2, 3]


def test_a_gap_that_nothing_explains_is_an_error() -> None:
    pipeline = Pipeline()
    future = pipeline.append()
    pipeline.round()
    pipeline.client.answer(GAP)
    pipeline.round()
    assert future.exception is GAP


def test_with_one_request_in_flight_partitions_are_muted() -> None:
    pipeline = Pipeline(2, idempotent=False, max_in_flight_requests_per_connection=1, batch_size=100)
    futures = [pipeline.append(b"v" * 40) for _ in range(3)]
    pipeline.round()
    assert [batch.record_count for batch in pipeline.sent()] == [1, 1, 1]
    assert pipeline.accumulator.muted == {("t", 0)}
    pipeline.client.answer(0, DISK, None)
    pipeline.append()
    pipeline.clock.now += 100
    pipeline.round()
    pipeline.clock.now += 100
    pipeline.round()
    assert [batch.result is futures[1].batch.result for batch in pipeline.sent()] == [True, False, False]


def test_no_more_requests_than_allowed_are_in_flight() -> None:
    pipeline = Pipeline(max_in_flight_requests_per_connection=2)
    for _ in range(4):
        pipeline.append()
        pipeline.round()
    assert len(pipeline.client.requests) == 2
    assert pipeline.client.timeouts[-1] > 0, "expected the sender to wait for a response"
    pipeline.client.answer(0)
    pipeline.round()
    pipeline.round()
    assert pipeline.sent()[0].record_count == 2


def test_a_batch_that_is_too_large_is_split() -> None:
    pipeline = Pipeline(batch_size=300, compression_type="lz4")
    pipeline.accumulator.ratios.reset("t", 0.1)
    seen: list[int] = []
    futures = []
    while len(pipeline.topic.queues[0]) < 2:
        callback = lambda metadata, error: seen.append(metadata.offset)  # noqa: E731
        futures.append(pipeline.append(b"v" * 50, callback=callback))
    pipeline.round()
    first, _ = pipeline.sent()
    assert first.record_count > 4
    pipeline.client.answer(TOO_LARGE, None)
    pipeline.round()
    offset = 0
    while pipeline.accumulator.has_incomplete:
        pipeline.round()
        batches = pipeline.sent()
        assert pipeline.sequences_sent() == [offset]
        assert batches[0].estimated_bytes <= 400
        pipeline.client.answer(offset)
        offset += batches[0].record_count
        pipeline.round()
    assert [future.get(0).offset for future in futures] == list(range(len(futures)))
    assert sorted(seen) == list(range(len(futures)))
    assert pipeline.metrics.batches_split == 1
    assert pipeline.accumulator.pool.available_bytes == pipeline.config.buffer_memory


def test_parts_are_halved_if_the_log_accepts_less_than_batch_size() -> None:
    pipeline = Pipeline(batch_size=16_384)
    futures = [pipeline.append(b"v" * size) for size in (10, 10, 500, 0)]
    sizes: list[int] = []
    offset = 0
    while pipeline.accumulator.has_incomplete:
        pipeline.round()
        assert len(sizes) < 20, "expected the parts to become smaller"
        (batch,) = pipeline.sent()
        sizes.append(batch.record_count)
        is_too_large = batch.estimated_bytes > 200
        pipeline.client.answer(TOO_LARGE if is_too_large else offset)
        offset += 0 if is_too_large else batch.record_count
        pipeline.round()
    assert futures[2].exception is TOO_LARGE
    assert [futures[index].get(0).offset for index in (0, 1, 3)] == [0, 1, 2]
    assert sizes == [4, 4, 2, 2, 1, 1]


def test_a_single_record_that_is_too_large_fails() -> None:
    pipeline = Pipeline()
    future = pipeline.append()
    pipeline.round()
    pipeline.client.answer(TOO_LARGE)
    pipeline.round()
    assert future.exception is TOO_LARGE


def test_parts_of_a_split_batch_may_fail_alone() -> None:
    pipeline = Pipeline(batch_size=100, compression_type="lz4")
    pipeline.accumulator.ratios.reset("t", 0.1)
    futures = [pipeline.append(b"v" * 50) for _ in range(2)]
    pipeline.round()
    pipeline.client.answer(TOO_LARGE)
    pipeline.round()
    pipeline.round()
    pipeline.client.answer(InvalidTimestampError("no"))
    pipeline.round()
    assert not futures[0].is_done
    pipeline.round()
    pipeline.client.answer(0)
    pipeline.round()
    assert isinstance(futures[0].exception, InvalidTimestampError)
    assert futures[1].get(0).offset == 0


def test_a_queued_batch_expires() -> None:
    pipeline = Pipeline(delivery_timeout_ms=30_000)
    pipeline.append()
    pipeline.round()
    pipeline.client.answer(DISK)
    pipeline.round()
    (batch,) = pipeline.topic.queues[0]
    pipeline.clock.now += 30_000
    pipeline.round()
    message = r"Expiring 1 record\(s\) for t-0:30000 ms has passed since batch creation, last error: .*space"
    with pytest.raises(KafkaTimeoutError, match=message):
        raise batch.result.error or AssertionError
    assert not pipeline.accumulator.has_incomplete


@pytest.mark.parametrize("written", [True, False])
def test_a_batch_that_is_being_written_expires_but_keeps_its_memory(written: bool) -> None:
    pipeline = Pipeline(delivery_timeout_ms=30_000)
    future = pipeline.append()
    pipeline.round()
    pipeline.clock.now += 30_000
    pipeline.round()
    assert isinstance(future.exception, KafkaTimeoutError)
    assert pipeline.accumulator.pool.available_bytes < pipeline.config.buffer_memory
    pipeline.append()
    pipeline.client.answer(0 if written else DISK)
    pipeline.round()
    pipeline.round()
    assert pipeline.sequences_sent() == [1]
    assert isinstance(future.exception, KafkaTimeoutError)


def test_an_exception_of_a_callback_harms_nobody(caplog: Any) -> None:
    pipeline = Pipeline()
    seen: list[Any] = []

    def fail(*_: object) -> None:
        raise RuntimeError("mine")

    pipeline.append(callback=fail)
    pipeline.append(callback=lambda *result: seen.append(result))
    pipeline.round()
    pipeline.client.answer(0)
    pipeline.round()
    assert seen[0][0].offset == 1
    assert "raised by a callback" in caplog.text


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_log_gets_each_record_once_and_in_order(seed: int, idempotent: bool) -> None:
    """A log that checks sequences answers requests late, and fails at random."""
    chance = random.Random(seed)
    settings: dict[str, Any] = {} if idempotent else {"max_in_flight_requests_per_connection": 1}
    pipeline = Pipeline(idempotent=idempotent, batch_size=150, **settings)
    log: list[bytes] = []
    sent: list[tuple[bytes, RecordFuture]] = []

    def append(batch: Any) -> int | Exception:
        if chance.random() < 0.2:
            return DISK
        if idempotent and batch.base_sequence != len(log):
            return GAP
        offset = len(log)
        log.extend(values[batch.batch.result])
        return offset

    def answer() -> None:
        results: list[int | Exception | None] = []
        for batch in pipeline.client.requests[0].batches:
            failed = results and not isinstance(results[-1], int)
            results.append(None if failed else append(batch))
        pipeline.client.answer(*results)

    values: dict[Any, list[bytes]] = {}
    while len(sent) < 100 or pipeline.accumulator.has_incomplete:
        if len(sent) < 100 and chance.random() < 0.7:
            value = b"%d" % len(sent) * chance.randrange(1, 20)
            sent.append((value, pipeline.append(value)))
            values.setdefault(sent[-1][1].batch.result, []).append(value)
        pipeline.round()
        if pipeline.client.requests and chance.random() < 0.4:
            answer()
        pipeline.clock.now += chance.choice([0, 1, 50, 100])
    assert log == [value for value, _ in sent]
    assert [future.get(0).offset for _, future in sent] == list(range(100))


def test_a_batch_that_expired_before_its_turn_is_not_written() -> None:
    pipeline = Pipeline(batch_size=100, delivery_timeout_ms=30_000)
    futures = [pipeline.append(b"v" * 40) for _ in range(2)]
    pipeline.round()
    pipeline.clock.now += 30_000
    pipeline.round()
    pipeline.client.answer(DISK, None)
    pipeline.round()
    assert [type(future.exception) for future in futures] == [KafkaTimeoutError] * 2
    assert not pipeline.client.requests
    assert not pipeline.accumulator.has_incomplete
    pipeline.append()
    pipeline.round()
    assert pipeline.sequences_sent() == [0]


def test_an_append_that_fails_gives_its_memory_back() -> None:
    pipeline = Pipeline()
    headers: Any = [("n", "text")]
    with pytest.raises((TypeError, AttributeError)):
        pipeline.accumulator.append(pipeline.topic, 0, SerializedRecord(b"v", None, headers, 0), 0)
    assert pipeline.accumulator.pool.available_bytes == pipeline.config.buffer_memory


def test_a_new_batch_wakes_the_sender_unless_a_response_does() -> None:
    pipeline = Pipeline()
    pipeline.append()
    pipeline.round()
    (request,) = pipeline.client.requests
    for nodes in ({request.node}, {request.node, "another"}, {"another"}):
        pipeline.sender.wakeup_for(nodes)
    assert pipeline.client.wakeups == 2


def test_a_full_disk_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline()
    future = pipeline.append()
    for _ in range(3):
        pipeline.round()
        pipeline.client.answer(DISK)
        pipeline.round()
        pipeline.clock.now += 100
    assert not future.is_done
    (warning,) = caplog.messages
    assert "d: cannot write records (No space left on device; free" in warning


def test_the_warning_of_a_split_names_the_records_of_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline(batch_size=1000)
    for _ in range(2):
        pipeline.append(b"v" * 100)
    pipeline.round()
    pipeline.client.answer(TOO_LARGE)
    pipeline.round()
    assert "ProducerBatch(t-0, 2 records) is too large" in caplog.text
