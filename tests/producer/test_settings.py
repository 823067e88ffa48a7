"""The settings of a producer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from native_log import InvalidConfigError
from native_log.producer import ProducerConfig


def test_defaults_are_those_of_kafka_4() -> None:
    config = ProducerConfig.parse({})
    assert (config.acks, config.enable_idempotence, config.linger_ms) == ("all", True, 5)
    assert (config.batch_size, config.buffer_memory, config.max_request_size) == (16384, 33554432, 1048576)
    assert (config.max_block_ms, config.delivery_timeout_ms, config.request_timeout_ms) == (
        60000,
        120000,
        30000,
    )
    assert (config.retries, config.max_in_flight_requests_per_connection) == (2**31 - 1, 5)
    assert (config.compression_type, config.compression_level, config.topic_config) == ("none", None, {})


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("linger.ms", " 7 ", "linger_ms", 7),
        ("linger_ms", 7, "linger_ms", 7),
        ("acks", 1, "acks", "1"),
        ("acks", "-1", "acks", "all"),
        ("enable_idempotence", False, "enable_idempotence", False),
        ("compression_type", "lz4", "compression_level", 9),
        ("partitioner", len, "partitioner_class", len),
        ("interceptor.classes", [int], "interceptor_classes", (int,)),
        ("interceptors", int, "interceptor_classes", (int,)),
        ("max_block_ms", None, "max_block_ms", 60000),
        ("flush_messages", 1, "topic_config", {"flush.messages": 1}),
        ("num.partitions", "3", "num_partitions", 3),
        ("bootstrap_servers", "localhost:9092", "ignored", ()),
        ("sasl.mechanism", "PLAIN", "ignored", ()),
        ("something_else", 1, "ignored", ("something_else",)),
    ],
)
def test_names_and_values(name: str, value: Any, attribute: str, expected: Any) -> None:
    assert getattr(ProducerConfig.parse({name: value}), attribute) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linger": 5}, "unknown setting 'linger': did you mean"),
        ({"max_in_flight_request_per_connection": 5}, "did you mean 'max.in.flight.requests.per.connection'"),
        ({"flush_message": 1}, "did you mean 'flush.messages'"),
        ({"acks": "2"}, "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1"),
        ({"retries": -1}, "Invalid value -1 for configuration retries: Value must be at least 0"),
        ({"batch.size": 2**31}, "Not a number of type INT"),
        ({"linger.ms": 2.5}, "Not a number of type LONG"),
        ({"delivery_timeout_ms": 30004}, "delivery.timeout.ms should be equal to or larger than linger.ms"),
        ({"buffer.memory": 16383}, "hard limit of 16383"),
        ({"transactional_id": ""}, "String must be non-empty"),
        ({"transactional_id": "t", "enable_idempotence": False}, "Cannot set a transactional.id"),
        ({"transactional_id": "t", "acks": 1}, "Must set acks to all"),
        ({"enable_idempotence": True, "retries": 0}, "Must set retries to non-zero"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"segment.bytes": "x"}, "segment.bytes: expected an integer"),
        ({"compression.zstd.level": 23}, "Value must be no more than 22"),
        ({"compression.lz4.level": 0}, "Value must be at least 1"),
        ({"compression.gzip.level": 0}, "Value must be between 1 and 9 or equal to -1"),
        ({"compression.gzip.level": 10}, "Value must be between 1 and 9 or equal to -1"),
        ({"compression.gzip.level": -2}, "Value must be between 1 and 9 or equal to -1"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(message)):
        ProducerConfig.parse(settings)


def test_the_defaults_of_kafka_python_are_accepted() -> None:
    kafka = pytest.importorskip("kafka")
    config = ProducerConfig.parse(kafka.KafkaProducer.DEFAULT_CONFIG)
    assert config.ignored == ()
    assert config.retries == 2**31 - 1


@pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": 0}, {"retries": 0}])
def test_idempotence_by_default_gives_way(settings: dict[str, Any]) -> None:
    assert not ProducerConfig.parse(settings).enable_idempotence


def test_the_default_delivery_timeout_is_raised() -> None:
    assert ProducerConfig.parse({"linger.ms": 100_000}).delivery_timeout_ms == 130_000
