"""Settings by Kafka's names: precedence, units, bounds and misspellings."""

from __future__ import annotations

import pytest

from native_log.config import InvalidConfigError, LogConfig


def test_defaults_are_those_of_kafka_4() -> None:
    config = LogConfig.parse({})
    assert config == LogConfig()
    assert (config.segment_bytes, config.segment_ms) == (1073741824, 604800000)
    assert (config.max_message_bytes, config.index_interval_bytes) == (1048588, 4096)
    assert config.message_timestamp_after_max_ms == 3600000
    assert config.message_timestamp_before_max_ms == 2**63 - 1


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"segment.bytes": "1048576", "log.segment.bytes": "7000"}, "segment_bytes", 1048576),
        ({"log.segment.bytes": 7000}, "segment_bytes", 7000),
        ({"log.roll.hours": "2", "log.roll.ms": "5"}, "segment_ms", 5),
        ({"log.roll.hours": "2"}, "segment_ms", 7_200_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention_ms", 120_000),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.flush.scheduler.interval.ms": "2"}, "flush_ms", 2),
        ({"log.flush.scheduler.interval.ms": "2", "log.flush.interval.ms": "3"}, "flush_ms", 3),
        ({"cleanup.policy": "compact, delete"}, "cleanup_policy", frozenset({"compact", "delete"})),
        ({"preallocate": "TRUE"}, "preallocate", True),
        ({"message.timestamp.type": "logappendtime"}, "message_timestamp_type", "LogAppendTime"),
        ({"compression.type": "uncompressed"}, "compression_type", "none"),
        ({"message.timestamp.difference.max.ms": "9"}, "message_timestamp_after_max_ms", 9),
    ],
)
def test_names_and_units(given: dict[str, object], field: str, value: object) -> None:
    assert getattr(LogConfig.parse(given), field) == value


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("segment.bytes", "13", "14 to"),
        ("segment.bytes", "1k", "expected an integer"),
        ("segment.bytes", "1_000_000", "expected an integer"),
        ("cleanup.policy", "compress", "compact, delete"),
        ("min.cleanable.dirty.ratio", "1.5", "0 to 1"),
        ("message.timestamp.type", "none", "CreateTime"),
        ("compression.type", "brotli", "zstd"),
        ("compression.gzip.level", "0", "1 to 9"),
        ("preallocate", "yes", "true or false"),
    ],
)
def test_errors_name_setting_value_and_range(name: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidConfigError) as error:
        LogConfig.parse({name: value})
    assert name in str(error.value) and value in str(error.value) and allowed in str(error.value)


@pytest.mark.parametrize(
    "slip", ["segment.byte", "segment_bytes", "Segment.Bytes", "retention.m", "flush.messges"]
)
def test_a_misspelled_name_raises_an_error_with_the_right_name(slip: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"segment\.bytes|retention\.ms|flush\.messages"):
        LogConfig.parse({slip: "100"})


def test_other_settings_are_ignored() -> None:
    others = {"min.insync.replicas": "2", "local.retention.ms": "5", "num.partitions": "3", "log.dirs": "/x"}
    assert LogConfig.parse(others) == LogConfig()


def test_a_compacted_log_rolls_within_its_compaction_lag() -> None:
    settings = {"segment.ms": "1000", "max.compaction.lag.ms": "10"}
    assert LogConfig.parse(settings).max_segment_ms == 1000
    assert LogConfig.parse({**settings, "cleanup.policy": "compact"}).max_segment_ms == 10
