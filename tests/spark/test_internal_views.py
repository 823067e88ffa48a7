"""The views of internal topics show what native_log returns."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from markdown_blocks import ROOT
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import OptionError
from kafkalog_spark.views.internal import INTERNAL_VIEWS
from native_log import LogDir
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DATA = str(GOLDEN / "kafka-4.1/whole-broker/data")
SAMPLE = str(ROOT / "examples/kafka-logs")


def view_rows(spark: SparkSession, name: str, **options: str) -> list[dict[str, Any]]:
    frame = spark.read.format("kafkalog").options(view=name, **options).load(DATA)
    return _sorted(row.asDict(recursive=True) for row in frame.collect())


def table_rows(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    rows = reader.read_all().to_pylist()
    for row in rows:
        for name, value in row.items():
            if hasattr(value, "tzinfo"):
                row[name] = value.astimezone().replace(tzinfo=None)  # as Spark collects timestamps
    return _sorted(rows)


def _sorted(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


@pytest.mark.parametrize("history", [False, True])
def test_consumer_offsets(spark: SparkSession, history: bool) -> None:
    shown = view_rows(spark, "consumer_offsets", history=str(history))
    assert shown == table_rows(LogDir(DATA).consumer_offsets(history=history))
    assert len(shown) == (28 if history else 9)


def test_lag(spark: SparkSession) -> None:
    options = {"offsets.retention.minutes": "2000000000"}
    shown = view_rows(spark, "lag", columns="group,topic,partition,offset,logEndOffset,lag,state", **options)
    assert {row["state"] for row in shown} == {"committed"}
    table = LogDir(DATA).lag(offsets_retention_minutes=2_000_000_000)
    assert shown == _sorted(table.read_all().select(list(shown[0])).to_pylist())


@pytest.mark.parametrize("name", ["groups", "transaction_state", "cluster_metadata"])
def test_other_views(spark: SparkSession, name: str) -> None:
    frame = spark.read.format("kafkalog").option("view", name).load(SAMPLE)
    table = getattr(LogDir(SAMPLE), name)().read_all()
    assert frame.columns == table.column_names
    names = [field.name for field in table.schema if "Timestamp" not in field.name]
    shown = [row.asDict(recursive=True) for row in frame.select(names).collect()]
    assert _sorted(shown) == _sorted(table.select(names).to_pylist())
    assert shown


@pytest.mark.parametrize("offset", [64, 70])
def test_cluster_metadata_as_of_an_offset(offset: int) -> None:
    options = {"path": DATA, "view": "cluster_metadata", "asOfOffset": str(offset)}
    schema = StructType([StructField("topic", StringType()), StructField("partition", IntegerType())])
    reader = KafkaLogDataSource(CaseInsensitiveDict(options)).reader(schema)
    shown = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    table = LogDir(DATA).cluster_metadata(as_of_offset=offset).read_all()
    assert shown == table.select(["topic", "partition"]).to_pylist()


def test_cluster_metadata_before_a_broker_has_started(tmp_path: Path) -> None:
    shutil.copy(f"{DATA}/bootstrap.checkpoint", tmp_path)
    shutil.copy(f"{DATA}/meta.properties", tmp_path)
    options = {"path": str(tmp_path), "view": "cluster_metadata"}
    schema = StructType([StructField("name", StringType()), StructField("value", StringType())])
    reader = KafkaLogDataSource(CaseInsensitiveDict(options)).reader(schema)
    shown = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    table = LogDir(tmp_path, allow_empty=True).cluster_metadata().read_all()
    assert shown == table.select(["name", "value"]).to_pylist()
    assert {"name": "metadata.version", "value": "27"} in shown


@pytest.mark.parametrize("name", INTERNAL_VIEWS)
def test_offsets_do_not_apply(name: str) -> None:
    source = KafkaLogDataSource(CaseInsensitiveDict({"path": DATA, "view": name, "endingTimestamp": "5"}))
    with pytest.raises(OptionError, match=f"view={name} shows whole partitions"):
        source.reader(StructType([StructField("lag", LongType())]))
