"""Filters in Spark: with them, a query has the rows that it has without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from kafkalog_spark import map_in_arrow
from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.read import parse_read_options
from kafkalog_spark.read.where import Where
from native_log import LogDir
from native_log.filters.sql import parse_filter
from native_log.records import partition_of_key
from tests.builders.golden import GOLDEN
from tests.effort import examples
from tests.filters.rows import Condition, tables
from tests.filters.rows import conditions as random_conditions

from .parity import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ALL = "key,value,topic,partition,offset,timestamp,timestampType,producerId,isTransactional,compression"


def load(spark: SparkSession, path: str = DATA, **options: str) -> DataFrame:
    return spark.read.format("kafkalog").options(columns=ALL, **options).load(path)


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.fixture(scope="module")
def record(spark: SparkSession) -> Any:
    """A record in the middle, with a key."""
    found = rows(load(spark).filter("key IS NOT NULL"))
    return found[len(found) // 2]


def conditions(record: Any) -> list[str]:
    time = record.timestamp.strftime("%Y-%m-%d %H:%M:%S")
    key = bytes(record.key)
    return [
        f"key = X'{key.hex()}'",
        f"key = X'{key.hex()}' OR key IS NULL",
        f"NOT key = X'{key.hex()}'",
        f"key IN (X'{key.hex()}', X'00') AND topic = '{record.topic}'",
        "key NOT IN (X'00', NULL)",
        "key <=> NULL",
        f"offset BETWEEN {record.offset} AND {record.offset + 3}",
        f"offset >= '{record.offset}'",
        f"timestamp >= '{time}'",
        f"timestamp < TIMESTAMP '{time}' AND offset > 2",
        "timestamp > DATE '2020-01-01' AND partition <> 0",
        f"topic LIKE '{record.topic[:3]}%'",
        "isTransactional",
        "isTransactional = false AND compression <> 'none'",
        "CAST(value AS STRING) LIKE '%1%'",
        "value NOT LIKE '%1%' AND NOT topic NOT LIKE '%t%'",
        "timestamp IS NULL OR timestamp IS NOT NULL",
        "startswith(value, 'v') OR contains(key, '1')",
        "producerId >= 0",
        "timestamp > current_timestamp()",
        "PARTITION = 0 and `offset` < 5",
    ]


@pytest.mark.parametrize("options", [{}, {"kafka.isolation.level": "read_committed"}], ids=str)
def test_where_selects_what_spark_selects(spark: SparkSession, record: Any, options: dict[str, str]) -> None:
    everything = load(spark, **options).cache()
    for condition in conditions(record):
        expected = rows(everything.filter(condition))
        assert rows(load(spark, where=condition, **options)) == expected, condition
    everything.unpersist()


@settings(max_examples=examples(3), deadline=None)
@given(table=tables.filter(len), chosen=st.lists(random_conditions, min_size=40, max_size=40))
def test_random_conditions_mean_what_they_mean_in_spark(
    spark: SparkSession, table: pa.RecordBatch, chosen: list[Condition]
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    frame = spark.createDataFrame(pa.Table.from_batches([table]))
    answers = frame.select(*(F.expr(condition.sql).alias(f"c{n}") for n, condition in enumerate(chosen)))
    for condition, answer in zip(chosen, zip(*answers.collect(), strict=True), strict=True):
        selected = table.filter(pa.array([value is True for value in answer], pa.bool_()))
        assert parse_filter(condition.sql, time_zone=zone).apply(table).equals(selected), condition.sql


@pytest.mark.parametrize("mode", ["dropMalformed", "permissive"])
def test_damage(spark: SparkSession, mode: str) -> None:
    path = str(next(GOLDEN.glob("kafka-4.1/corrupt*/data")))
    everything = load(spark, path, mode=mode)
    for condition in ("offset >= 30", "key IS NULL", "value LIKE '%1%'"):
        assert rows(load(spark, path, mode=mode, where=condition)) == rows(everything.filter(condition))


def test_time_zone_of_the_session(spark: SparkSession, record: Any) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        condition = f"timestamp >= '{record.timestamp:%Y-%m-%d %H:%M:%S}'"
        assert load(spark, where=condition).count() == load(spark).filter(condition).count()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_partitions_and_offsets_are_planned_by_the_filter(spark: SparkSession, record: Any) -> None:
    whole = load(spark).rdd.getNumPartitions()
    assert load(spark, where=f"topic = '{record.topic}' AND offset < 2").rdd.getNumPartitions() <= whole
    assert load(spark, where="topic = 'no such topic'").count() == 0
    assert load(spark, where="offset < 0").count() == 0


def test_partitions_chosen_by_keys(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "logs")
    with LogDir.create(path) as logs:
        logs.create_topic("t", 3)
        for number in range(3):
            logs.partition("t", number).append(pa.record_batch({"key": [b"k"], "value": [b"v"]}))
    options = {"where": "key = 'k'"}
    assert load(spark, path, **options).count() == 3
    (row,) = load(spark, path, **options, keyPartitions="3").collect()
    assert row.partition == partition_of_key(b"k", 3)


def test_other_ways_in(spark: SparkSession, record: Any, tmp_path: Path) -> None:
    condition = f"topic = '{record.topic}' AND offset < 5"
    expected = rows(load(spark).filter(condition).select("topic", "partition", "offset"))
    # Spark 4.0 joins '' within a literal, as in 'a''b', instead of reading it as one quote.
    options = f"path '{DATA}', where \"{condition}\""
    spark.sql(f"CREATE TABLE filtered USING kafkalog OPTIONS ({options})")
    try:
        assert rows(spark.sql("SELECT topic, partition, offset FROM filtered")) == expected
    finally:
        spark.sql("DROP TABLE filtered")
    stream = (
        spark.readStream.format("kafkalog")
        .options(where=condition, startingOffsets="earliest", columns="topic,partition,offset")
        .load(DATA)
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("filtered_stream")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert rows(spark.table("filtered_stream")) == expected


def test_views(spark: SparkSession, record: Any) -> None:
    def view(name: str, **options: str) -> DataFrame:
        return spark.read.format("kafkalog").options(view=name, includeInternal="true", **options).load(DATA)

    for name, condition in [
        ("partitions", f"topic = '{record.topic}' OR segmentCount > 1"),
        ("batches", "baseOffset >= 10 AND NOT isControl"),
        ("segments", "sizeInBytes > 100 AND maxTimestamp > '2020-01-01'"),
        ("latest", f"topic = '{record.topic}' AND offset > 3"),
        ("transactions", "state = 'aborted'"),
    ]:
        assert sorted(map(str, view(name, where=condition).collect())) == sorted(
            map(str, view(name).filter(condition).collect())
        ), name
    narrow = view("partitions", where="segmentCount > 0", columns="topic")
    assert narrow.count() == view("partitions").count()


def test_invalid_conditions(spark: SparkSession) -> None:
    for text, message in [
        ("nokey = 1", "nokey"),
        ("offset % 2 = 0", "cannot express"),
        ("key =", "expected SQL"),
    ]:
        with pytest.raises(OptionError, match=message):
            Where.of(parse_read_options({"path": DATA, "where": text}))
        with pytest.raises(PySparkException, match=message):
            load(spark, where=text).count()
    with pytest.raises(OptionError, match="pushFilters"):
        parse_read_options({"path": DATA, "view": "batches", "pushFilters": "true"})


class TestPushdown:
    @pytest.fixture(autouse=True)
    def enabled(self, spark: SparkSession) -> Iterator[None]:
        import pyspark

        if pyspark.__version__.startswith("4.0."):
            pytest.skip("Spark 4.0 pushes no filters down")
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        yield
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    def test_rows_are_the_same(self, spark: SparkSession, record: Any) -> None:
        everything = load(spark).cache()
        for condition in conditions(record):
            expected = rows(everything.filter(condition))
            assert rows(load(spark, pushFilters="true").filter(condition)) == expected, condition
        everything.unpersist()

    def test_the_plan_shows_what_is_pushed(self, spark: SparkSession, capsys: Any) -> None:
        frame = load(spark, pushFilters="true").filter("offset >= 3 AND offset % 2 = 0")
        plan = frame._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
        )
        assert "offset" in plan.split("PushedFilters")[1].split("\n")[0]

    def test_with_where(self, spark: SparkSession, record: Any) -> None:
        both = load(spark, pushFilters="true", where="offset > 2").filter(F.col("partition") == 0)
        assert rows(both) == rows(load(spark).filter("offset > 2 AND partition = 0"))


def test_pushdown_that_is_not_enabled(spark: SparkSession) -> None:
    import pyspark

    if pyspark.__version__.startswith("4.0."):
        pytest.skip("Spark 4.0 pushes no filters down")
    with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        load(spark, pushFilters="true").count()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kafka.isolation.level": "read_committed"},
        {"where": "offset >= 3"},
        {"where": "key IS NOT NULL"},
        {"startingOffsets": "earliest", "endingTimestamp": "9999999999999"},
    ],
    ids=str,
)
def test_counts(spark: SparkSession, options: dict[str, str]) -> None:
    if "endingTimestamp" in options:
        options = {**options, "startingTimestamp": "0", "startingOffsetsByTimestampStrategy": "latest"}
    counts = spark.read.format("kafkalog").options(view="counts", **options).load(DATA)
    assert counts.columns == ["topic", "partition", "count"]
    expected = {
        (r.topic, r.partition): r["count"]
        for r in load(spark, **options).groupBy("topic", "partition").count().collect()
    }
    found = {(r.topic, r.partition): r["count"] for r in counts.collect()}
    assert {key: count for key, count in found.items() if count} == expected
    assert set(found) >= set(expected)


def test_partitions_that_a_condition_names_are_counted(spark: SparkSession, record: Any) -> None:
    def counts(where: str) -> dict[tuple[str, int], int]:
        reader = spark.read.format("kafkalog").options(view="counts", where=where)
        return {(row.topic, row.partition): row["count"] for row in reader.load(DATA).collect()}

    partitions = {key for key in counts("key IS NULL OR key IS NOT NULL") if key[0] == record.topic}
    assert counts(f"topic = '{record.topic}' AND offset < 0") == dict.fromkeys(partitions, 0)
    assert counts("topic = 'no such topic'") == {}
    assert counts("key = 'no such key'").keys() > partitions


def lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sizes = pc.binary_length(batch.column("value")).cast(pa.int64())
        yield pa.RecordBatch.from_arrays([sizes], names=["size"])


class TestMapInArrow:
    def test_only_the_result_is_transferred(self, spark: SparkSession) -> None:
        def sizes_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                sizes = pc.binary_length(batch.column("value")).cast(pa.int64())
                yield pa.RecordBatch.from_arrays([sizes], names=["size"])

        sizes = map_in_arrow(spark, DATA, sizes_of, "size bigint", columns="value", where="offset < 5")
        expected = load(spark).filter("offset < 5").select(F.length("value").cast("bigint").alias("size"))
        assert sorted(map(str, sizes.collect())) == sorted(map(str, expected.collect()))

    def test_what_the_function_gets(self, spark: SparkSession) -> None:
        def names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
            for batch in batches:
                yield pa.table({"n": [batch.num_rows], "names": [",".join(batch.schema.names)], "more": [1]})

        found = (
            map_in_arrow(spark, DATA, names, "names string, n int").groupBy("names").agg(F.sum("n")).collect()
        )
        default = "key,value,topic,partition,offset,timestamp,timestampType"
        assert [tuple(row) for row in found] == [(default, load(spark).count())]

    def test_as_an_option(self, spark: SparkSession) -> None:
        reader = spark.read.format("kafkalog").option("mapInArrow", "tests.spark.test_where:lengths")
        assert reader.schema("size bigint").load(DATA).count() == load(spark).count()

    def test_errors_name_the_offsets_and_keep_the_traceback(self, spark: SparkSession) -> None:
        def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.select([{"a": 0}["no such key"]])

        with pytest.raises(PySparkException) as caught:
            map_in_arrow(spark, DATA, fails, "size bigint").collect()
        message = str(caught.value)
        assert "The function of mapInArrow failed in offsets 0 to" in message
        assert "in fails" in message
        assert "KeyError: 'no such key'" in message

    def test_batches_of_another_schema(self, spark: SparkSession) -> None:
        def other(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (batch.select(["offset"]) for batch in batches)

        with pytest.raises(PySparkException, match="expected a column size"):
            map_in_arrow(spark, DATA, other, "size bigint").collect()

    def test_invalid_options(self) -> None:
        with pytest.raises(OptionError, match="view=records"):
            parse_read_options({"path": DATA, "view": "batches", "mapInArrow": "a:b"})
