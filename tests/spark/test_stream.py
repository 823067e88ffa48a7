"""Streaming reads through Spark: rows, columns, progress, tables. See test_ways_in for Spark Connect."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException

from tests.builders.golden import GOLDEN

from .parity import DATA
from .read_limits import HAS_READ_LIMITS, needs_read_limits

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


class Stream:
    """A query whose rows go to a Parquet table."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self._path = path

    def run(self, df: DataFrame, **trigger: Any) -> StreamingQuery:
        """Run the query until it ends."""
        query = (
            df.writeStream.format("parquet")
            .option("checkpointLocation", str(self._path / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .start(str(self._path / "rows"))
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query

    def rows(self) -> DataFrame:
        return self._spark.read.parquet(str(self._path / "rows"))


def read(spark: SparkSession, path: object, **options: str) -> tuple[DataFrame, DataFrame]:
    """Return the same read as a batch and as a stream."""
    return tuple(
        reader.format("kafkalog").options(startingOffsets="earliest", **options).load(path)
        for reader in (spark.read, spark.readStream)
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("path", "options"),
    [
        (DATA, {"includeHeaders": "true", "includeInternal": "true"}),
        (
            DATA,
            {"columns": "segment,offset,topic,partition", "kafka.isolation.level": "read_committed"},
        ),
        (None, {"paths": json.dumps([f"{DATA}/plain-2", f"{DATA}/plain-3"]), "minPartitions": "7"}),
        (
            str(GOLDEN / "kafka-4.1" / "corrupt-bad-crc" / "data"),
            {"mode": "permissive", "columns": "topic,partition,offset,value,_corrupt_record"},
        ),
    ],
    ids=["all", "columns", "directories", "damage"],
)
def test_a_stream_has_the_rows_of_a_batch(
    spark: SparkSession, stream: Stream, path: Any, options: dict[str, str]
) -> None:
    batch, streamed = read(spark, path, **options)
    assert streamed.schema == batch.schema
    query = stream.run(streamed)
    order = ["topic", "partition", "offset"]
    assert_df_equality(stream.rows().orderBy(*order), batch.orderBy(*order))
    if HAS_READ_LIMITS:
        source = query.recentProgress[0].sources[0]
        assert source.latestOffset == source.endOffset


@pytest.mark.spark
@needs_read_limits
def test_limits_and_progress(spark: SparkSession, stream: Stream) -> None:
    _, streamed = read(spark, DATA, subscribe="plain", maxOffsetsPerTrigger="300")
    query = stream.run(streamed)
    progress = [batch for batch in query.recentProgress if batch.numInputRows]
    assert [batch.numInputRows for batch in progress] == [298, 142]
    assert progress[0].sources[0].latestOffset == '{"plain": {"0": 120, "1": 80, "2": 200, "3": 40}}'


@pytest.mark.spark
def test_one_micro_batch_before_spark_4_2(spark: SparkSession, stream: Stream) -> None:
    """Without read limits in Spark, each run with availableNow reads one limited micro-batch."""
    _, streamed = read(spark, DATA, subscribe="plain", maxOffsetsPerTrigger="300")
    stream.run(streamed)
    assert stream.rows().count() == (440 if HAS_READ_LIMITS else 298)
    stream.run(streamed)
    assert stream.rows().count() == 440


@pytest.mark.spark
def test_the_message_about_an_invalid_option_is_the_last(spark: SparkSession, stream: Stream) -> None:
    streamed = spark.readStream.format("kafkalog").option("view", "lag").load(DATA)
    with pytest.raises(StreamingQueryException) as error:
        stream.run(streamed)
    traceback = str(error.value).partition(" SQLSTATE")[0].strip()
    assert traceback.endswith("OptionError: view=lag cannot be read as a stream; use spark.read")


@pytest.mark.spark
def test_lost_data_ends_a_query(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for topic in ("plain", "orders"):
        for directory in (GOLDEN.parent / "spark-parity" / "data").glob(f"{topic}-*"):
            shutil.copytree(directory, logs / directory.name)
    (logs / "meta.properties").touch()
    _, streamed = read(spark, str(logs))
    stream.run(streamed)
    shutil.rmtree(logs / "orders-0")
    with pytest.raises(StreamingQueryException, match=r"PARTITIONS_DELETED: orders-0 "):
        stream.run(streamed)


@pytest.mark.spark
def test_table(spark: SparkSession, stream: Stream) -> None:
    options = f"path '{DATA}', subscribe 'plain', columns 'offset', startingOffsets 'earliest'"
    spark.sql(f"CREATE TABLE followed USING kafkalog OPTIONS ({options})")
    try:
        stream.run(spark.readStream.table("followed"))
        assert stream.rows().count() == 440
    finally:
        spark.sql("DROP TABLE followed")
