"""When metadata are updated, and who waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from native_log.errors import InvalidTopicError, KafkaTimeoutError, ProducerClosedError
from native_log.producer.batch import TopicPartition
from native_log.producer.futures import BatchResult, RecordFuture, failed_future
from native_log.producer.metadata import Metadata
from native_log.producer.settings import ProducerConfig

from .support import MockClock, Pipeline


class At:
    """Metadata with a maximum age of 1000 ms, a backoff of 100 ms and topics that are idle after 5000 ms."""

    def __init__(self) -> None:
        self.clock = MockClock(0)
        settings = {"metadata.max.age.ms": 1000, "retry.backoff.ms": 100, "retry.backoff.max.ms": 100}
        config = ProducerConfig.parse({**settings, "metadata.max.idle.ms": 5000})
        self.metadata = Metadata(config, self.clock)

    def due(self) -> int:
        return self.metadata.next_update_ms(self.clock.now)

    def update(self, *topics: str) -> None:
        self.metadata.update({topic: ["d"] for topic in topics}, {}, self.clock.now)


def test_an_update_is_due_when_a_topic_is_new_and_after_max_age() -> None:
    at = At()
    assert at.due() > 0, "expected no update without topics"
    at.metadata.use("t", 0)
    assert at.due() == 0
    at.update("t")
    assert (at.due(), at.metadata.nodes("t"), at.metadata.version) == (1000, ("d",), 1)
    at.clock.now = 400
    assert at.due() == 600
    at.metadata.request_update()
    assert at.due() == 0


@pytest.mark.parametrize("failure", ["not found", "error"])
def test_an_update_in_vain_is_repeated_after_a_backoff(failure: str) -> None:
    at = At()
    at.metadata.use("t", 0)
    if failure == "error":
        at.metadata.fail(OSError("disk"), 0)
    else:
        at.metadata.update({}, {"t": OSError("disk")}, 0)
    assert (at.due(), str(at.metadata.error("t"))) == (100, "disk")
    at.clock.now = 100
    assert at.due() == 0
    at.update("t")
    assert (at.due(), at.metadata.error("t")) == (1000, None)


def test_topics_that_are_not_used_are_forgotten() -> None:
    at = At()
    at.metadata.use("t", 0)
    at.metadata.use("u", 0)
    at.clock.now = 4000
    at.metadata.keep({"t": 3000, "unknown": 3000})
    at.clock.now = 6000
    at.update("t", "u")
    assert (at.metadata.topics(), at.metadata.nodes("u")) == (["t"], None)
    at.metadata.use("u", 6000)
    assert at.due() == 0


def test_a_caller_waits_for_a_newer_version() -> None:
    at = At()
    at.metadata.use("t", 0)
    at.clock.while_waiting = [lambda: None, lambda: at.update("t")]
    at.metadata.await_update(at.metadata.request_update(), 500)
    with pytest.raises(KafkaTimeoutError, match="Failed to update metadata after 500 ms"):
        at.metadata.await_update(at.metadata.request_update(), 500)
    assert at.clock.now == 500
    at.clock.while_waiting = [at.metadata.close]
    with pytest.raises(ProducerClosedError):
        at.metadata.await_update(at.metadata.version, 500)


def test_an_error_that_an_attempt_cannot_change_is_raised() -> None:
    at = At()
    at.metadata.use("t", 0)
    at.metadata.update({}, {"t": InvalidTopicError("illegal")}, 0)
    with pytest.raises(InvalidTopicError):
        at.metadata.raise_fatal("t")
    assert at.metadata.topics() == []
    at.metadata.use("u", 0)
    at.metadata.fail(OSError("disk"), 0)
    at.metadata.raise_fatal("u")


def test_the_sender_updates_metadata() -> None:
    pipeline = Pipeline(3)
    pipeline.metadata.use("t", pipeline.clock.now)
    pipeline.round()
    assert pipeline.metadata.nodes("t") == ("d", "d", "d")


def test_futures_of_a_split_batch() -> None:
    whole, first, second = (BatchResult("t", 0) for _ in range(3))
    whole.parts = [(0, first), (2, second)]

    class Batch:
        result = whole

        def add_callback(self, *_: Any) -> bool:
            return False

    futures = [RecordFuture(Batch(), index, 5, 1, 2) for index in range(3)]
    with pytest.raises(KafkaTimeoutError, match="Timeout after waiting for 0 s"):
        futures[0].get(0)
    first.set(10, -1, None)
    second.set(-1, -1, OSError("disk"))
    assert not futures[0].is_done
    whole.set(-1, -1, None)
    assert [future.get(0) for future in futures[:2]] == [("t", 0, 10, 5, 1, 2), ("t", 0, 11, 5, 1, 2)]
    seen: list[Any] = []
    futures[2].add_callback(seen.append).add_errback(seen.append)
    futures[1].add_callback(seen.append).add_errback(seen.append)
    assert (str(seen[0]), seen[1]) == ("disk", futures[1].value)
    assert (futures[2].failed(), futures[2].value, repr(futures[2])) == (
        True,
        None,
        "RecordFuture(t-0, failed)",
    )


def test_a_record_that_was_not_accepted() -> None:
    future = failed_future("t", -1, KafkaTimeoutError("too late"))
    assert future.is_done and future.failed() and not future.succeeded()
    assert future.metadata() == ("t", -1, -1, -1, -1, -1)
    assert str(TopicPartition("t", 3)) == "t-3"
