"""Spark reads URLs: rows, views, wildcards, tables, and no secret anywhere."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from kafkalog_spark import compact, map_in_arrow, retain, storage_options
from tests.builders.copies import batches, damage, write_copy
from tests.builders.golden import GOLDEN, golden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.object_store]

NOW_MS = 1_900_000_000_000
BROKER = "golden/kafka-4.1/whole-broker/data"


def hadoop_options(s3: S3Server) -> dict[str, str]:
    """Return options with credentials that no task has had before: Spark uses Python workers again."""
    return {
        f"fs.s3a.bucket.{uuid4()}.secret.key": "of another bucket",
        "fs.s3a.endpoint": s3.endpoint.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": s3.options["aws_access_key_id"],
        "fs.s3a.secret.key": s3.options["aws_secret_access_key"],
        "fs.s3a.endpoint.region": "us-east-1",
    }


def load(spark: SparkSession, options: dict[str, str], *paths: str, **more: Any) -> DataFrame:
    return spark.read.format("kafkalog").options(**options, **more).load([f"s3a://data/{p}" for p in paths])


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(repr, frame.collect()))


@pytest.mark.parametrize(
    "view", ["records", "latest", "counts", "segments", "batches", "partitions", "consumer_offsets", "lag"]
)
def test_rows_are_those_of_the_local_directory(spark: SparkSession, s3: S3Server, view: str) -> None:
    local = spark.read.format("kafkalog").option("view", view).load(str(GOLDEN.parent / BROKER))
    remote = load(spark, hadoop_options(s3), BROKER, view=view)

    def without_place(frame: DataFrame) -> DataFrame:
        places = {"path", "file", "directory", "logDir", "modified"}
        return frame.select([name for name in frame.columns if name not in places])

    assert rows(without_place(remote)) == rows(without_place(local))
    assert remote.count() > 0


def test_many_tasks_read_parts(spark: SparkSession, s3: S3Server) -> None:
    local = spark.read.format("kafkalog").load(str(golden("kafka-4.1/plain-zstd").path))
    path = golden("kafka-4.1/plain-zstd").path.relative_to(GOLDEN.parent).as_posix()
    remote = load(spark, hadoop_options(s3), path, maxBytesPerPartition="4k")
    assert remote.rdd.getNumPartitions() > 3
    assert rows(remote) == rows(local)


def test_a_stream_over_a_growing_bucket(spark: SparkSession, s3: S3Server, tmp_path: Path) -> None:
    write_copy(tmp_path / "data", batches(0, 10))
    shutil.copytree(tmp_path / "data", s3.root / "stream")
    stream = spark.readStream.format("kafkalog").options(**hadoop_options(s3))
    stream = stream.option("startingOffsets", "earliest").option("includeDeleted", "false")

    def run() -> int:
        query = (
            stream.load("s3a://stream")
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .format("parquet")
            .start(str(tmp_path / "rows"))
        )
        query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "rows")).count()

    assert run() == 30
    write_copy(tmp_path / "more", batches(0, 25), rolls=[45])
    shutil.copytree(tmp_path / "more", s3.root / "stream", dirs_exist_ok=True)
    assert run() == 75


def test_merged_replicas(spark: SparkSession, s3: S3Server, tmp_path: Path) -> None:
    whole = batches(0, 20)
    for name in ("a", "b"):
        write_copy(tmp_path / name, whole, rolls=[30])
    damage(tmp_path / "a" / "t-0", whole[4])
    damage(tmp_path / "b" / "t-0", whole[15])
    shutil.copytree(tmp_path, s3.root / "replicas")
    merged = spark.read.format("kafkalog").options(**hadoop_options(s3)).option("replicas", "merge")
    assert merged.load(["s3a://replicas/a", "s3a://replicas/b"]).count() == 60


def test_wildcards(spark: SparkSession, s3: S3Server) -> None:
    names = {
        row.topic
        for row in load(spark, hadoop_options(s3), "golden/kafka-4.1/plain-[lz]*/d?ta")
        .select("topic")
        .collect()
    }
    assert names == {"plain-lz4", "plain-zstd"}
    with pytest.raises(PySparkException, match="no directory matches"):
        load(spark, hadoop_options(s3), "golden/nothing-*")


@contextmanager
def session_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(f"spark.hadoop.{name}", value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(f"spark.hadoop.{name}")


def test_settings_of_the_session_and_of_one_bucket(spark: SparkSession, s3: S3Server) -> None:
    settings = {
        **hadoop_options(s3),
        "fs.s3a.secret.key": "of another bucket",
        "fs.s3a.bucket.data.secret.key": s3.options["aws_secret_access_key"],
        "fs.s3a.bucket.other.secret.key": "of another bucket",
    }
    with session_settings(spark, settings):
        options = storage_options(spark, "s3a://data/x")
        assert "fs.s3a.bucket.other.secret.key" not in options
        assert load(spark, options, BROKER).count() > 0


@pytest.mark.parametrize("small_bytes", [1 << 20, 0])
def test_dry_runs(spark: SparkSession, s3: S3Server, small_bytes: int) -> None:
    """Of a compaction by one task for each partition, or by many; and of retention."""
    compaction, retention = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "retention.ms": 1}
    topics = ["state", "events", "payments"]

    def report(path: str) -> list[Any]:
        compacted = compact(spark, path, topics, compaction, NOW_MS, dry_run=True, small_bytes=small_bytes)
        retained = retain(spark, path, topics, retention, NOW_MS, dry_run=True)
        assert {"would be cleaned", "would be deleted"} <= {
            row[0] for row in (*compacted.select("status").collect(), *retained.select("decision").collect())
        }
        return rows(compacted) + rows(retained)

    with session_settings(spark, hadoop_options(s3)):
        assert report(f"s3a://data/{BROKER}") == report(str(GOLDEN.parent / BROKER))


def test_no_secret_is_shown(spark: SparkSession, s3: S3Server, capfd: pytest.CaptureFixture[str]) -> None:
    frame = load(spark, hadoop_options(s3), BROKER)
    frame.explain("extended")
    shown = capfd.readouterr().out
    frame.createOrReplaceTempView("broker")
    shown += repr(spark.sql("DESCRIBE EXTENDED broker").collect())
    shown += json.dumps(frame.schema.jsonValue())
    with pytest.raises(PySparkException) as error:
        load(spark, {**hadoop_options(s3), "fs.s3a.secret.key": "wrong-secret-key"}, BROKER).count()
    shown += str(error.value)
    assert "access was denied" in shown
    assert s3.options["aws_secret_access_key"] not in shown
    assert s3.options["aws_access_key_id"] not in shown
    assert "wrong-secret-key" not in shown


def test_a_table_does_not_store_credentials(spark: SparkSession, s3: S3Server) -> None:
    names = {**hadoop_options(s3), "path": f"s3a://data/{BROKER}"}
    texts = ", ".join(f"'{name}' '{value}'" for name, value in names.items())
    with pytest.raises(PySparkException, match="credentials are not stored in tables"):
        spark.sql(f"CREATE TABLE remote_broker USING kafkalog OPTIONS ({texts})")


def test_tasks_of_all_readers_get_the_credentials(spark: SparkSession, s3: S3Server) -> None:
    def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(batch.num_rows for batch in batches)])})

    whole = load(spark, hadoop_options(s3), BROKER).count()
    assert load(spark, hadoop_options(s3), BROKER, where="offset >= 0").count() == whole
    mapped = map_in_arrow(spark, f"s3a://data/{BROKER}", count_rows, "rows bigint", **hadoop_options(s3))
    assert sum(row.rows for row in mapped.collect()) == whole
