"""A query continues with Spark's kafka source where kafkalog has stopped, and the other way round."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException

from benchmarks.jvm import spark_kafka_source
from tests.spark.conftest import spark  # noqa: F401

from .cluster import Cluster, eventually

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.skipif(
        pyspark.__version__.startswith(("4.0.", "4.1.")), reason="the kafka source is that of Spark 4.2"
    ),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "handover.py"
Rows = list[tuple[int, int, bytes | None, bytes | None]]
"""Partition, offset, key and value of records, in order."""


@pytest.fixture(scope="module")
def handover(spark: SparkSession) -> ModuleType:  # noqa: F811
    """The example, with the kafka source in the session."""
    for jar in spark_kafka_source():
        spark.sql(f"ADD JAR '{jar}'")
    spec = importlib.util.spec_from_file_location("handover", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copied(spark: SparkSession, *files: str) -> Rows:  # noqa: F811
    records = spark.read.parquet(*files).select("partition", "offset", "key", "value").collect()
    return sorted((p, o, key and bytes(key), value and bytes(value)) for p, o, key, value in records)


def consumed(cluster: Cluster, topic: str, partitions: int = 1) -> Rows:
    return [
        (partition, row.offset, row.key, row.value)
        for partition in range(partitions)
        for row in cluster.consume(topic, "read_committed", partition).rows
    ]


def backup(cluster: Cluster, topic: str, end: int, path: Path) -> str:
    """Copy the directory of the running broker, when it has checkpointed the end of partition 0."""
    cluster.log_up_to(topic, end)
    # The broker renames `.tmp` files and removes `.deleted` ones while they are copied.
    short_lived = shutil.ignore_patterns("*-delete", "*.tmp", "*.deleted")
    return str(shutil.copytree(cluster.log_dir, path, ignore=short_lived))


def progress(query: Any, number: int) -> dict[str, Any]:
    """Return the progress of the source in the first or last micro-batch."""
    return dict(query.recentProgress[number]["sources"][0])


def test_history_from_a_directory_then_new_records_from_a_broker(
    handover: ModuleType,
    cluster: Cluster,
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    topic = cluster.create("handover", 2, segment_ms=100)
    for number, end in enumerate(["commit", "abort", "commit"]):
        cluster.send(topic, 300, first=number * 300, transactional_id="h", end=end)
    cluster.send(topic, 100, partition=1)
    directory = backup(cluster, topic, 903, tmp_path / "backup")
    files, checkpoint = str(tmp_path / "files"), str(tmp_path / "checkpoint")
    history = handover.copy(spark, directory, topic, files, checkpoint)
    end_offsets = {topic: {"0": 903, "1": 100}}
    committed = handover.committed_offsets(checkpoint)
    assert json.loads(progress(history, -1)["endOffset"]) == json.loads(committed) == end_offsets

    cluster.send(topic, 200, first=900, transactional_id="h", end="commit")
    cluster.send(topic, 50, first=100, partition=1)
    live = handover.copy(spark, cluster.broker.bootstrap, topic, files, checkpoint)
    assert json.loads(progress(live, 0)["startOffset"]) == end_offsets
    other = str(tmp_path / "other-files"), str(tmp_path / "other-checkpoint")
    handover.copy(spark, cluster.broker.bootstrap, topic, *other, startingOffsets=committed)
    expected = consumed(cluster, topic, 2)
    assert len(expected) == 600 + 200 + 150
    assert copied(spark, files) == expected
    assert copied(spark, other[0]) == [row for row in expected if row[1] >= end_offsets[topic][str(row[0])]]


def test_a_stream_that_fell_out_of_retention_continues_from_a_backup(
    handover: ModuleType,
    cluster: Cluster,
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    topic = cluster.create("handover-back", segment_ms=100, file_delete_delay_ms=0)
    files, checkpoint = str(tmp_path / "files"), str(tmp_path / "checkpoint")
    bootstrap = cluster.broker.bootstrap
    cluster.send(topic, 1000)
    handover.copy(spark, bootstrap, topic, files, checkpoint)
    cluster.send(topic, 1000, first=1000)
    directory = backup(cluster, topic, 2000, tmp_path / "backup")
    before = consumed(cluster, topic)
    cluster.delete_records(topic, 1500)
    eventually(lambda: cluster.consume(topic).start, lambda start: start == 1500)
    cluster.send(topic, 500, first=2000)
    expected = before + consumed(cluster, topic)[500:]

    # The failed micro-batch ends at 2500, where the broker ended, and the backup before that.
    failed = str(shutil.copytree(checkpoint, tmp_path / "failed"))
    with pytest.raises(StreamingQueryException):
        handover.copy(spark, bootstrap, topic, files, failed)
    with pytest.raises(StreamingQueryException, match=r"expected offsets \[1000, 2500\) of handover-back-0"):
        handover.copy(spark, directory, topic, files, failed)
    other = str(tmp_path / "other-files"), str(tmp_path / "other-checkpoint")
    handover.copy(spark, directory, topic, *other, startingOffsets=handover.committed_offsets(failed))
    handover.copy(spark, bootstrap, topic, *other)
    assert copied(spark, files, other[0]) == expected

    # With a limit, the failed micro-batch is within the backup, and the query continues.
    with pytest.raises(StreamingQueryException):
        handover.copy(spark, bootstrap, topic, files, checkpoint, maxOffsetsPerTrigger=600)
    handover.copy(spark, directory, topic, files, checkpoint)
    handover.copy(spark, bootstrap, topic, files, checkpoint)
    assert copied(spark, files) == expected
