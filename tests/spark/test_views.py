"""The metadata views, compared with what the broker reported about its logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import native_log
from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import OptionError
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.rows import PartitionScan
from native_log import PartitionLog
from native_log.errors import CorruptRecordError
from tests.builders.copies import batches, delete_segment, write_copy
from tests.builders.golden import GOLDEN

from .parity import DATA, PARITY

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def view(spark: SparkSession, name: str, **options: str) -> DataFrame:
    return spark.read.format("kafkalog").options(view=name, includeInternal="true", **options).load(DATA)


def test_partitions(spark: SparkSession) -> None:
    topics = json.loads((PARITY / "topics.json").read_text())
    expected = {
        (topic, int(p)): (o["earliest"], o["latest"], o["committed"])
        for topic, facts in topics.items()
        for p, o in facts["offsets"].items()
    }
    rows = view(spark, "partitions").collect()
    assert {
        (r.topic, r.partition): (r.logStartOffset, r.highWatermark, r.lastStableOffset) for r in rows
    } == expected
    assert all(len(r.topicId) == 22 and r.sizeInBytes >= 0 and r.segmentCount >= 1 for r in rows)


def test_policies_and_configurations(spark: SparkSession) -> None:
    data = str(GOLDEN / "kafka-4.1/whole-broker/data")
    columns = "topic,cleanupPolicy,policySource,config"
    reader = spark.read.format("kafkalog").options(view="partitions", columns=columns, includeInternal="true")
    rows = {row.topic: row for row in reader.load(data).collect()}
    stored = native_log.LogDir(data).topic_configs
    assert {topic: row.config for topic, row in rows.items() if row.config is not None} == stored
    policies = {topic: (row.cleanupPolicy, row.policySource) for topic, row in rows.items()}
    assert policies == {
        "__cluster_metadata": (None, "internal"),
        **dict.fromkeys(("__consumer_offsets", "__transaction_state", "state"), ("compact", "topic")),
        **dict.fromkeys(("events", "payments", "trimmed"), ("delete", "default")),
    }


def test_batches_cover_the_records(spark: SparkSession) -> None:
    batches = view(spark, "batches", subscribe="plain")
    assert batches.where("not isValid").count() == 0
    totals = batches.groupBy("compression").agg(F.sum("recordCount").alias("n")).collect()
    records = (
        spark.read.format("kafkalog").option("subscribe", "plain").option("columns", "compression").load(DATA)
    )
    assert {(r.compression, r.n) for r in totals} == {
        (r.compression, r["count"]) for r in records.groupBy("compression").count().collect()
    }


def test_crcs_are_checked_only_if_requested(spark: SparkSession) -> None:
    unchecked = view(spark, "batches", **{"kafka.check.crcs": "false", "subscribe": "orders"})
    assert {r.isValid for r in unchecked.collect()} == {None}


def test_segments(spark: SparkSession) -> None:
    segments = view(spark, "segments")
    by_partition = {
        (r.topic, r.partition): r
        for r in segments.groupBy("topic", "partition")
        .agg(
            F.sum("sizeInBytes").alias("size"), F.count("*").alias("n"), F.sum("recordCount").alias("records")
        )
        .collect()
    }
    for r in view(spark, "partitions", columns="topic,partition,sizeInBytes,segmentCount").collect():
        actual = by_partition[r.topic, r.partition]
        assert (actual["size"], actual.n) == (r.sizeInBytes, r.segmentCount)
    assert by_partition["plain", 0].records == 120
    assert by_partition["txn", 0].records == 118  # with 12 control records, which are not rows of a read
    assert segments.where("offsetIndex in ('missing', 'corrupt', 'torn')").count() == 0


def test_bytes_after_the_last_batch_are_counted(spark: SparkSession) -> None:
    torn = str(GOLDEN / "kafka-4.1/torn-keep16/data")  # 16 bytes of the last batch remain
    options = {"columns": "sizeInBytes,validBytes,invalidBytes"}
    segments = spark.read.format("kafkalog").options(view="segments", **options).load(torn).collect()
    assert [row.invalidBytes for row in segments] == [0, 16]
    assert all(row.sizeInBytes == row.validBytes + row.invalidBytes for row in segments)
    options = {"columns": "topic,invalidBytes"}
    partitions = spark.read.format("kafkalog").options(view="partitions", **options).load(torn).collect()
    assert [row.invalidBytes for row in partitions] == [16]


def test_latest(spark: SparkSession) -> None:
    topic = "compacted.v1"
    records = spark.read.format("kafkalog").option("subscribe", topic).load(DATA)
    newest = records.where("key is not null").groupBy("partition", "key").agg(F.max("offset").alias("offset"))
    expected = records.join(newest, ["partition", "key", "offset"]).select(records.columns)
    actual = view(spark, "latest", subscribe=topic)
    assert actual.columns == records.columns
    assert 0 < actual.count() == expected.count() < records.count()
    assert actual.exceptAll(expected).isEmpty()
    # With a range of offsets: the newest record in that range.
    start = records.where("partition = 1").agg(F.min("offset")).first()[0]
    limits = {"startingOffsets": f'{{"{topic}":{{"0":-2,"1":{start}}}}}'}
    limits["endingOffsets"] = f'{{"{topic}":{{"0":0,"1":{start + 1}}}}}'
    offsets = view(spark, "latest", subscribe=topic, columns="offset", **limits).collect()
    assert [row.offset for row in offsets] == [start]


def test_transactions(spark: SparkSession) -> None:
    rows = view(spark, "transactions").where("topic = 'txn'").collect()
    assert {r.state for r in rows} == {"committed", "aborted", "open"}
    (undecided,) = [r for r in rows if r.lastOffset is None]
    assert undecided.firstOffset == 105  # the last stable offset that the broker reported
    first = next(r for r in rows if r.state == "aborted")
    seen = spark.read.format("kafkalog").option("kafka.isolation.level", "read_committed").load(DATA)
    within = seen.where(f"topic = 'txn' and partition = {first.partition} and offset = {first.firstOffset}")
    assert within.count() == 0


def test_any_columns(spark: SparkSession) -> None:
    actual = view(spark, "segments", columns="baseOffset,topic")
    assert actual.columns == ["baseOffset", "topic"]


@pytest.mark.parametrize("name", VIEWS)
def test_offsets_do_not_apply(name: str) -> None:
    source = KafkaLogDataSource(CaseInsensitiveDict({"path": DATA, "view": name, "endingTimestamp": "5"}))
    with pytest.raises(OptionError, match=f"view={name} shows whole partitions"):
        source.reader(StructType([StructField("baseOffset", LongType())]))


def test_max_batch_bytes_applies(caplog: pytest.LogCaptureFixture) -> None:
    def batch_counts(**options: str) -> list[int]:
        every = {"path": DATA, "view": "batches", "subscribe": "plain", **options}
        reader = KafkaLogDataSource(CaseInsensitiveDict(every)).reader(
            StructType([StructField("sizeInBytes", IntegerType())])
        )
        return [b.num_rows for task in reader.partitions() for b in reader.read(task)]

    assert sum(batch_counts()) > 0
    with pytest.raises(CorruptRecordError, match="100"):
        batch_counts(maxBatchBytes="100")
    assert sum(batch_counts(maxBatchBytes="100", mode="dropMalformed")) == 0


@pytest.mark.parametrize("name", ["batches", "segments"])
def test_a_segment_that_a_broker_deletes_meanwhile_is_left_out(name: str, tmp_path: Path) -> None:
    directory = write_copy(tmp_path, batches(0, 10), rolls=[15])
    log = PartitionLog.open(directory)
    delete_segment(directory, 0)
    scan = PartitionScan(log, None, VIEWS[name].schema.names, "failFast", check_crcs=True)
    rows = [row for batch in VIEWS[name].rows(scan) for row in batch.to_pylist()]
    assert {row["segment"] for row in rows} == {f"{15:020d}.log"}
