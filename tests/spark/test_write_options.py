"""The write options, without Spark."""

from __future__ import annotations

import pytest

from kafkalog_spark.errors import OptionError
from kafkalog_spark.write.options import is_write, parse_write_options
from native_log.config import InvalidConfigError


def parsed(**options: str) -> object:
    return parse_write_options({"path": "/logs", "topic": "t", **options})


def test_defaults() -> None:
    found = parse_write_options({"path": "file:/logs"})
    assert (found.path, found.topic, found.partitions) == ("file:/logs", None, 1)
    assert (found.compression, found.level, found.batch_size) == ("none", None, 16384)
    assert (found.use_timestamp_column, found.ignore_keys, found.round_robin) == (True, False, False)
    assert (found.cluster_id, found.node_id, found.config) == (None, 1, {})


def test_everything() -> None:
    found = parse_write_options(
        {
            "PATH": "/logs",
            "Topic": " t ",
            "partitions": "3",
            "useTimestampColumn": "False",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "7",
            "kafka.compression.gzip.level": "1",
            "kafka.batch.size": "0",
            "kafka.linger.ms": "5",
            "kafka.acks": "0",
            "kafka.bootstrap.servers": "ignored:9092",
            "kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "Segment.Bytes": "1048576",
            "cleanup.policy": "compact",
            "cluster.id": "abcdefghijklmnopqrstuv",
            "node.id": "4",
            "something.else": "passed over",
        }
    )
    assert (found.topic, found.partitions, found.use_timestamp_column) == ("t", 3, False)
    assert (found.compression, found.level, found.batch_size, found.round_robin) == ("zstd", 7, 0, True)
    assert found.config == {"segment.bytes": "1048576", "cleanup.policy": "compact"}
    assert (found.cluster_id, found.node_id) == ("abcdefghijklmnopqrstuv", 4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("topic", " ", "topic: expected a topic's name"),
        ("partitions", "0", "partitions: expected a number of 1 or more"),
        ("topics", "t", "is topic meant"),
        ("compression", "lz4", r"is kafka\.compression\.type meant"),
        ("numPartitions", "3", "is partitions meant"),
        ("num.partitions", "3", "is partitions meant"),
        ("useTimestampColum", "true", "is useTimestampColumn meant"),
        ("segment.byte", "1", r"is segment\.bytes meant"),
        ("kafka.compresion.type", "lz4", r"is kafka\.compression\.type meant"),
        ("useTimestampColumn", "yes", "not a boolean"),
        ("kafka.key.serializer", "x", "'key.serializer' is not supported"),
        ("kafka.value.serializer", "x", "'value.serializer' is not supported"),
        ("kafka.compression.type", "LZ4", "must be one of: none, gzip, snappy, lz4, zstd"),
        ("kafka.compression.lz4.level", "18", "Value must be no more than 17"),
        ("kafka.acks", "7", "must be one of: all, -1, 0, 1"),
        ("kafka.linger.ms", "-1", "Value must be at least 0"),
        ("kafka.batch.size", "x", "not a number"),
        ("kafka.partitioner.class", "com.example.Mine", "put the partition into a column"),
        ("paths", '["/a","/b"]', "expected one log directory to write to, got 2"),
    ],
)
def test_refusals(name: str, value: str, message: str) -> None:
    options = {"path": "/logs", "topic": "t"} | {name: value}
    if name == "paths":
        del options["path"]
    with pytest.raises(OptionError, match=message):
        parse_write_options(options)


def test_settings_of_topics_are_checked() -> None:
    with pytest.raises(InvalidConfigError, match=r"segment\.bytes"):
        parsed(**{"segment.bytes": "x"})


def test_what_only_a_write_knows() -> None:
    assert is_write(["path", "Topic"])
    assert is_write(["segment.bytes"])
    assert not is_write(["path", "kafka.bootstrap.servers", "subscribe", "mode"])
