"""Our producer and Kafka's raise the same errors when they are closed, or when nothing can be written."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.jvm import Jvm, compile_java
from native_log.errors import (
    BufferExhaustedError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaLogError,
    KafkaTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
)
from native_log.log import PartitionLog
from native_log.producer import KafkaLogProducer
from tests.producer.support import in_time

from .conftest import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

SECONDS = 30
VALUE = bytes(10)
KINDS: dict[str, tuple[type[Exception], ...]] = {
    "BufferExhaustedException": (BufferExhaustedError,),
    "IllegalArgumentException": (ValueError,),
    "IllegalStateException": (ProducerClosedError, InvalidTxnStateError),
    "KafkaException": (ProducerClosedError, KafkaLogError),
    "RecordTooLargeException": (RecordTooLargeError,),
    "TimeoutException": (KafkaTimeoutError,),
}
OWN_TEXTS = {
    "KafkaProducer.flush() invocation inside a callback is not permitted because it may lead to deadlock.",
}
FAILS_AT_ONCE = "Topic a/b not present in metadata after 50 ms."
"""Kafka's producer asks brokers again until max.block.ms. Here only the producer can create the topic."""


@pytest.fixture(scope="module")
def java(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    compiled_path = compile_java([HERE / "ProducerLife.java"], tmp_path_factory.mktemp("classes"))
    with Jvm(compiled_path, "org.apache.kafka.clients.producer.ProducerLife", options=["-Xmx256m"]) as jvm:
        yield jvm


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No batch is written until this event is set."""
    gate = threading.Event()
    append = PartitionLog.append_built

    def append_later(self: PartitionLog, *arguments: Any, **named: Any) -> tuple[int, list[int]]:
        gate.wait(SECONDS)
        return append(self, *arguments, **named)

    monkeypatch.setattr(PartitionLog, "append_built", append_later)
    yield gate
    gate.set()


class Ours:
    """The scenarios of ProducerLife.java with our producer. `errors` has what each call raised."""

    def __init__(self, path: Path, scenario: str) -> None:
        settings: dict[str, Any] = {"enable_idempotence": False, "linger_ms": 60_000, "max_block_ms": 50}
        if "callback" in scenario:
            settings |= {"linger_ms": 0, "request_timeout_ms": 50, "delivery_timeout_ms": 50}
        if scenario == "full buffer":
            settings |= {"buffer_memory": 300, "batch_size": 300}
        self.errors: list[Exception | None] = []
        self.producer = KafkaLogProducer(path, settings)
        answer = in_time(lambda: self.producer.partitions_for("t"))
        assert answer == {0}

    def note(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self.errors.append(error)
        else:
            self.errors.append(None)

    def after_close(self) -> None:
        producer = self.producer
        self.note(producer.close)
        self.note(producer.close)
        self.note(lambda: producer.send("t", VALUE))
        self.note(producer.flush)
        self.note(producer.init_transactions)

    def negative_timeout(self) -> None:
        self.note(lambda: self.producer.close(-0.001))

    def forced_close(self) -> None:
        sent = [self.producer.send("t", VALUE) for _ in range(2)]
        self.note(lambda: self.producer.close(0))
        for future in sent:
            self.note(future.get)

    def close_in_a_callback(self) -> None:
        self.in_a_callback(self.producer.close)

    def flush_in_a_callback(self) -> None:
        self.in_a_callback(self.producer.flush)

    def in_a_callback(self, call: Callable[[], object]) -> None:
        was_called = threading.Event()

        def callback(*_: object) -> None:
            self.note(call)
            was_called.set()

        future = self.producer.send("t", VALUE, callback=callback)
        assert was_called.wait(SECONDS)
        self.note(future.get)
        self.note(lambda: self.producer.send("t", VALUE))

    def full_buffer(self) -> None:
        self.producer.send("t", bytes(100))
        self.note(self.producer.send("t", bytes(200)).get)
        self.note(self.producer.send("t", bytes(300)).get)

    def invalid_records(self) -> None:
        producer = self.producer
        self.note(lambda: producer.send("t", VALUE, partition=-1))
        self.note(lambda: producer.send("t", VALUE, timestamp_ms=-1))
        self.note(producer.send("t", VALUE, partition=5).get)
        self.note(producer.send("t", bytes(2_000_000)).get)
        self.note(lambda: in_time(lambda: producer.send("a/b", VALUE).get()))

    def no_transactional_id(self) -> None:
        self.note(self.producer.init_transactions)
        self.note(self.producer.begin_transaction)
        self.note(self.producer.commit_transaction)


@pytest.mark.parametrize(
    "scenario",
    [
        "after close",
        "negative timeout",
        "forced close",
        "close in a callback",
        "flush in a callback",
        "full buffer",
        "invalid records",
        "no transactional id",
    ],
)
def test_errors(java: Jvm, tmp_path: Path, gate: threading.Event, scenario: str) -> None:
    expected = json.loads(java.ask(scenario))
    ours = Ours(tmp_path / "logs", scenario)
    getattr(ours, scenario.replace(" ", "_"))()
    gate.set()
    ours.producer.close(0)
    assert len(ours.errors) == len(expected)
    for mine, theirs in zip(ours.errors, expected, strict=True):
        if not theirs:
            assert mine is None
        elif theirs[1] == FAILS_AT_ONCE:
            assert isinstance(mine, InvalidTopicError)
        else:
            kind, text = theirs
            assert type(mine) in KINDS[kind], mine
            if text not in OWN_TEXTS:
                assert without_times(str(mine)) == without_times(text)


def without_times(text: str) -> str:
    """Replace how many ms have passed."""
    return re.sub(r":\d+ ms", ":0 ms", text)
