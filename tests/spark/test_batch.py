"""Batch reads end to end: logs written by brokers, columns, splits, damage."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections import Counter
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType
from pyspark.version import __version__ as spark_version

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import DataLossError, OptionError
from kafkalog_spark.read.tasks import SMALL_BYTES, merge_small_batches
from kafkalog_spark.schema import KAFKA_COLUMNS, RECORDS
from native_log.errors import CorruptRecordError, KafkaLogError
from native_log.log import LogRange
from native_log.segment.entries import TIME_ENTRY
from native_log.segment.files import file_name
from tests.builders.batches import T0, batch
from tests.builders.golden import GOLDEN, golden_partitions
from tests.builders.logs import write_log
from tests.effort import examples

from .parity import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = (
    "key binary, value binary, offset bigint, timestamp bigint, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
LOCATION = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)


def source(**options: str) -> KafkaLogDataSource:
    return KafkaLogDataSource(CaseInsensitiveDict({"path": DATA, **options}))


def tasks(**options: str) -> list[list[tuple[str, int, int]]]:
    """Return what each task reads, without Spark."""
    reader = source(**options).reader(LOCATION)
    return [
        [
            row
            for batch in reader.read(partition)
            for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
        ]
        for partition in reader.partitions()
    ]


def read(spark: SparkSession, path: object = DATA, **options: str) -> DataFrame:
    return spark.read.format("kafkalog").options(**options).load(str(path))


@pytest.mark.spark
@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    "fixture",
    [
        "kafka-2.8/v0-snappy",
        "kafka-2.8/v1-logappend-gzip",
        "kafka-2.8/mixed",
        "kafka-3.9/txn-lz4",
        "kafka-4.1/txn-trimmed",
        "kafka-4.1/timestamps",
        "kafka-4.1/compact-nullkeys/round1-after",
        "kafka-4.1/compact-crash-swap-deleted",
        "kafka-4.1/offsets-huge",
        "kafka-4.1/corrupt-index-garbage",
        "kafka-4.1/whole-broker",
    ],
)
def test_rows_are_those_of_a_consumer(spark: SparkSession, fixture: str, isolation_level: str) -> None:
    partitions = [partition for partition in golden_partitions() if partition.fixture == fixture]
    expected = [
        (
            *(row["key"], row["value"], row["offset"], row["timestamp"], row["timestampType"]),
            row["headers"] or None,
        )
        for partition in partitions
        for row in partition.rows(isolation_level)
    ]
    assigned = ",".join({partition.topic for partition in partitions})
    got = read(
        spark,
        GOLDEN / fixture / "data",
        **{"subscribe": assigned, "kafka.isolation.level": isolation_level, "includeHeaders": "true"},
        maxBytesPerPartition="7k",
    ).withColumn("timestamp", F.unix_millis("timestamp"))
    columns = [field.split(" ")[0] for field in ROW.split(", ")]
    assert_df_equality(
        got.select(*columns),
        spark.createDataFrame(expected, ROW),
        ignore_row_order=True,
        ignore_nullable=True,
    )


limit = st.none() | st.integers(10, 300)


@settings(max_examples=examples(6), deadline=None)
@given(
    limit,
    limit,
    st.none() | st.integers(100, 20_000),
    st.sampled_from(["read_uncommitted", "read_committed"]),
)
def test_splits_lose_no_rows_and_repeat_none(
    min_partitions: int | None, max_records: int | None, max_bytes: int | None, isolation_level: str
) -> None:
    base = {"kafka.isolation.level": isolation_level, "includeInternal": "true"}
    options = {
        "minPartitions": min_partitions,
        "maxRecordsPerPartition": max_records,
        "maxBytesPerPartition": max_bytes,
    }
    split = tasks(**base, **{name: str(value) for name, value in options.items() if value is not None})
    got, expected = Counter(row for task in split for row in task), Counter(tasks(**base)[0])
    assert (got - expected, expected - got) == (Counter(), Counter())
    if max_records is not None:
        assert all(len(task) <= max_records for task in split)


def test_small_partitions_share_tasks() -> None:
    assert len(tasks()) == 1
    assert len(tasks(maxBytesPerPartition="4k")) > 26


def test_wildcards_in_paths(tmp_path: Path) -> None:
    """Wildcards match directories, as in Spark's file sources."""
    for number in range(3):
        shutil.copytree(Path(DATA) / "orders-0", tmp_path / "a[1]" / f"orders-{number}")
    (tmp_path / "a[1]" / "orders-note.txt").touch()

    def partitions(path: str) -> set[int]:
        return {partition for task in tasks(path=path) for _, partition, _ in task}

    assert partitions(f"file:{tmp_path}/*/orders-[02]*") == {0, 2}
    assert partitions(f"{tmp_path}/a[1]") == {0, 1, 2}


