"""A clock and a client for tests, which neither wait nor write; and calls that may be late."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from native_log.errors import KafkaTimeoutError
from native_log.producer.accumulator import RecordAccumulator
from native_log.producer.client import BatchResponse
from native_log.producer.metadata import Metadata
from native_log.producer.metrics import ProducerMetrics
from native_log.producer.record import SerializedRecord
from native_log.producer.sender import Sender
from native_log.producer.sequences import ProducerSequences
from native_log.producer.settings import ProducerConfig

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from native_log.producer.batch import ProducerBatch
    from native_log.producer.client import ProduceRequest
    from native_log.producer.futures import RecordFuture


Answer = TypeVar("Answer")


def in_time(call: Callable[[], Answer], seconds: float = 30) -> Answer:
    """Call until the topic is looked up within max.block.ms. A busy machine may need longer than that."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except KafkaTimeoutError:
            if time.monotonic() > end:
                raise


class MockClock:
    """A clock that moves when a test says so, or when somebody waits.

    Attributes:
        now: the current time in ms.
        while_waiting: what other threads do while somebody waits, one call for each wait.
    """

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = now
        self.while_waiting: list[Callable[[], object]] = []

    def now_ms(self) -> int:
        return self.now

    def now_ns(self) -> int:
        return self.now * 1_000_000

    def wait(self, _: threading.Condition, timeout_ms: float | None) -> bool:
        if self.while_waiting:
            self.while_waiting.pop(0)()
            return True
        assert timeout_ms is not None, "expected something to happen during the wait"
        self.now += int(timeout_ms)
        return False


class MockClient:
    """A client that keeps the requests, for a test to answer them."""

    def __init__(self, max_in_flight: int = 5) -> None:
        self.requests: list[ProduceRequest] = []
        self.done: list[ProduceRequest] = []
        self.timeouts: list[float] = []
        self.wakeups = 0
        self._max_in_flight = max_in_flight

    def is_ready(self, _: str) -> bool:
        return len(self.requests) < self._max_in_flight

    def in_flight(self, node: str | None = None) -> int:
        return sum(node in (None, request.node) for request in self.requests)

    def send(self, request: ProduceRequest) -> None:
        self.requests.append(request)

    def poll(self, timeout_ms: float) -> list[ProduceRequest]:
        self.timeouts.append(timeout_ms)
        done, self.done = self.done, []
        return done

    def wakeup(self) -> None:
        self.wakeups += 1

    def close(self, *, is_forced: bool = False) -> None:
        self.is_closed = True

    def answer(self, *results: int | Exception | None, request: int = 0) -> None:
        """Answer a request: for each batch an offset, an error, or None if it was not attempted."""
        answered = self.requests.pop(request)
        assert len(results) == len(answered.batches)
        for batch, result in zip(answered.batches, results, strict=True):
            if isinstance(result, int):
                answered.responses.append(BatchResponse(batch, result))
            else:
                answered.responses.append(BatchResponse(batch, error=result, is_attempted=result is not None))
        self.done.append(answered)


class Pipeline:
    """A sender with an accumulator, without a thread. Topic t has `partitions`, all in one directory."""

    def __init__(self, partitions: int = 1, *, idempotent: bool = True, **settings: Any) -> None:
        self.config = ProducerConfig.parse({"linger_ms": 0, "retry_backoff_max_ms": 100, **settings})
        self.clock = MockClock()
        self.client = MockClient(self.config.max_in_flight_requests_per_connection)
        self.sequences = ProducerSequences(*((7, 0) if idempotent else ()))
        self.draws: list[int] = []
        self.accumulator = RecordAccumulator(self.config, self.clock, self.sequences, self.draw)
        self.metrics = ProducerMetrics()
        self.metadata = Metadata(self.config, self.clock)
        self.sender = Sender(
            self.config,
            self.accumulator,
            self.sequences,
            self.metadata,
            lambda _: ({"t": ["d"] * partitions}, {}),
            self.client,
            self.metrics,
            self.clock,
        )
        self.topic = self.accumulator.topic("t", ["d"] * partitions)

    def draw(self, bound: int) -> int:
        return self.draws.pop(0) % bound if self.draws else 0

    def append(self, value: bytes = b"v", partition: int = 0, **more: Any) -> RecordFuture:
        record = SerializedRecord(value, None, None, self.clock.now, more.pop("callback", None))
        future, _ = self.accumulator.append(self.topic, partition, record, self.config.max_block_ms, **more)
        assert future is not None
        return future

    def round(self) -> None:
        self.sender.run_once()

    def sent(self, request: int = -1) -> list[ProducerBatch]:
        """Return the batches of a request that is in flight."""
        return [each.batch for each in self.client.requests[request].batches]

    def sequences_sent(self, request: int = -1) -> list[int]:
        return [each.base_sequence for each in self.client.requests[request].batches]
