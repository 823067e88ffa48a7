"""Compare reads with recordings of Spark's kafka source, for hundreds of combinations of options."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkalog_spark import KafkaLogDataSource

from .parity import CASES, DATA, PARITY, Outcome, unintended_differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KAFKA_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


def read_directly(options: dict[str, str]) -> Outcome:
    """Call the methods of the data source in Spark's order, without Spark."""
    try:
        source = KafkaLogDataSource(CaseInsensitiveDict({**options, "path": DATA}))
        source.schema()
    except Exception as error:
        return Outcome([], str(error), "load")
    try:
        reader = source.reader(KAFKA_SCHEMA)
        tasks = []
        for partition in reader.partitions():
            tasks.append(defaultdict(list))
            for batch in reader.read(partition):
                for topic, number, offset in zip(
                    *(batch.column(c).to_pylist() for c in (2, 3, 4)), strict=True
                ):
                    tasks[-1][topic, number].append(offset)
    except Exception as error:
        return Outcome([], str(error), "action")
    return Outcome(tasks)


def read_with_spark(spark: SparkSession, options: dict[str, str]) -> Outcome:
    try:
        df = spark.read.format("kafkalog").options(**options).load(DATA)
        schema = df.schema.simpleString()
    except Exception as error:
        return Outcome([], str(error), "load")
    try:
        tasks = [defaultdict(list) for _ in range(df._jdf.queryExecution().toRdd().getNumPartitions())]
        columns = [F.spark_partition_id().alias("task"), "topic", "partition", "offset"]
        for task, topic, number, offset in df.select(*columns).collect():
            tasks[task][topic, number].append(offset)
    except Exception as error:
        return Outcome([], str(error), "action", schema)
    return Outcome(tasks, schema=schema)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    got = read_directly(case["options"])
    assert not unintended_differences(case, got), got


@pytest.mark.spark
def test_cases_through_spark(spark: SparkSession) -> None:
    """Read some cases through a session: values cross processes, and errors appear at their stage."""

    def run(case: dict[str, Any]) -> tuple[dict[str, Any], Outcome]:
        return case, read_with_spark(spark, case["options"])

    with ThreadPoolExecutor(6) as threads:
        differing = {
            case["id"]: (aspects, case["options"], got.error)
            for case, got in threads.map(run, CASES[::8])
            if (aspects := unintended_differences(case, got))
        }
    assert not differing


@pytest.mark.spark
@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_rows(spark: SparkSession, isolation_level: str) -> None:
    """Every column of every row is equal, including headers."""
    with gzip.open(PARITY / f"rows-{isolation_level}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]

    def plain(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    records = [
        (
            *(plain(row["key"]), plain(row["value"]), row["topic"], row["partition"], row["offset"]),
            *(row["timestamp"], row["timestampType"]),
            None if row["headers"] is None else [(name, plain(value)) for name, value in row["headers"]],
        )
        for row in rows
    ]
    got = (
        spark.read.format("kafkalog")
        .option("kafka.isolation.level", isolation_level)
        .option("includeHeaders", "true")
        .load(DATA)
    )
    names = got.columns
    types = ", ".join(
        f"{f.name} {'bigint' if f.name == 'timestamp' else f.dataType.simpleString()}" for f in got.schema
    )
    expected = spark.createDataFrame(records, types).withColumn("timestamp", F.timestamp_millis("timestamp"))
    order = ["topic", "partition", "offset"]
    assert_df_equality(got.orderBy(*order), expected.select(*names).orderBy(*order))
