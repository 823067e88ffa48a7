"""Interceptors, serializers and partitioners."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from native_log import InvalidConfigError
from native_log.errors import SerializationError
from native_log.producer import KafkaLogProducer, ProducerRecord, RecordMetadata
from native_log.producer.interceptors import Interceptors
from native_log.producer.partitioners import (
    BuiltInPartitioner,
    DefaultPartitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
    custom_partitioner,
    load_weights,
)
from native_log.producer.serializers import Serializer

if TYPE_CHECKING:
    from pathlib import Path

METADATA = RecordMetadata("t", 0, 5, 0, -1, -1)


class Appending:
    """An interceptor that appends its name to values, and notes acknowledgements."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.name)

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.seen.append(f"{self.name}{metadata.offset}{exception or ''}")

    def close(self) -> None:
        self.seen.append(f"{self.name} closed")


class Raising:
    def on_send(self, _: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on_send")

    def on_acknowledgement(self, *_: Any) -> None:
        raise RuntimeError("on_acknowledgement")

    def close(self) -> None:
        raise RuntimeError("close")


def test_interceptors_are_called_in_order_and_their_exceptions_are_logged(caplog: Any) -> None:
    seen: list[str] = []
    only_acknowledged = SimpleNamespace(on_acknowledgement=lambda *_: None)
    chain = Interceptors([Appending("a", seen), Raising, Appending("b", seen), only_acknowledged])
    assert chain.on_send(ProducerRecord("t", "")).value == "ab"
    chain.on_acknowledgement(METADATA, None)
    chain.on_acknowledgement(METADATA, ValueError("!"))
    chain.close()
    assert seen == ["a5", "b5", "a5!", "b5!", "a closed", "b closed"]
    assert len(caplog.records) == 4


@pytest.mark.parametrize("value", ["org.apache.Interceptor", ["a.B"], object, 5])
def test_what_cannot_intercept_is_rejected(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidConfigError, match=r"interceptor\.classes: expected Python classes or objects"):
        KafkaLogProducer(tmp_path / "logs", interceptor_classes=value)


class Upper:
    closed = 0

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return None if value is None else (topic + value).upper().encode()

    def close(self) -> None:
        Upper.closed += 1


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        (None, None, None),
        (None, b"x", b"x"),
        (None, "ü", "ü".encode()),
        (None, memoryview(b"x"), b"x"),
        (lambda value: b"%d" % value, 5, b"5"),
        (Upper, "x", b"TX"),
        (Upper(), None, None),
    ],
)
def test_serializers(setting: Any, value: Any, expected: bytes | None) -> None:
    assert Serializer(setting, "value").serialize("t", value) == expected


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (None, 1, "expected a value of bytes, str or None, found int"),
        (lambda value: value / 0, 1, "ZeroDivisionError"),
        (lambda value: "text", 1, "to return bytes or None, found str"),
    ],
)
def test_values_that_cannot_be_serialized(setting: Any, value: Any, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        Serializer(setting, "value").serialize("t", value)


def test_serializers_are_closed_and_checked() -> None:
    Serializer(Upper, "key").close()
    assert Upper.closed == 1
    with pytest.raises(InvalidConfigError, match=r"key\.serializer: expected a function"):
        Serializer("org.apache.kafka.common.serialization.StringSerializer", "key")


def choose(partitioner: Any, key: bytes | None = None, count: int = 3) -> int:
    partition: int = partitioner.partition("t", key, key, None, None, range(count))
    return partition


def test_round_robin_ignores_keys_and_keeps_the_partition_of_a_new_batch() -> None:
    partitioner = RoundRobinPartitioner()
    assert [choose(partitioner, b"key") for _ in range(4)] == [0, 1, 2, 0]
    assert choose(partitioner) == 1
    partitioner.on_new_batch("t", range(3), 1)
    assert [choose(partitioner) for _ in range(2)] == [1, 2]


@pytest.mark.parametrize(("partitioner", "of_key"), [(UniformStickyPartitioner, 2), (DefaultPartitioner, 0)])
def test_sticky_partitioners_choose_another_partition_for_a_new_batch(partitioner: Any, of_key: int) -> None:
    draws = [2, 1, 0]
    sticky = partitioner(lambda bound: draws.pop(0) % bound)
    assert [choose(sticky) for _ in range(3)] == [2, 2, 2]
    assert choose(sticky, b"abcd", 10) == of_key
    sticky.on_new_batch("t", range(3), 2)
    assert choose(sticky) == 1
    sticky.on_new_batch("t", range(3), 2)  # of another thread, too late
    assert choose(sticky) == 1
    sticky.on_new_batch("t", range(1), 1)
    sticky.on_new_batch("t", [1], 1)


def test_the_built_in_partitioner_switches_after_batch_size_bytes() -> None:
    draws = [1, 2, 0, 1]
    partitioner = BuiltInPartitioner(100, 3, lambda _: draws.pop(0))
    assert partitioner.current() == 1
    partitioner.update(99, True)
    assert partitioner.current() == 1
    partitioner.update(50, False)  # the batch is not full
    assert partitioner.current() == 1
    partitioner.update(0, True)
    assert partitioner.current() == 2
    partitioner.update(199, False)
    assert partitioner.current() == 2
    partitioner.update(1, False)  # twice the batch size
    assert partitioner.current() == 0


@pytest.mark.parametrize(
    ("sizes", "all_partitions", "expected"),
    [
        ([0, 0, 0], True, []),
        ([2, 2], False, [1, 2]),
        ([0, 3, 1], True, [4, 5, 8]),  # the example of KIP-794
        ([0], False, [1]),
    ],
)
def test_load_weights(sizes: list[int], all_partitions: bool, expected: list[int]) -> None:
    assert load_weights(sizes, all_partitions) == expected


def test_partitions_with_short_queues_are_chosen_more_often() -> None:
    draws = list(range(8))
    partitioner = BuiltInPartitioner(1, 3, lambda bound: draws.pop(0) % bound)
    partitioner.update_load([0, 3, 1], [0, 1, 2])
    chosen = []
    for _ in range(8):
        chosen.append(partitioner.current())
        if draws:
            partitioner.update(2, True)
    assert Counter(chosen) == {0: 4, 1: 1, 2: 3}
    draws[:] = [2, 0]
    partitioner.update_load([1, 1], [0, 2])  # partition 1 is not available
    partitioner.update(2, True)
    assert partitioner.current() == 0
    partitioner.update_load(None, [])
    partitioner.update(2, True)
    assert partitioner.current() == 0


def test_custom_partitioners() -> None:
    assert custom_partitioner(None) is None
    assert isinstance(custom_partitioner(RoundRobinPartitioner), RoundRobinPartitioner)
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    assert isinstance(custom_partitioner(name), RoundRobinPartitioner)
    function = custom_partitioner(
        lambda key, partitions, available: len(key) + len(partitions) + len(available)
    )
    assert choose(function, b"abcd") == 10
    for wrong in ("com.example.Mine", 5):
        with pytest.raises(InvalidConfigError, match=r"partitioner\.class"):
            custom_partitioner(wrong)
