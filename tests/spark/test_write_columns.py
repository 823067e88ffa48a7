"""Which columns the sink writes, and that it drops none silently."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import native_log
from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.write import parse_write_options
from kafkalog_spark.write.batch import publish
from kafkalog_spark.write.columns import ColumnResolution, SinkColumns
from kafkalog_spark.write.plan import WritePlan
from kafkalog_spark.write.task import write_task

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {"timestamp": TimestampType(), "partition": IntegerType(), "headers": HEADERS}
OTHER_TYPES = (LongType(), StringType(), DateType(), IntegerType(), DoubleType())
OTHERS = {type_.simpleString(): type_ for type_ in OTHER_TYPES}


def schema(*names: str, **types: str) -> StructType:
    fields = [StructField(name, TYPES.get(name.lower(), StringType())) for name in names]
    return StructType(fields + [StructField(name, OTHERS[type_]) for name, type_ in types.items()])


def find(schema: StructType, *, case_sensitive: bool = False, **use: bool) -> SinkColumns:
    use = {"with_topic": True, "with_timestamp": True, **use}
    return ColumnResolution.from_schema(schema, **use).resolve(case_sensitive)


def test_names_may_have_any_case() -> None:
    names = ("Topic", "KEY", "Value", "TIMESTAMP", "pArTition", "Headers", "TimestampType")
    assert find(schema(*names)) == SinkColumns(
        {"value": 2, "key": 1, "headers": 5, "timestamp": 3}, topic=0, partition=4, unknown=()
    )


def test_names_of_another_case_are_other_columns_if_spark_is_case_sensitive() -> None:
    columns = find(schema("KEY", "value", "Value", "topic"), case_sensitive=True)
    assert columns == SinkColumns({"value": 1}, topic=3, partition=None, unknown=("KEY", "Value"))
    with pytest.raises(OptionError, match="Required attribute 'value' not found"):
        find(schema("VALUE", "topic"), case_sensitive=True)


@pytest.mark.parametrize("names", [("key", "KEY"), ("Value", "value"), ("Partition", "PARTITION")])
def test_names_that_differ_only_in_case_are_ambiguous(names: tuple[str, ...]) -> None:
    ambiguous = schema(*{"value": "value", "topic": "topic"}.keys() - names, *names)
    with pytest.raises(OptionError, match=f"expected one column {names[0].lower()}, found 2: {names[0]}"):
        find(ambiguous)


def test_columns_of_one_name_are_an_error() -> None:
    with pytest.raises(OptionError, match="expected one column value, found 2: value, value"):
        find(schema("topic", "value", "value"), case_sensitive=True)


@pytest.mark.parametrize("type_", ["bigint", "string", "date", "int", "double"])
@pytest.mark.parametrize("case_sensitive", [False, True])
def test_a_timestamp_of_another_type_is_an_error(type_: str, case_sensitive: bool) -> None:
    fields = schema("topic", "value", timestamp=type_)
    with pytest.raises(OptionError, match=f"unsupported type {type_}.*useTimestampColumn=false"):
        find(fields, case_sensitive=case_sensitive)
    assert find(fields, with_timestamp=False, case_sensitive=case_sensitive).unknown == ()


def test_unused_columns_are_not_checked() -> None:
    fields = schema("value", Topic="int", topic="int", timestamp="int", TimeStamp="int")
    columns = find(fields, with_topic=False, with_timestamp=False)
    assert columns == SinkColumns({"value": 0}, topic=None, partition=None, unknown=())


def test_unknown_columns_are_named_once_for_each_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = parse_write_options({"path": str(tmp_path / "logs"), "topic": "t"})
    plan = WritePlan.begin(options, schema("foo", "value", "offset", "bar"))
    commits = [write_task(plan, iter([])) for _ in range(3)]
    assert "foo" not in caplog.text
    publish(plan, commits)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([warning for warning in warnings if "not written" in warning and "foo, bar" in warning]) == 1


def test_a_new_directory_and_an_existing_topic_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def run(**options: str) -> str:
        caplog.clear()
        plan = WritePlan.begin(
            parse_write_options({"path": str(tmp_path / "logs"), "topic": "t", **options}), schema("value")
        )
        publish(plan, [write_task(plan, iter([pa.record_batch({"value": ["v"]})]))])
        return caplog.text

    assert f"{tmp_path / 'logs'}: created a new log directory" in run(partitions="2")
    assert "exists with" not in caplog.text
    assert run(partitions="2") == run() == ""
    assert "topic t exists with 2 partitions, so the option partitions=5 has no effect" in run(partitions="5")
    assert "created a new log directory" not in caplog.text


def write(spark: SparkSession, path: Path, sql: str, **options: Any) -> None:
    writer = (
        spark.sql(sql).write.format("kafkalog").mode("append").options(topic="t", partitions=3, **options)
    )
    writer.save(str(path))


@pytest.mark.spark
def test_spark_writes_columns_of_any_case(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, tmp_path, "select 'k' KEY, 'v' Value, 2 AS Partition from range(10)")
    log = native_log.LogDir(tmp_path).partition("t", 2)
    assert [row for batch in log.read(columns=["key", "value"]) for row in batch.to_pylist()] == [
        {"key": b"k", "value": b"v"}
    ] * 10


@pytest.mark.spark
def test_spark_rejects_ambiguous_columns_unless_it_is_case_sensitive(
    spark: SparkSession, tmp_path: Path
) -> None:
    sql = "select 'k' key, 'K' KEY, 'v' value from range(1)"
    with pytest.raises(Exception, match="expected one column key, found 2: key, KEY"):
        write(spark, tmp_path / "logs", sql)
    assert not (tmp_path / "logs").exists()
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        write(spark, tmp_path / "logs", sql)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    rows = spark.read.format("kafkalog").load(str(tmp_path / "logs")).select("key", "value").collect()
    assert [(bytes(row.key), bytes(row.value)) for row in rows] == [(b"k", b"v")]


@pytest.mark.spark
def test_spark_rejects_a_timestamp_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    sql = "select 'v' value, id timestamp from range(3)"
    with pytest.raises(Exception, match="timestamp attribute unsupported type bigint"):
        write(spark, tmp_path / "logs", sql)
    assert not (tmp_path / "logs").exists()
    write(spark, tmp_path / "logs", sql, useTimestampColumn="false")
    assert spark.read.format("kafkalog").load(str(tmp_path / "logs")).count() == 3
