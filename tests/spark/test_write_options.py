"""The write options, without Spark."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.producer import ProducerOptions
from kafkalog_spark.options.write import Transaction, WriteOptions, may_be_write, parse_write_options
from native_log.config import InvalidConfigError
from native_log.errors import RecordTooLargeError
from native_log.records.schema import HEADERS


def parse(**options: str) -> WriteOptions:
    return parse_write_options({"path": "/logs", "topic": "t", **options})


def test_defaults() -> None:
    options = parse_write_options({"path": "file:/logs"})
    assert (options.path, options.topic, options.partitions) == ("file:/logs", None, None)
    assert options.new_topic_partitions == 1
    assert options.producer == ProducerOptions("none", None, 16384, False, False, None)
    assert options.use_timestamp_column
    assert (options.cluster_id, options.node_id, options.config) == (None, 1, {})


def test_all_options() -> None:
    options = parse_write_options(
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
    assert (options.topic, options.partitions, options.use_timestamp_column) == ("t", 3, False)
    assert options.producer == ProducerOptions("zstd", 7, 0, False, True, 500)
    assert options.config == {"segment.bytes": "1048576", "cleanup.policy": "compact"}
    assert (options.cluster_id, options.node_id) == ("abcdefghijklmnopqrstuv", 4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("topic", " ", "topic: expected a topic name"),
        ("partitions", "0", "partitions: expected a number of at least 1"),
        ("topics", "t", "did you mean topic"),
        ("compression", "lz4", r"did you mean kafka\.compression\.type"),
        ("numPartitions", "3", "did you mean partitions"),
        ("num.partitions", "3", "did you mean partitions"),
        ("useTimestampColum", "true", "did you mean useTimestampColumn"),
        ("segment.byte", "1", r"did you mean segment\.bytes"),
        ("kafka.compresion.type", "lz4", r"did you mean kafka\.compression\.type"),
        ("useTimestampColumn", "yes", "expected true or false"),
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
def test_invalid_options_are_rejected(name: str, value: str, message: str) -> None:
    options = {"path": "/logs", "topic": "t"} | {name: value}
    if name == "paths":
        del options["path"]
    with pytest.raises(OptionError, match=message):
        parse_write_options(options)


@pytest.mark.parametrize(
    ("name", "value"),
    [("acks", "1"), ("retries", "0"), ("max.in.flight.requests.per.connection", "6")],
)
def test_settings_that_contradict_idempotence_are_rejected(name: str, value: str) -> None:
    setting = {f"kafka.{name}": value}
    parse(**setting)
    parse(**setting, **{"kafka.enable.idempotence": "false"})
    with pytest.raises(OptionError, match="idempotent producer"):
        parse(**setting, **{"kafka.enable.idempotence": "true"})


@pytest.mark.parametrize(
    ("record", "size"),
    [
        # The sizes are those that Kafka's producer reports: The message is 92 bytes when serialized ...
        ({"key": b"key-0", "value": b"v0"}, 92),
        ({"key": None, "value": None}, 85),
        ({"key": "ключ", "value": b"v" * 64}, 158),
        ({"value": b"v", "headers": [{"key": "h", "value": b"1"}, {"key": "", "value": None}]}, 92),
    ],
)
def test_records_above_the_request_size_are_rejected(record: dict[str, object], size: int) -> None:
    records = pa.RecordBatch.from_pylist([{"value": None}, record], pa.schema(_types(record)))
    parse(**{"kafka.max.request.size": str(size)}).producer.check(records)
    with pytest.raises(RecordTooLargeError, match=f"The message is {size} bytes"):
        parse(**{"kafka.max.request.size": str(size - 1)}).producer.check(records)


def _types(record: dict[str, object]) -> list[tuple[str, pa.DataType]]:
    key = pa.string() if isinstance(record.get("key"), str) else pa.binary()
    types = {"key": key, "value": pa.binary(), "headers": HEADERS}
    return [(name, types[name]) for name in record]


def test_invalid_topic_settings_are_rejected() -> None:
    with pytest.raises(InvalidConfigError, match=r"segment\.bytes"):
        parse(**{"segment.bytes": "x"})


def test_write_options_are_recognized() -> None:
    assert may_be_write(["path", "Topic"])
    assert may_be_write(["segment.bytes"])
    assert not may_be_write(["path", "kafka.bootstrap.servers", "subscribe", "mode"])


def test_a_misspelling_is_corrected_for_reads_and_for_writes() -> None:
    """Spark creates the same data source for both, and its constructor checks the options of a read."""
    source = KafkaLogDataSource(CaseInsensitiveDict({"path": "/logs", "topics": "t"}))
    with pytest.raises(OptionError, match="did you mean topic"):
        source.writer(StructType().add("value", "string"), overwrite=False)
    with pytest.raises(OptionError, match="did you mean subscribe"):
        source.schema()


def test_a_transaction() -> None:
    assert parse().transaction is None
    options = parse(txnAppId="job/1", TXNVERSION=str(2**63 - 1))
    assert options.transaction == Transaction("job/1", 2**63 - 1, "t")
    ids = {
        Transaction(app_id, 0, topic).record_id
        for app_id, topic in [("a", None), ("b", None), ("a", "b"), ("a", "b/.."), ("../a", "t")]
    }
    assert len(ids) == 5
    assert all(re.fullmatch("[0-9a-f-]{36}", record_id) for record_id in ids)
    assert Transaction("a", 1, "t").record_id == Transaction("a", 2, "t").record_id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnAppId": "a"}, "found only txnAppId; set txnVersion"),
        ({"txnVersion": "1"}, "found only txnVersion; set txnAppId"),
        ({"txnAppId": " ", "txnVersion": "1"}, "txnAppId: expected a name"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion: expected a number of at least 0"),
        ({"txnAppId": "a", "txnVersion": "one"}, "txnVersion: expected an integer of 64 bits"),
        ({"txnAppId": "a", "txnVersion": str(2**63)}, "txnVersion: expected an integer of 64 bits"),
    ],
)
def test_invalid_transactions_are_rejected(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(**options)


def test_a_stream_rejects_a_transaction() -> None:
    options = {"path": "/logs", "topic": "t", "txnAppId": "a", "txnVersion": "1"}
    with pytest.raises(OptionError, match="options of batch writes"):
        KafkaLogDataSource(CaseInsensitiveDict(options)).streamWriter(
            StructType().add("value", "string"), overwrite=False
        )
