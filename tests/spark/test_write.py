"""The batch sink."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException
from pyspark.sql.types import BinaryType, StructField, StructType

import native_log
from kafkalog_spark.errors import PathNotVisibleError, WriteAbortedError
from kafkalog_spark.options.write import parse_write_options
from kafkalog_spark.write.plan import WritePlan
from native_log.publish.staging import StagingWriter
from tests.builders.cluster_metadata import store
from tests.builders.ownership import OWNER, as_root, give, owners

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def save(df: DataFrame, path: Path, **options: Any) -> None:
    """Append to topic t, unless `options` name another topic."""
    df.write.format("kafkalog").mode("append").options(**{"topic": "t", **options}).save(str(path))


def load(spark: SparkSession, path: Path, *columns: str) -> DataFrame:
    return spark.read.format("kafkalog").option("includeHeaders", "true").load(str(path)).select(*columns)


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def test_a_write_creates_the_directory_and_the_next_one_appends(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 1000, 1, 4).selectExpr(
        "cast(concat('k', id) as binary) key", "cast(concat('v', id) as binary) value"
    )
    save(df, tmp_path / "logs", partitions=3)
    save(df, tmp_path / "logs")
    written = load(spark, tmp_path / "logs", "key", "value")
    assert_df_equality(written, df.union(df), ignore_row_order=True, ignore_nullable=True)
    logs = native_log.LogDir(tmp_path / "logs")
    assert logs.topics() == {"t": [0, 1, 2]}
    for partition in range(3):
        log = logs.partition("t", partition)
        offsets = [o for batch in log.read(columns=["offset"]) for o in batch.column(0).to_pylist()]
        assert offsets == list(range(log.log_end_offset))
    assert not [name for name in files(tmp_path / "logs") if "kafkalog" in name]


@as_root
def test_new_files_belong_to_the_owner_of_the_directory(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path)
    values = spark.range(1000).selectExpr("cast(cast(id AS string) AS binary) AS value")
    for _ in range(2):
        save(values, tmp_path / "new" / "logs", partitions=2)
    assert owners(tmp_path) == {(OWNER, OWNER)}


def test_an_empty_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    """The topic of the option is created; without the option there is no topic to create."""
    df = spark.range(0).selectExpr("cast(id as string) value", "'of rows' topic")
    save(df, tmp_path / "named", partitions=2)
    assert native_log.LogDir(tmp_path / "named").topics() == {"t": [0, 1]}
    assert load(spark, tmp_path / "named", "value").count() == 0
    df.write.format("kafkalog").mode("append").save(str(tmp_path / "of-rows"))
    assert not (tmp_path / "of-rows").exists()


def test_every_column(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(
        """select cast(nullif(concat('k', id % 7), 'k3') as binary) key,
                  cast(if(id % 5 = 0, null, repeat('v', cast(id as int))) as binary) value,
                  if(id % 2 = 0, 'even', 'odd') topic, cast(id % 3 as int) partition,
                  timestamp_millis(1700000000000 + id) timestamp,
                  if(id % 4 = 0, null, array(named_struct('key', 'h', 'value', cast('x' as binary)),
                                             named_struct('key', '', 'value', cast(null as binary)))) headers,
                  id others
           from range(0, 200, 1, 3)"""
    )
    df.write.format("kafkalog").mode("append").option("partitions", 3).save(str(tmp_path / "logs"))
    columns = df.columns[:-1]
    written = load(spark, tmp_path / "logs", *columns)
    assert_df_equality(written, df.select(*columns), ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_segments_and_settings(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    df = spark.range(0, 3000, 1, 8).selectExpr("concat('value number ', id) value")
    settings = {"segment.bytes": 40000, "kafka.batch.size": 2000, "kafka.compression.type": codec}
    save(df, tmp_path / "logs", **settings, useTimestampColumn="false")
    log = native_log.LogDir(tmp_path / "logs").partition("t", 0)
    batches = [batch for rows in log.batches() for batch in rows.to_pylist()]
    assert {batch["compression"] for batch in batches} == {codec}
    assert max(batch["sizeInBytes"] for batch in batches) <= 2100
    assert all(segment.size_bytes <= 40000 for segment in log.segments)
    if codec == "none":
        assert 2 <= len(log.segments) <= 4
    values = log.read(columns=["value"]).read_all().column("value").to_pylist()
    assert values == [f"value number {number}".encode() for number in range(3000)]  # the order of the tasks


def test_records_without_a_timestamp_get_the_time_of_the_job(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("select 'v' value, timestamp_millis(1700000000000) timestamp from range(3)")
    save(df, tmp_path / "logs", useTimestampColumn="false")
    assert load(spark, tmp_path / "logs").where("timestamp > '2026-01-01'").count() == 3


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", None])
def test_timestamps_without_a_zone_are_in_the_session_time_zone(
    spark: SparkSession, tmp_path: Path, zone: str | None
) -> None:
    """The result is that of Spark's cast to timestamp."""
    setting = "spark.sql.session.timeZone"
    before = spark.conf.get(setting)
    if zone is None:
        spark.conf.unset(setting)
    else:
        spark.conf.set(setting, zone)
    try:
        df = spark.sql("select 'v' value, timestamp_ntz'2025-07-01 12:00:00' timestamp from range(3)")
        save(df, tmp_path / "logs")
        written = load(spark, tmp_path / "logs", "timestamp")
        assert_df_equality(written, df.selectExpr("cast(timestamp as timestamp)"), ignore_nullable=True)
    finally:
        spark.conf.set(setting, before)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select 'v' value, if(id = 5, null, 't') topic from range(9)", "contains a null topic"),
        (
            "select 'v' value, 't' topic, if(id = 5, 4, 0) partition from range(9)",
            "found 4 in column partition",
        ),
        ("select 'v' value, 't' topic, -1 partition from range(9)", "Invalid partition: -1"),
        ("select repeat('v', 2000000) value, 't' topic from range(9)", "max.message.bytes"),
        ("select 'v' value, 'no/topic' topic from range(9)", "a topic name of 1 to 249"),
        (
            "select 'v' value, 't' topic, timestamp'2100-01-01' timestamp from range(9)",
            "message.timestamp.after",
        ),
        (
            "select cast(raise_error('a row that fails') as string) value, 't' topic from range(9)",
            "a row that fails",
        ),
    ],
)
def test_a_failed_job_leaves_no_files(spark: SparkSession, tmp_path: Path, sql: str, message: str) -> None:
    logs = tmp_path / "logs"
    with pytest.raises(Exception, match=message):
        spark.sql(sql).write.format("kafkalog").mode("append").save(str(logs))
    assert not logs.exists()
    with native_log.LogDir.create(logs) as directory:
        directory.create_topic("t", 4)
    before = files(logs)
    with pytest.raises(Exception, match=message):
        spark.sql(sql).write.format("kafkalog").mode("append").save(str(logs))
    assert files(logs) == before


