"""The precedence of the sources of a setting, for every setting that has a broker's name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from native_log.config import LogConfig, is_broker_name, names_of
from native_log.effective_config import EffectiveConfig, Source
from native_log.policies import TopicFacts

DISTINCT_VALUES: dict[str, tuple[str, ...]] = {
    "preallocate": ("true", "false", "true", "false"),
    "message_timestamp_type": ("LogAppendTime", "CreateTime", "LogAppendTime", "CreateTime"),
    "cleanup_policy": ("compact", "delete", "compact,delete", "compact"),
    "min_cleanable_dirty_ratio": ("0.1", "0.2", "0.3", "0.4"),
}
"""A value for each source; a neighbor in the order of precedence has another one."""

ATTRIBUTES = [field.name for field in fields(LogConfig) if any(map(is_broker_name, names_of(field.name)))]
SPELLINGS = [
    (attribute, name) for attribute in ATTRIBUTES for name in names_of(attribute) if is_broker_name(name)
]


def values(attribute: str) -> tuple[str, ...]:
    return DISTINCT_VALUES.get(attribute, ("2001", "2002", "2003", "2004"))


def parsed(attribute: str, name: str, text: str) -> Any:
    return getattr(LogConfig.parse({name: text}), attribute)


def test_the_table_has_every_setting_of_a_broker() -> None:
    assert {name for _, name in SPELLINGS} >= {
        *("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes"),
        *("log.segment.bytes", "log.roll.ms", "log.roll.hours", "message.max.bytes", "log.cleanup.policy"),
        *("log.cleaner.min.cleanable.ratio", "log.segment.delete.delay.ms", "producer.id.expiration.ms"),
    }
    assert not any(map(is_broker_name, ("retention.ms", "max.message.bytes", "compression.type")))


@pytest.mark.parametrize(("attribute", "broker_name"), SPELLINGS)
def test_a_stored_setting_overrides_one_given_for_the_broker(attribute: str, broker_name: str) -> None:
    """Add a source at a time, from the lowest to the highest."""
    own = [name for name in names_of(attribute) if not is_broker_name(name)]
    given_for_broker, stored_for_broker, stored, given = values(attribute)
    broker_names = [name for name in names_of(attribute) if is_broker_name(name)]

    def effective(*config: dict[str, object], **facts: dict[str, str]) -> tuple[object, Source]:
        combined = TopicFacts(**facts).settings(*config)  # type: ignore[arg-type]
        return getattr(combined.config, attribute), combined.source(attribute)

    default = getattr(LogConfig(), attribute)
    assert effective() == (default, Source.DEFAULT)
    config: dict[str, object] = {broker_name: given_for_broker}
    assert effective(config) == (parsed(attribute, broker_name, given_for_broker), Source.GIVEN_FOR_BROKER)
    for name in broker_names:  # another spelling does not override what is stored
        broker = {name: stored_for_broker}
        from_broker = parsed(attribute, name, stored_for_broker), Source.BROKER
        assert effective(config, stored={}, broker=broker) == from_broker
        for own_name in own:
            topic = {own_name: stored}
            from_topic = parsed(attribute, own_name, stored), Source.TOPIC
            assert effective(config, stored=topic, broker=broker) == from_topic
            assert effective(config, stored=topic) == from_topic
            from_call = parsed(attribute, own_name, given), Source.GIVEN
            assert effective(config | {own_name: given}, stored=topic, broker=broker) == from_call
            assert effective({own_name: given}, config, stored=topic, broker=broker) == from_call


@pytest.mark.parametrize(
    ("config", "attribute", "value"),
    [
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention_ms", 120_000),
        ({"log.retention.hours": "1", "log.retention.ms": "3"}, "retention_ms", 3),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, "retention_ms", 3),
        ({"log.roll.hours": "1", "log.roll.ms": "3"}, "segment_ms", 3),
        ({"log.roll.jitter.hours": "1", "log.roll.jitter.ms": "3"}, "segment_jitter_ms", 3),
    ],
)
def test_the_finer_unit_wins(config: dict[str, str], attribute: str, value: int) -> None:
    given, broker = TopicFacts().settings(config), TopicFacts(stored={}, broker=config).settings()
    assert getattr(given.config, attribute) == getattr(broker.config, attribute) == value


@pytest.mark.parametrize(
    ("name", "attribute", "texts"),
    [
        ("compression.type", "compression_type", ("gzip", "lz4", "zstd")),
        ("compression.gzip.level", "compression_gzip_level", ("1", "2", "3")),
        ("compression.lz4.level", "compression_lz4_level", ("1", "2", "3")),
        ("compression.zstd.level", "compression_zstd_level", ("1", "2", "4")),
    ],
)
def test_names_that_topics_and_brokers_share(name: str, attribute: str, texts: tuple[str, str, str]) -> None:
    """A given one is the topic's own; a stored one belongs to what it is stored for."""
    broker, topic, given = ({name: text} for text in texts)
    assert TopicFacts(stored={}, broker=broker).settings().source(attribute) is Source.BROKER
    assert TopicFacts(stored=topic, broker=broker).settings().source(attribute) is Source.TOPIC
    combined = TopicFacts(stored=topic, broker=broker).settings(given)
    assert (combined.source(attribute), str(getattr(combined.config, attribute))) == (Source.GIVEN, texts[2])


def test_only_names_that_brokers_and_topics_have_count_where_they_are_stored() -> None:
    stored, broker = {"log.retention.ms": "1"}, {"retention.ms": "2"}
    assert EffectiveConfig.combine([], stored, broker).config == LogConfig()