def test_large_batches_are_read_if_the_limit_is_raised() -> None:
    path = str(GOLDEN / "kafka-4.1" / "huge-batches" / "data")
    with pytest.raises(CorruptRecordError, match="raise max_batch_bytes"):
        tasks(path=path, maxBatchBytes="20k")
    assert sum(map(len, tasks(path=path, maxBatchBytes="512m"))) > 0


def test_a_plan_is_repeatable(tmp_path: Path) -> None:
    """Records appended after planning are not read: the offsets are fixed."""
    log = tmp_path / "orders-0" / "00000000000000000000.log"
    shutil.copytree(Path(DATA) / "orders-0", log.parent)
    reader = source(path=str(tmp_path), subscribe="orders").reader(LOCATION)
    partitions = reader.partitions()
    log.write_bytes(log.read_bytes() + log.read_bytes())
    assert sum(batch.num_rows for p in partitions for batch in reader.read(p)) == 12


def test_the_reader_sent_to_tasks_is_small() -> None:
    named = {str(i): -2 for i in range(10_000)}
    reader = source(startingOffsets=f'{{"plain":{named}}}'.replace("'", '"')).reader(LOCATION)
    assert len(pickle.dumps(reader)) < 5_000


@pytest.mark.parametrize("nothing", [None, object()])
def test_without_partitions_a_task_reads_nothing(nothing: Any) -> None:
    """Spark runs one task even then, with None or a partition of its own."""
    assert source(assign="{}").reader(LOCATION).partitions() == []
    assert list(source(assign="{}").reader(LOCATION).read(nothing)) == []


@pytest.mark.spark
def test_columns(spark: SparkSession) -> None:
    every = read(spark, columns=",".join(RECORDS.names), subscribe="plain")
    assert every.columns == RECORDS.names
    some = read(spark, columns="segment, POSITION,offset,compression", subscribe="plain")
    assert some.columns == ["segment", "position", "offset", "compression"]
    assert_df_equality(some, every.select(*some.columns), ignore_row_order=True)
    assert {row.compression for row in some.collect()} == {"none", "gzip", "snappy", "lz4", "zstd"}


@pytest.mark.spark
def test_a_schema_selects_columns(spark: SparkSession) -> None:
    schema = StructType(
        [StructField("Offset", LongType(), nullable=False), StructField("timestamp", TimestampType())]
    )
    got = spark.read.format("kafkalog").schema(schema).option("subscribe", "plain").load(DATA)
    assert got.columns == ["Offset", "timestamp"]
    expected = read(spark, subscribe="plain").select("offset", "timestamp")
    assert sorted(got.collect()) == sorted(expected.collect())