def test_overwrite_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(1).selectExpr("'v' value")
    with pytest.raises(AnalysisException, match="Overwrite not allowed"):
        df.write.format("kafkalog").mode("overwrite").option("topic", "t").save(str(tmp_path / "logs"))
    assert not (tmp_path / "logs").exists()


def test_misspelled_options_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(1).selectExpr("'v' value")
    with pytest.raises(AnalysisException, match="did you mean partitions"):
        save(df, tmp_path / "logs", partition=3)
    with pytest.raises(AnalysisException, match=r"did you mean segment\.bytes"):
        save(df, tmp_path / "logs", **{"segment.byte": 3})


def test_paths_that_are_no_log_directory_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(1).selectExpr("'v' value")
    save(df, tmp_path / "logs")
    with pytest.raises(AnalysisException, match="found a partition directory"):
        save(df, tmp_path / "logs" / "t-0")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("")
    with pytest.raises(AnalysisException, match=r"expected partitions or log segments, found notes\.txt"):
        save(df, tmp_path / "notes")
    assert files(tmp_path / "notes") == ["notes.txt"]


HOLD = """
import sys
from pathlib import Path
from native_log.checkpoints.lock import LogDirLock
LogDirLock(Path(sys.argv[1]))
print(flush=True)
input()
"""


