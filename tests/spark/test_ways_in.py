"""Ways to use the source: by name, registered, in SQL, through Spark Connect, with one or more paths."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.version import __version__ as spark_version

from kafkalog_spark import KafkaLogDataSource
from native_log import LogDir
from tests.builders.golden import GOLDEN

from .parity import DATA
from .test_object_store import BROKER, hadoop_options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.spark


def test_the_module_that_spark_searches_for_imports_little() -> None:
    """Spark imports it in every application that uses an unknown format."""
    code = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules); import pyspark_kafkalog;"
        "assert pyspark_kafkalog.DefaultSource.name() == 'kafkalog';"
        "new = set(sys.modules) - before;"
        "print(sorted(m for m in new if not m.startswith(('kafkalog', 'pyspark_kafkalog'))))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_unregistered(spark: SparkSession) -> None:
    assert spark.read.format("kafkalog").load(DATA).count() == 2783


@pytest.mark.skipif(
    spark_version.startswith("4.0."),
    reason="Spark 4.0 rejects registering a source that it has already discovered",
)
def test_registered(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaLogDataSource)
    assert spark.read.format("KafkaLog").load(DATA).count() == 2783


def test_single_partition_directories(spark: SparkSession) -> None:
    assert spark.read.format("kafkalog").load(f"{DATA}/plain-2").count() == 200
    assert spark.read.format("kafkalog").load([f"{DATA}/plain-2", f"file:{DATA}/plain-3"]).count() == 240


def test_sql_table(spark: SparkSession) -> None:
    options = (
        f"path '{DATA}', subscribe 'plain', columns 'offset,partition', `kafka.bootstrap.servers` 'b:9092'"
    )
    spark.sql(f"CREATE TABLE plain USING kafkalog OPTIONS ({options})")
    try:
        assert spark.sql("SELECT count(*), max(offset) FROM plain").first()[:] == (440, 199)
        assert spark.table("plain").columns == ["offset", "partition"]
        assert spark.sql("SELECT * FROM plain WITH (endingTimestamp = '1700000005000')").count() == 20
    finally:
        spark.sql("DROP TABLE plain")


def test_sql_table_with_location(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE located USING kafkalog LOCATION '{DATA}'")
    try:
        assert spark.sql("SELECT count(*) FROM located").first()[0] == 2783
    finally:
        spark.sql("DROP TABLE located")


def test_sql_table_with_declared_columns(spark: SparkSession) -> None:
    """Spark does not pass the path of such a table to the data source."""
    spark.sql(f"CREATE TABLE declared (offset BIGINT) USING kafkalog OPTIONS (path '{DATA}')")
    try:
        with pytest.raises(AnalysisException, match="remove the columns from CREATE TABLE"):
            spark.sql("SELECT count(*) FROM declared").collect()
        assert spark.sql(f"SELECT * FROM declared WITH (path = '{DATA}')").count() == 2783
    finally:
        spark.sql("DROP TABLE declared")


def test_a_path_in_place_of_a_table_is_rejected_by_spark(spark: SparkSession) -> None:
    """docs/spark-read.md says so. If Spark accepts it one day, it can be a way in."""
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        spark.sql(f"SELECT * FROM kafkalog.`{DATA}`")


def test_sql_view(spark: SparkSession) -> None:
    committed = f"path '{DATA}', `kafka.isolation.level` 'read_committed'"
    spark.sql(f"CREATE TEMPORARY VIEW committed USING kafkalog OPTIONS ({committed})")
    spark.sql(f"CREATE TEMPORARY VIEW narrow (offset BIGINT) USING kafkalog OPTIONS ({committed})")
    assert spark.sql("SELECT count(*) FROM committed").first()[0] == 2714
    assert spark.sql("SELECT count(offset) FROM narrow").first()[0] == 2714
    spark.sql("DROP VIEW committed")
    spark.sql("DROP VIEW narrow")


CONNECT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert spark.read.format("kafkalog").load({data!r}).count() == 2783
from kafkalog_spark import KafkaLogDataSource
spark.dataSource.register(KafkaLogDataSource)
df = spark.read.format("kafkalog").option("subscribe", "txn").schema("offset bigint").load({data!r})
stream = (spark.readStream.format("kafkalog").option("subscribe", "plain")
          .option("startingOffsets", "earliest").load({data!r}))
(stream.writeStream.format("parquet").option("checkpointLocation", "checkpoint")
 .trigger(availableNow=True).start("rows").awaitTermination())
import pyarrow as pa
from kafkalog_spark import map_in_arrow
def sizes(batches):
    for batch in batches:
        yield pa.record_batch({{"n": [batch.num_rows]}})
mapped = map_in_arrow(spark, {data!r}, sizes, "n bigint", columns="offset", subscribe="txn")
assert mapped.groupBy().sum("n").first()[0] == df.count()
few = spark.read.format("kafkalog").option("where", "topic = 'txn' AND offset < 5").load({data!r})
assert few.count() == df.where("offset < 5").count() > 0
counts = spark.read.format("kafkalog").option("view", "counts").option("subscribe", "txn").load({data!r})
assert counts.groupBy().sum("count").first()[0] == df.count()
print("rows", df.count(), spark.read.parquet("rows").count())
spark.stop()
"""


def run_connect(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that uses Spark Connect.

    All such tests must be in this file, because all local servers of Spark Connect use the same port, and
    the tests of one file run one after the other.
    """
    pytest.importorskip("grpc_status")
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=500, cwd=folder
    )


@pytest.mark.connect
@pytest.mark.skipif(
    spark_version.startswith("4.0."),
    reason="Spark 4.0 rejects registering a source that it has already discovered",
)
def test_spark_connect(tmp_path: Path) -> None:
    run = run_connect(CONNECT.format(data=DATA), tmp_path)
    assert "rows 137 440" in run.stdout, run.stderr[-2000:]


CONNECT_TO_BUCKET = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
reader = spark.read.format("kafkalog").options(**{options!r})
frame = reader.option("subscribe", "payments").load({url!r})
counts = reader.option("view", "counts").option("subscribe", "payments").load({url!r})
print("rows", frame.count(), counts.groupBy().sum("count").first()[0])
spark.stop()
"""


@pytest.mark.connect
@pytest.mark.object_store
def test_spark_connect_reads_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    run = run_connect(
        CONNECT_TO_BUCKET.format(options=hadoop_options(s3), url=f"s3a://data/{BROKER}"), tmp_path
    )
    expected = LogDir(GOLDEN.parent / BROKER).scan("payments").count_rows()
    assert f"rows {expected} {expected}" in run.stdout, run.stderr[-2000:]
    assert hadoop_options(s3)["fs.s3a.secret.key"] not in run.stdout + run.stderr
