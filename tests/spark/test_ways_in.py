"""How a user gets at it: by name, registered, in SQL, through Spark Connect, with one path or several."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.version import __version__ as spark_version

from kafkalog_spark import KafkaLogDataSource

from .parity import DATA

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_module_that_spark_looks_for_imports_little() -> None:
    """Spark imports it in every application that meets an unknown format."""
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
    spark_version.startswith("4.0."), reason="4.0 refuses a name that it found by itself before"
)
def test_registered(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaLogDataSource)
    assert spark.read.format("KafkaLog").load(DATA).count() == 2783


def test_single_partition_directories(spark: SparkSession) -> None:
    assert spark.read.format("kafkalog").load(f"{DATA}/plain-2").count() == 200
    assert spark.read.format("kafkalog").load([f"{DATA}/plain-2", f"file:{DATA}/plain-3"]).count() == 240


def test_sql(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE by_table USING kafkalog OPTIONS (path '{DATA}', subscribe 'plain')")
    spark.sql(
        f"CREATE TABLE narrow (offset BIGINT) USING kafkalog OPTIONS (path '{DATA}', subscribe 'plain')"
    )
    spark.sql(
        f"CREATE TEMPORARY VIEW by_view USING kafkalog OPTIONS (path '{DATA}', "
        "`kafka.isolation.level` 'read_committed')"
    )
    try:
        assert spark.sql("SELECT count(*), max(offset) FROM by_table").first()[:] == (440, 199)
        assert spark.sql("SELECT sum(offset) FROM narrow").first()[0] == sum(
            n * (n - 1) // 2 for n in (120, 80, 200, 40)
        )
        assert spark.sql("SELECT count(*) FROM by_view").first()[0] == 2714
    finally:
        spark.sql("DROP TABLE by_table")
        spark.sql("DROP TABLE narrow")
        spark.sql("DROP VIEW by_view")


CONNECT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert spark.read.format("kafkalog").load({data!r}).count() == 2783
from kafkalog_spark import KafkaLogDataSource
spark.dataSource.register(KafkaLogDataSource)
df = spark.read.format("kafkalog").option("subscribe", "txn").schema("offset bigint").load({data!r})
print("rows", df.count())
spark.stop()
"""


@pytest.mark.connect
@pytest.mark.skipif(
    spark_version.startswith("4.0."), reason="4.0 refuses a name that it found by itself before"
)
def test_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status")
    run = subprocess.run(
        [sys.executable, "-c", CONNECT.format(data=DATA)],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
    )
    assert "rows 137" in run.stdout, run.stderr[-2000:]