def test_a_directory_that_a_broker_holds_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(1).selectExpr("'v' value")
    save(df, tmp_path / "logs")
    before = files(tmp_path / "logs")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "logs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        with pytest.raises(AnalysisException, match=f"locked by process {broker.pid}"):
            save(df, tmp_path / "logs")
        broker.communicate(b"\n")
    assert files(tmp_path / "logs") == before


def test_a_directory_with_a_malformed_checkpoint_is_rejected(tmp_path: Path) -> None:
    native_log.LogDir.create(tmp_path / "logs").create_topic("t")
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_bytes(bytes(64))
    options = parse_write_options({"path": os.fspath(tmp_path / "logs"), "topic": "t"})
    with pytest.raises(native_log.KafkaLogError, match=r"log-start-offset-checkpoint: line 1: .*recover"):
        WritePlan.begin(options, StructType([StructField("value", BinaryType())]))


def test_a_new_topic_in_a_broker_directory_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    native_log.LogDir.create(tmp_path / "logs")
    (tmp_path / "logs" / "__cluster_metadata-0").mkdir()
    options = parse_write_options({"path": os.fspath(tmp_path / "logs"), "topic": "new"})
    WritePlan.begin(options, StructType([StructField("value", BinaryType())]))
    assert "topic new is new in a broker's log directory" in caplog.text


def test_a_column_topic_cannot_name_the_log_of_the_controllers(tmp_path: Path) -> None:
    native_log.LogDir.create(tmp_path / "logs").create_topic("t")
    (tmp_path / "logs" / "t-0").rename(tmp_path / "logs" / "__cluster_metadata-0")
    schema = StructType().add("value", "binary").add("topic", "string")
    plan = WritePlan.begin(parse_write_options({"path": str(tmp_path / "logs")}), schema)
    with pytest.raises(native_log.InvalidTopicError, match="__cluster_metadata is the log of the KRaft"):
        plan.partition_count("__cluster_metadata")


def test_a_topic_is_written_with_its_stored_configuration(tmp_path: Path) -> None:
    data = tmp_path / "logs"
    native_log.LogDir.create(data).create_topic("t")
    store(data, "t", {"cleanup.policy": "compact", "compression.type": "zstd", "segment.bytes": "5000"})
    options = {
        "path": str(data),
        "kafka.compression.type": "lz4",
        "segment.bytes": "6000",
        "log.cleanup.policy": "delete",  # a broker's default, which overrides no stored setting
        "message.max.bytes": "70000",
    }
    plan = WritePlan.begin(
        parse_write_options(options), StructType().add("value", "binary").add("topic", "string")
    )
    attempt = plan.attempt("1")
    encoding, config = attempt.topic_settings("t")
    assert (encoding.compression, config.is_compacted, config.segment_bytes) == ("zstd", True, 6000)
    assert config.max_message_bytes == 70000
    encoding, config = attempt.topic_settings("new")
    assert (encoding.compression, config.is_compacted, config.segment_bytes) == ("lz4", False, 6000)
    with pytest.raises(native_log.InvalidRecordError, match="expected a key"):
        StagingWriter(attempt).append("t", 0, "t-0", pa.record_batch({"value": [b"v"]}))


def test_a_task_whose_job_has_ended(tmp_path: Path) -> None:
    native_log.LogDir.create(tmp_path / "logs")
    schema = StructType().add("value", "string")
    plan = WritePlan.begin(parse_write_options({"path": str(tmp_path / "logs"), "topic": "t"}), schema)
    plan.check_visible()
    plan.job.abort()
    with pytest.raises(WriteAbortedError, match="the write was aborted: its query was stopped"):
        plan.check_visible()
    shutil.rmtree(tmp_path / "logs")
    with pytest.raises(PathNotVisibleError, match=r"on host .* does not see"):
        plan.check_visible()


