"""The records of a log directory are sent to a running cluster."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from confluent_kafka import KafkaException
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.jvm import spark_kafka_source
from tests.spark.conftest import spark  # noqa: F401

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .cluster import Cluster, Row

pytestmark = [pytest.mark.broker, pytest.mark.spark]

EXAMPLE = Path(__file__).parents[2] / "examples" / "replay.py"


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """A topic with two partitions; the records of one transaction were aborted.

    No timestamp is 0, which means now for the producer of the example.
    """
    topic = cluster.create("to-replay", 2)
    cluster.send(topic, 100, partition=1, first=1)
    for number, end in enumerate(["commit", "abort", "commit"]):
        cluster.send(topic, 300, first=1 + number * 300, transactional_id="r", end=end)
    cluster.log_up_to(topic, 903)
    return topic


def contents(cluster: Cluster, topic: str, partition: int) -> list[Row]:
    """Return the committed records without their offsets."""
    rows = cluster.consume(topic, "read_committed", partition).rows
    return [row._replace(offset=0) for row in rows]


def test_with_python(cluster: Cluster, topic: str) -> None:
    replay: Any = runpy.run_path(str(EXAMPLE))["replay"]
    copy = cluster.create("replayed", 2)
    assert replay(cluster.broker.bootstrap, topic, cluster.log_dir, to_topic=copy) == 700
    for partition, count in ((0, 600), (1, 100)):
        sent = contents(cluster, copy, partition)
        assert sent == contents(cluster, topic, partition)
        assert len(sent) == count


def test_a_record_that_the_cluster_refuses(cluster: Cluster, topic: str) -> None:
    replay: Any = runpy.run_path(str(EXAMPLE))["replay"]
    small = cluster.create("small", 2, max_message_bytes=50)
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        replay(cluster.broker.bootstrap, topic, cluster.log_dir, to_topic=small)


@pytest.mark.skipif(
    pyspark.__version__.startswith(("4.0.", "4.1.")), reason="the kafka source is that of Spark 4.2"
)
def test_with_spark(cluster: Cluster, topic: str, spark: SparkSession) -> None:  # noqa: F811
    """Spark's sink cannot set timestamps."""
    for jar in spark_kafka_source():
        spark.sql(f"ADD JAR '{jar}'")
    copy = cluster.create("replayed-by-spark", 2)
    records = (
        spark.read.format("kafkalog")
        .option("subscribe", topic)
        .option("includeHeaders", True)
        .option("kafka.isolation.level", "read_committed")
        .option("maxBytesPerPartition", "1t")
        .load(str(cluster.log_dir))
    )
    (
        records.select(F.lit(copy).alias("topic"), "partition", "key", "value", "headers")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", cluster.broker.bootstrap)
        .save()
    )
    for partition in (0, 1):
        rows = [contents(cluster, name, partition) for name in (topic, copy)]
        expected, sent = ([row._replace(timestamp_ms=0) for row in each] for each in rows)
        assert sent == expected
