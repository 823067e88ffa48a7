"""A broker serves logs that Spark wrote, compacted and retained, appends to them, and recovers them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalog_spark import compact, retain
from native_log import LogDir
from tests.builders.commits import staged_job
from tests.spark.conftest import spark  # noqa: F401

from .cluster import ROW_COLUMNS, Cluster, Consumed, Row, rows
from .files import contents, dump_log, remove_derived, replace_log
from .written_log import row, to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

T0 = 1_700_000_000_000
COUNT = 3000
PARTITIONS = 3
TOPICS = {"batch": PARTITIONS, "stream": PARTITIONS, "continued": 1, "elsewhere": 1}
"""Numbers of partitions. Spark creates the last topic in a log directory of its own; the test moves it."""
CLEANED_UP = ["compacted", "retained"]
SETTINGS = {"segment.bytes": 20_000, "index.interval.bytes": 3000, "kafka.batch.size": 2000}
CODECS = {"batch": "zstd", "stream": "none", "continued": "lz4", "elsewhere": "gzip"}


def records() -> list[Row]:
    return [row(n, T0 + n) for n in range(COUNT)]


def data_frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:  # noqa: F811
    schema = "key binary, value binary, time_ms long, headers array<struct<key:string,value:binary>>"
    values = [(record.key, record.value, record.timestamp_ms, record.headers) for record in rows]
    columns = "key", "value", "timestamp_millis(time_ms) timestamp", "headers"
    return spark.createDataFrame(values, schema).selectExpr(*columns).repartition(4)


def options(topic: str) -> dict[str, Any]:
    return {**SETTINGS, "topic": topic, "kafka.compression.type": CODECS.get(topic, "snappy")}


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("spark") / "logs", class_path)
    yield cluster
    cluster.stop()


class Written(NamedTuple):
    """What Spark wrote, by topic and partition: the records read back, and the files.

    Attributes:
        dumped: output and error output of kafka-dump-log.
        cleaned_up: the records that must be left of the topics in CLEANED_UP.
    """

    rows: dict[tuple[str, int], list[Row]]
    files: dict[tuple[str, int], dict[str, bytes]]
    dumped: tuple[str, str]
    cleaned_up: dict[str, list[Row]]


@pytest.fixture(scope="module")
def written(broker: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:  # noqa: F811
    for topic, partitions in (TOPICS | dict.fromkeys(CLEANED_UP, 1)).items():
        broker.create(topic, partitions, index_interval_bytes=3000)
    broker.send("continued", 1000, value_bytes=40, batch_size=2000)
    broker.stop()
    folder = tmp_path_factory.mktemp("written-by-spark")
    df = data_frame(spark, records())
    for topic in ("batch", "continued"):
        df.write.format("kafkalog").mode("append").options(**options(topic)).save(str(broker.log_dir))
    write_stream(spark, df, folder, broker.log_dir)
    df.write.format("kafkalog").mode("append").options(**options("elsewhere")).save(str(folder / "logs"))
    replace_log(broker.log_dir / "elsewhere-0", folder / "logs" / "elsewhere-0")
    logs = LogDir(broker.log_dir)
    records_read = {}
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            log = logs.partition(topic, partition)
            records_read[topic, partition] = rows(log.read(columns=ROW_COLUMNS))
    paths = {key: logs.partition(*key).path for key in records_read}
    files = {key: contents(path) for key, path in paths.items()}
    dumped, cleaned_up = dump_log(broker.broker, paths.values()), clean_up(spark, broker.log_dir)
    # Stage writes without a commit, to an existing topic and to a new one.
    for topic in ("batch", "not-there"):
        staged_job(broker.log_dir, 0, 1000, topic=topic)
    return Written(records_read, files, dumped, cleaned_up)


def clean_up(spark: SparkSession, log_dir: Path) -> dict[str, list[Row]]:  # noqa: F811
    """Write, compact and retain; return the records that must be left."""
    df = data_frame(spark, [row(n, T0 + n, with_key=True) for n in range(COUNT)])
    before = {}
    for topic in CLEANED_UP:
        df.write.format("kafkalog").mode("append").options(**options(topic)).save(str(log_dir))
        log = LogDir(log_dir).partition(topic, 0)
        base_offsets = [segment.base_offset for segment in log.segments]
        before[topic] = rows(log.read(columns=ROW_COLUMNS)), base_offsets
    always = {"min.cleanable.dirty.ratio": 0, "segment.bytes": 2**20}
    report = compact(spark, str(log_dir), topics=["compacted"], config=always).collect()
    assert [partition.status for partition in report] == ["cleaned"]
    all_records, bases = before["compacted"]
    newest = {record.key: record.offset for record in all_records if record.offset < bases[-1]}
    compacted = [
        record for record in all_records if record.offset >= bases[-1] or newest[record.key] == record.offset
    ]
    by_size = {"retention.bytes": 30_000, "retention.ms": -1}
    retain(spark, str(log_dir), topics=["retained"], config=by_size).collect()
    first = LogDir(log_dir).partition("retained", 0).log_start_offset
    all_records, bases = before["retained"]
    assert first in bases[1:]
    retained = [record for record in all_records if record.offset >= first]
    return {"compacted": compacted, "retained": retained}


def write_stream(spark: SparkSession, df: DataFrame, folder: Path, log_dir: Path) -> None:  # noqa: F811
    """Write a stream of several micro-batches."""
    df.repartition(3).write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writer = stream.writeStream.format("kafkalog").options(**options("stream"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start(str(log_dir)).awaitTermination()


def without_offsets(rows: Sequence[Row]) -> list[str]:
    return sorted(str(record._replace(offset=0)) for record in rows)


@pytest.mark.parametrize("topic", TOPICS)
def test_all_rows_are_written(written: Written, topic: str) -> None:
    in_topic = [record for (name, _), rows in written.rows.items() if name == topic for record in rows]
    ours = [record for record in in_topic if record.timestamp_ms >= T0]
    assert without_offsets(ours) == without_offsets(records())
    assert len(in_topic) - len(ours) == (1000 if topic == "continued" else 0)


def test_the_dump_tool_prints_every_record_and_no_error(written: Written) -> None:
    output, errors = written.dumped
    assert errors == ""
    assert "isvalid: false" not in output
    assert output.count("\n| offset: ") == sum(map(len, written.rows.values()))


class Served(NamedTuple):
    first: dict[tuple[str, int], Consumed]
    recovered: dict[tuple[str, int], Consumed]
    files: dict[tuple[str, int], dict[str, bytes]]


@pytest.fixture(scope="module")
def served(broker: Cluster, written: Written) -> Served:
    """Consume, kill the broker, remove everything except batches, and consume again."""
    first = {key: broker.consume(key[0], partition=key[1]) for key in written.rows}
    broker.send("continued", 100, first=10_000)
    assert broker.log_problems() == []
    broker.stop(cleanly=False)
    paths = {key: broker.log_dir / f"{key[0]}-{key[1]}" for key in written.rows}
    remove_derived(paths.values())
    (broker.log_dir / "recovery-point-offset-checkpoint").unlink()
    recovered = {key: broker.consume(key[0], partition=key[1]) for key in written.rows}
    broker.stop()
    return Served(first, recovered, {key: contents(path) for key, path in paths.items()})


def test_a_broker_ignores_staged_files(broker: Cluster, served: Served) -> None:
    names = [path.name for path in broker.log_dir.rglob("*")]
    assert len([name for name in names if name.startswith(".kafkalog-write-")]) == 2, "of topic batch"
    assert not [name for name in names if name.startswith("not-there")], (
        "a broker takes it for a deleted topic"
    )


def test_a_consumer_gets_every_row(written: Written, served: Served) -> None:
    for key, expected in written.rows.items():
        assert served.first[key] == Consumed(0, len(expected), expected)


def test_no_record_is_lost_in_a_crash(written: Written, served: Served) -> None:
    for key, expected in written.rows.items():
        added = 100 if key[0] == "continued" else 0
        assert served.recovered[key].rows[: len(expected)] == expected
        assert served.recovered[key].end == len(expected) + added == len(served.recovered[key].rows)


def test_the_brokers_recovery_writes_the_same_files(written: Written, served: Served) -> None:
    # Each micro-batch closes the log, with a time index entry for its end.
    whole = (".log", "index")
    kinds = {"batch": whole, "elsewhere": whole, "stream": (".log", ".index"), "continued": ()}
    for key, ours in written.files.items():
        assert len([name for name in ours if name.endswith(".log")]) > 1
        for name in ours:
            if name.endswith(kinds[key[0]]):
                assert served.files[key][name] == ours[name], (key, name)


def test_an_interrupted_write_is_not_rolled_back_after_a_broker_has_appended_to_it(
    broker: Cluster, served: Served
) -> None:
    """A broker does not know write intents: it serves the records of the interrupted write and appends."""
    before = broker.consume("batch").rows
    broker.stop()
    subprocess.run([sys.executable, "-c", INTERRUPTED_WRITE, str(broker.log_dir)], cwd=ROOT, check=True)
    seen = rows(LogDir(broker.log_dir).partition("batch", 0).read(columns=ROW_COLUMNS))
    assert seen == before, "kafkalog's readers ignore the interrupted write"
    partial = broker.consume("batch").rows
    assert partial[: len(before)] == before
    assert len(partial) > len(before)
    broker.send("batch", 50)
    all_rows = broker.consume("batch").rows
    assert len(all_rows) == len(partial) + 50
    broker.stop()
    with LogDir(broker.log_dir).partition("batch", 0) as log:
        assert rows(log.read(columns=ROW_COLUMNS)) == all_rows
        log.append(to_arrow([row(1, T0)]))
    assert broker.consume("batch").rows[:-1] == all_rows


@pytest.mark.parametrize("topic", CLEANED_UP)
def test_the_broker_serves_what_spark_compacted_and_retained(
    broker: Cluster, written: Written, served: Served, topic: str
) -> None:
    consumed = broker.consume(topic)
    assert consumed.rows == written.cleaned_up[topic]
    assert 0 < len(consumed.rows) < COUNT == consumed.end
    assert consumed.start == (consumed.rows[0].offset if topic == "retained" else 0)


ROOT = Path(__file__).parents[2]
INTERRUPTED_WRITE = """
import os, signal, sys
from native_log.checkpoints.write_intent import WriteIntent
from native_log.publish.commit import commit
from tests.builders.commits import staged_job

WriteIntent.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if os.fork() == 0:
    job, staged = staged_job(sys.argv[1], 0, 1000, topic="batch")
    commit(job, staged, {}, 3)
_, status = os.wait()
assert status == signal.SIGKILL
"""