def test_insert_into_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Columns carry the options of their table, so a write uses only the path and topic it names itself."""
    for name in ("here", "there"):
        save(spark.range(3).selectExpr("'k' key", "'v' value"), tmp_path / name)
        options = f"path '{tmp_path / name}', columns 'key,value'"
        spark.sql(f"CREATE TABLE {name} USING kafkalog OPTIONS ({options})")
    target = f"('path' = '{tmp_path / 'here'}', 'topic' = 't')"
    try:
        for query in ("SELECT * FROM there", "SELECT key AS k, value FROM there"):
            with pytest.raises(AnalysisException, match=r"INSERT INTO t WITH \('path'"):
                spark.sql(f"INSERT INTO here {query}")
            spark.sql(f"INSERT INTO here WITH {target} {query}")
        with pytest.raises(AnalysisException, match="no path is given"):
            spark.table("there").writeTo("here").append()
        options = f"path '{tmp_path / 'copy'}', topic 't'"
        with pytest.raises(AnalysisException, match="no path is given"):
            spark.sql(f"CREATE TABLE copy USING kafkalog OPTIONS ({options}) AS SELECT * FROM there")
        assert spark.table("here").count() == 9
        assert spark.table("there").count() == 3
    finally:
        for name in ("here", "there"):
            spark.sql(f"DROP TABLE {name}")


def test_insert_of_key_and_value(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(3).selectExpr("'v' value"), tmp_path)
    spark.sql(f"CREATE TABLE orders USING kafkalog OPTIONS (path '{tmp_path}')")
    columns, rest = "(key, value)", ""
    if spark.version.startswith("4.0."):  # does not fill in columns that are not listed
        columns, rest = "", ", NULL, NULL, NULL, NULL, NULL"
    try:
        spark.sql(
            f"INSERT INTO orders WITH ('path' = '{tmp_path}', 'topic' = 't') {columns} "
            f"SELECT cast(a AS BINARY), cast(b AS BINARY){rest} FROM VALUES ('k', 'b') AS c(a, b)"
        )
        rows = spark.sql("SELECT topic, key, value FROM orders WHERE key IS NOT NULL").collect()
        assert [(row.topic, bytes(row.key), bytes(row.value)) for row in rows] == [("t", b"k", b"b")]
    finally:
        spark.sql("DROP TABLE orders")


def test_a_table_rejects_write_options(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(3).selectExpr("'v' value"), tmp_path)
    with pytest.raises(AnalysisException, match="unknown option 'topic': did you mean subscribe"):
        spark.sql(f"CREATE TABLE sink USING kafkalog OPTIONS (path '{tmp_path}', topic 't')")


SLOW = """
import sys, time
from pyspark.sql import SparkSession

def slow(batches):
    for batch in batches:
        yield batch
    time.sleep(60)

conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": 10, "spark.ui.enabled": "false"}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
rows = spark.range(0, 100_000, 1, 2).selectExpr("repeat('v', 1000) value")
df = rows.mapInArrow(slow, rows.schema)
df.write.format("kafkalog").mode("append").option("topic", "new").save(sys.argv[1])
"""


def test_a_killed_driver_leaves_no_files_after_the_next_write(spark: SparkSession, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    save(spark.range(3).selectExpr("'v' value"), logs)
    before = files(logs)
    command = [sys.executable, "-c", SLOW, str(logs)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + 120
        while not list(logs.rglob("*.batches")):
            assert driver.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(driver.pid, signal.SIGKILL)
    assert native_log.LogDir(logs).topics() == {"t": [0]}
    save(spark.range(2).selectExpr("'v' value"), logs)
    assert load(spark, logs).count() == 5
    names = [name for name in files(logs) if not name.endswith(".snapshot")]
    assert names == [name for name in before if not name.endswith(".snapshot")]