@pytest.mark.spark
def test_no_columns(spark: SparkSession) -> None:
    none = spark.read.format("kafkalog").schema(StructType([])).option("subscribe", "plain").load(DATA)
    if spark_version.startswith("4.0."):
        with pytest.raises(AnalysisException, match=r"Spark 4\.0 loses the rows of a read without columns"):
            none.count()
    else:
        assert none.count() == 440


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("offest", LongType()), "schema: no such column 'offest'; expected some of key, value"),
        (StructField("offset", IntegerType()), "schema: column offset: expected bigint, found int"),
        (StructField("value", StringType()), "schema: column value: expected binary, found string"),
    ],
)
def test_invalid_schemas(field: StructField, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        source().reader(StructType([field]))


def test_a_column_selected_twice_is_an_error() -> None:
    twice = StructType([StructField("offset", LongType()), StructField("OFFSET", LongType())])
    with pytest.raises(OptionError, match="schema: expected each column only once"):
        source().reader(twice)
    with pytest.raises(OptionError, match="columns: expected each column only once"):
        source(columns="offset,Offset").schema()


def test_nulls_in_a_column_declared_not_null_are_an_error() -> None:
    from pyspark.sql.types import BinaryType

    reader = source(subscribe="nulls").reader(StructType([StructField("key", BinaryType(), nullable=False)]))
    with pytest.raises(KafkaLogError, match="column key is declared NOT NULL"):
        [list(reader.read(partition)) for partition in reader.partitions()]


@pytest.mark.spark
def test_damage(spark: SparkSession) -> None:
    """A log with one damaged batch gives all other rows, and reports where rows are missing."""
    path = GOLDEN / "kafka-4.1" / "corrupt-bad-crc" / "data"
    with pytest.raises(PythonException, match=r"\.log, position \d+, offset \d+: .*dropMalformed"):
        read(spark, path).collect()
    dropped = read(spark, path, mode="dropMalformed")
    permissive = read(spark, path, mode="permissive", columns="offset,value,segment,_corrupt_record")
    good = permissive.where("_corrupt_record is null").select("offset", "value")
    assert_df_equality(good, dropped.select("offset", "value"), ignore_row_order=True)
    (bad,) = permissive.where("_corrupt_record is not null").collect()
    assert bad.value is None
    assert bad.segment.endswith(".log")
    assert "CRC" in bad["_corrupt_record"].upper()
    assert dropped.where(f"offset = {bad.offset}").count() == 0
    assert dropped.where(f"offset > {bad.offset}").count() > 0
    unchecked = read(spark, path, **{"kafka.check.crcs": "false"})
    assert unchecked.count() > dropped.count()


def test_a_planned_partition_was_removed(tmp_path: Path) -> None:
    shutil.copytree(Path(DATA) / "orders-0", tmp_path / "orders-0")
    reader = source(path=str(tmp_path), subscribe="orders").reader(LOCATION)
    partitions = reader.partitions()
    shutil.rmtree(tmp_path / "orders-0")
    with pytest.raises((FileNotFoundError, KafkaLogError), match="orders-0"):
        [list(reader.read(partition)) for partition in partitions]


def test_a_copy_that_is_still_being_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next read of an incremental job: its starting offset is where the log ended before."""
    directory = tmp_path / "t-0"
    write_log(directory, {0: [batch(0)], 6: [batch(6)]})
    options = {"path": str(tmp_path), "startingOffsets": '{"t":{"0":3}}'}
    assert list(chain(*tasks(**options))) == [("t", 0, 6), ("t", 0, 7), ("t", 0, 8)]
    (directory / file_name(0, "timeindex")).write_bytes(TIME_ENTRY.pack(T0 + 5, 5))
    with pytest.raises(DataLossError, match="ends before offset 3, but its time index says"):
        tasks(**options)
    assert len(list(chain(*tasks(**options, failOnDataLoss="false")))) == 3
    assert "ends before offset 3" in caplog.text


def test_an_internal_topic_is_read_by_the_path_of_its_partition(tmp_path: Path) -> None:
    for name in ("__consumer_offsets-3", "__consumer_offsets-4", "t-0"):
        write_log(tmp_path / name, {0: [batch(0)]})
    assert {row[0] for row in chain(*tasks(path=str(tmp_path)))} == {"t"}
    internal = list(chain(*tasks(path=str(tmp_path / "__consumer_offsets-3"))))
    assert internal == [("__consumer_offsets", 3, offset) for offset in range(3)]


def test_the_first_requested_records_were_compacted_away(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write_log(directory, {0: [batch(0), batch(9)], 12: [batch(12)]})
    (directory / file_name(0, "timeindex")).write_bytes(TIME_ENTRY.pack(T0 + 11, 11))
    options = {"path": str(tmp_path), "startingOffsets": '{"t":{"0":3}}'}
    assert list(chain(*tasks(**options, endingOffsets='{"t":{"0":6}}'))) == []
    assert list(chain(*tasks(**options, endingOffsets='{"t":{"0":10}}'))) == [("t", 0, 9)]


def test_a_segment_is_replaced_while_the_read_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "t-0", {0: [batch(first) for first in range(0, 27, 3)], 27: [batch(27)]})
    compacted = tmp_path / "compacted"
    compacted.write_bytes(batch(0) + batch(12) + batch(24))
    split = LogRange.split

    def compact_and_split(log_range: LogRange, max_bytes: int) -> list[LogRange]:
        if compacted.exists():
            compacted.replace(tmp_path / "t-0" / file_name(0, "log"))
        return split(log_range, max_bytes)

    monkeypatch.setattr(LogRange, "split", compact_and_split)
    read = tasks(path=str(tmp_path), startingOffsets='{"t":{"0":0}}', maxBytesPerPartition="200")
    assert [offset for *_, offset in chain(*read)] == [0, 1, 2, 12, 13, 14, *range(24, 30)]


def test_a_planned_segment_was_removed(tmp_path: Path) -> None:
    partition = tmp_path / "append-time-0"
    shutil.copytree(Path(DATA) / "append-time-0", partition)
    readers = [source(path=str(tmp_path), failOnDataLoss=fail).reader(LOCATION) for fail in ("true", "false")]
    (whole,), (part,) = (reader.partitions() for reader in readers)
    rows = sum(batch.num_rows for batch in readers[0].read(whole))
    sorted(partition.glob("*.log"))[1].unlink()
    with pytest.raises(FileNotFoundError, match="a segment was removed"):
        list(readers[0].read(whole))
    assert 0 < sum(batch.num_rows for batch in readers[1].read(part)) < rows


@pytest.mark.spark
@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/no/such/dir", {}, "/no/such/dir"),
        (str(GOLDEN), {}, "expected partitions or log segments"),
        (DATA, {"subscribe": "nosuch"}, f"{DATA}: unknown topic 'nosuch'"),
        (f"{DATA}/nosuch-*", {}, "no directory matches: '.*/nosuch-"),
        (DATA, {"columns": "offest"}, "columns: no such column 'offest'"),
        (DATA, {"startingOffset": "earliest"}, "did you mean startingOffsets"),
        (DATA, {"view": "latest", "maxRecordsPerPartition": "5"}, "view=latest reads each partition in one"),
        (DATA, {"minPartitions": "0"}, "minPartitions: expected a number of at least 1"),
    ],
)
def test_errors_at_load(spark: SparkSession, path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        read(spark, path, **options)


@pytest.mark.spark
def test_option_errors_with_a_schema(spark: SparkSession) -> None:
    """If a schema is passed, newer versions of Spark create the data source at the first action."""
    with pytest.raises(AnalysisException, match="minPartitions: expected an integer of 32 bits, found 'x'"):
        spark.read.format("kafkalog").schema("offset bigint").option("minPartitions", "x").load(DATA).count()


def test_defaults_are_the_columns_of_the_kafka_source() -> None:
    assert [column.split("`")[1] for column in source().schema().split(", ")] == list(KAFKA_COLUMNS)


@given(st.lists(st.integers(0, 60_000), max_size=12))
@settings(deadline=None)
def test_merge_small_batches(sizes: list[int]) -> None:
    """All rows are in order, the first batch is unchanged, and no two others in sequence are both small."""
    rows = iter(range(sum(sizes)))
    batches = [pa.record_batch([pa.array(islice(rows, n), pa.int64())], ["n"]) for n in sizes]
    got = list(merge_small_batches(iter(batches)))
    assert [n for batch in got for n in batch.column(0).to_pylist()] == list(range(sum(sizes)))
    assert [batch.num_rows for batch in got[:1]] == sizes[:1]
    for first, second in pairwise(got[1:]):
        assert first.nbytes + second.nbytes >= SMALL_BYTES


def test_the_plan_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    """The line goes to stderr, because nobody configures logging in the process in which Spark plans."""
    script = (
        "from pyspark.sql.types import StructType\n"
        "from kafkalog_spark import KafkaLogDataSource\n"
        f"source = KafkaLogDataSource({{'path': {DATA!r}, 'subscribe': 'orders,plain'}})\n"
        "source.reader(StructType().add('offset', 'long')).partitions()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    (line,) = capfd.readouterr().err.splitlines()
    size = sum(
        len(log.read_bytes()) for name in ("orders", "plain") for log in Path(DATA).glob(f"{name}-*/*.log")
    )
    assert line.endswith(
        f" kafkalog: 2 topics (orders, plain), 5 partitions, {size:,} bytes, 1 task, of {DATA}"
    )
