"""The write options, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.producer import ProducerOptions
from kafkalog_spark.options.write import WriteOptions, may_be_write, parse_write_options
from native_log.config import InvalidConfigError
from native_log.errors import RecordTooLargeError
from native_log.records.schema import HEADERS


def parsed(**options: str) -> WriteOptions:
    return parse_write_options({"path": "/logs", "topic": "t", **options})


def test_defaults() -> None:
    found = parse_write_options({"path": "file:/logs"})
    assert (found.path, found.topic, found.partitions) == ("file:/logs", None, 1)
    assert found.producer == ProducerOptions("none", None, 16384, False, False, None)
    assert found.use_timestamp_column
    assert (found.cluster_id, found.node_id, found.config) == (None, 1, {})


def test_everything() -> None:
    found = parse_write_options(
        {
            "PATH": "/logs",
            "Topic": " t ",
            "partitions": "3",
            "useTimestampColumn": "False",
            "kafka.compression.type": " zstd\n",
            "kafka.compression.zstd.level": "7",
            "kafka.compression.gzip.level": "1",
            "kafka.batch.size": "0",
            "kafka.linger.ms": "5",
            "kafka.acks": "0",
            "kafka.max.request.size": "500",
            "kafka.buffer.memory": "1000",
            "kafka.key.deserializer": "not a misspelling",
            "kafka.bootstrap.servers": "ignored:9092",
            "kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "Segment.Bytes": "1048576",
            "cleanup.policy": "compact",
            "cluster.id": "abcdefghijklmnopqrstuv",
            "node.id": "4",
            "something.else": "ignored",
        }
    )
    assert (found.topic, found.partitions, found.use_timestamp_column) == ("t", 3, False)
    assert found.producer == ProducerOptions("zstd", 7, 0, False, True, 500)
    assert found.config == {"segment.bytes": "1048576", "cleanup.policy": "compact"}
    assert (found.cluster_id, found.node_id) == ("abcdefghijklmnopqrstuv", 4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("topic", " ", "topic: expected a topic name"),
        ("partitions", "0", "partitions: expected a number of 1 or more"),
        ("topics", "t", "did you mean topic"),
        ("compression", "lz4", r"did you mean kafka\.compression\.type"),
        ("numPartitions", "3", "did you mean partitions"),
        ("num.partitions", "3", "did you mean partitions"),
        ("useTimestampColum", "true", "did you mean useTimestampColumn"),
        ("segment.byte", "1", r"did you mean segment\.bytes"),
        ("kafka.compresion.type", "lz4", r"did you mean kafka\.compression\.type"),
        ("useTimestampColumn", "yes", "not a boolean"),
        ("kafka.key.serializer", "x", "'key.serializer' is not supported"),
        ("kafka.value.serializer", "x", "'value.serializer' is not supported"),
        ("kafka.compression.type", "LZ4", "must be one of: none, gzip, snappy, lz4, zstd"),
        ("kafka.compression.lz4.level", "18", "Value must be no more than 17"),
        ("kafka.acks", "7", "must be one of: all, -1, 0, 1"),
        ("kafka.linger.ms", "-1", "Value must be at least 0"),
        ("kafka.batch.size", "x", "Not a number of type INT"),
        ("kafka.linger.ms", "9223372036854775808", "Not a number of type LONG"),
        ("kafka.max.in.flight.requests.per.connection", "0", "Value must be at least 1"),
        ("kafka.compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("kafka.partitioner.class", "com.example.Mine", "put the partition into a column"),
        ("kafka.partitioner.class", "", "put the partition into a column"),
        ("kafka.partitioner.ignore.keys", "yes", "either true or false"),
        ("kafka.interceptor.classes", "com.example.Mine", "change the records with DataFrame operations"),
        ("kafka.transactional.id", "t", "a write is atomic without them"),
        ("kafka.delivery.timeout.ms", "29999", "larger than linger.ms"),
        ("kafka.buffer.memory", "16383", "hard limit of 16383"),
        ("topic", "\0", "topic: expected a topic name"),
        ("paths", '["/a","/b"]', "expected one log directory to write to, found 2"),
    ],
)
def test_refusals(name: str, value: str, message: str) -> None:
    options = {"path": "/logs", "topic": "t"} | {name: value}
    if name == "paths":
        del options["path"]
    with pytest.raises(OptionError, match=message):
        parse_write_options(options)


@pytest.mark.parametrize(
    ("name", "value"),
    [("acks", "1"), ("retries", "0"), ("max.in.flight.requests.per.connection", "6")],
)
def test_what_an_idempotent_producer_refuses(name: str, value: str) -> None:
    given = {f"kafka.{name}": value}
    parsed(**given)
    parsed(**given, **{"kafka.enable.idempotence": "false"})
    with pytest.raises(OptionError, match="idempotent producer"):
        parsed(**given, **{"kafka.enable.idempotence": "true"})


@pytest.mark.parametrize(
    ("record", "size"),
    [
        # as Kafka's producer says it: The message is 92 bytes when serialized
        ({"key": b"key-0", "value": b"v0"}, 92),
        ({"key": None, "value": None}, 85),
        ({"key": "ключ", "value": b"v" * 64}, 158),
        ({"value": b"v", "headers": [{"key": "h", "value": b"1"}, {"key": "", "value": None}]}, 92),
    ],
)
def test_records_that_a_request_does_not_hold(record: dict[str, object], size: int) -> None:
    records = pa.RecordBatch.from_pylist([{"value": None}, record], pa.schema(_types(record)))
    parsed(**{"kafka.max.request.size": str(size)}).producer.check(records)
    with pytest.raises(RecordTooLargeError, match=f"The message is {size} bytes"):
        parsed(**{"kafka.max.request.size": str(size - 1)}).producer.check(records)


def _types(record: dict[str, object]) -> list[tuple[str, pa.DataType]]:
    key = pa.string() if isinstance(record.get("key"), str) else pa.binary()
    known = {"key": key, "value": pa.binary(), "headers": HEADERS}
    return [(name, known[name]) for name in record]


def test_settings_of_topics_are_checked() -> None:
    with pytest.raises(InvalidConfigError, match=r"segment\.bytes"):
        parsed(**{"segment.bytes": "x"})


def test_what_only_a_write_knows() -> None:
    assert may_be_write(["path", "Topic"])
    assert may_be_write(["segment.bytes"])
    assert not may_be_write(["path", "kafka.bootstrap.servers", "subscribe", "mode"])


def test_a_slip_is_of_a_read_or_of_a_write() -> None:
    """Spark makes the same source for both, and a read is checked when it is made."""
    source = KafkaLogDataSource(CaseInsensitiveDict({"path": "/logs", "topics": "t"}))
    with pytest.raises(OptionError, match="did you mean topic"):
        source.writer(StructType().add("value", "string"), overwrite=False)
    with pytest.raises(OptionError, match="did you mean subscribe"):
        source.schema()
