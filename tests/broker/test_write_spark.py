"""Logs written and cleaned through Spark, served, gone on with and recovered by a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalog_spark import compact, retain
from native_log import LogDir
from tests.publish.support import staged_job
from tests.spark.conftest import spark  # noqa: F401

from .cluster import ROW_COLUMNS, Cluster, Consumed, Row, rows
from .files import contents, dump_log, remove_derived
from .written import row, to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

T0 = 1_700_000_000_000
COUNT = 3000
PARTITIONS = 3
TOPICS = {"batch": PARTITIONS, "stream": PARTITIONS, "continued": 1, "elsewhere": 1}
"""With their partitions. The last one Spark makes in a log directory of its own, from where it is moved."""
CLEANED = ["compacted", "retained"]
SETTINGS = {"segment.bytes": 20_000, "index.interval.bytes": 3000, "kafka.batch.size": 2000}
CODECS = {"batch": "zstd", "stream": "none", "continued": "lz4", "elsewhere": "gzip"}


def records() -> list[Row]:
    return [row(n, T0 + n) for n in range(COUNT)]


def data_frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:  # noqa: F811
    schema = "key binary, value binary, time_ms long, headers array<struct<key:string,value:binary>>"
    some = [(one.key, one.value, one.timestamp_ms, one.headers) for one in rows]
    columns = "key", "value", "timestamp_millis(time_ms) timestamp", "headers"
    return spark.createDataFrame(some, schema).selectExpr(*columns).repartition(4)


def options(topic: str) -> dict[str, Any]:
    return {**SETTINGS, "topic": topic, "kafka.compression.type": CODECS.get(topic, "snappy")}


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("spark") / "logs", class_path)
    yield cluster
    cluster.stop()


class Written(NamedTuple):
    """By topic and partition: what is read there, and the files."""

    rows: dict[tuple[str, int], list[Row]]
    files: dict[tuple[str, int], dict[str, bytes]]
    dumped: tuple[str, str]
    cleaned: dict[str, list[Row]]
    """What is left of the topics that Spark cleaned, by rules of our own."""


@pytest.fixture(scope="module")
def written(broker: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:  # noqa: F811
    for topic, partitions in (TOPICS | dict.fromkeys(CLEANED, 1)).items():
        broker.create(topic, partitions, index_interval_bytes=3000)
    broker.send("continued", 1000, value_bytes=40, batch_size=2000)
    broker.stop()
    folder = tmp_path_factory.mktemp("written-by-spark")
    df = data_frame(spark, records())
    for topic in ("batch", "continued"):
        df.write.format("kafkalog").mode("append").options(**options(topic)).save(str(broker.log_dir))
    write_stream(spark, df, folder, broker.log_dir)
    df.write.format("kafkalog").mode("append").options(**options("elsewhere")).save(str(folder / "logs"))
    bring(folder / "logs" / "elsewhere-0", broker.log_dir / "elsewhere-0")
    logs = LogDir(broker.log_dir)
    found = {}
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            found[topic, partition] = rows(logs.partition(topic, partition).read(columns=ROW_COLUMNS))
    paths = {key: logs.partition(*key).path for key in found}
    files = {key: contents(path) for key, path in paths.items()}
    dumped, cleaned = dump_log(broker.broker, paths.values()), clean(spark, broker.log_dir)
    # Writes that are not committed yet: of a topic that is there, and of one that is not.
    for topic in ("batch", "not-there"):
        staged_job(broker.log_dir, 0, 1000, topic=topic)
    return Written(found, files, dumped, cleaned)


def clean(spark: SparkSession, log_dir: Path) -> dict[str, list[Row]]:  # noqa: F811
    df = data_frame(spark, [row(n, T0 + n, with_key=True) for n in range(COUNT)])
    before = {}
    for topic in CLEANED:
        df.write.format("kafkalog").mode("append").options(**options(topic)).save(str(log_dir))
        log = LogDir(log_dir).partition(topic, 0)
        before[topic] = rows(log.read(columns=ROW_COLUMNS)), [one.base_offset for one in log.segments]
    always = {"min.cleanable.dirty.ratio": 0, "segment.bytes": 2**20}
    told = compact(spark, str(log_dir), topics=["compacted"], config=always).collect()
    assert [one.status for one in told] == ["cleaned"]
    found, bases = before["compacted"]
    newest = {one.key: one.offset for one in found if one.offset < bases[-1]}
    left = [one for one in found if one.offset >= bases[-1] or newest[one.key] == one.offset]
    by_size = {"retention.bytes": 30_000, "retention.ms": -1}
    retain(spark, str(log_dir), topics=["retained"], config=by_size).collect()
    first = LogDir(log_dir).partition("retained", 0).log_start_offset
    found, bases = before["retained"]
    assert first in bases[1:]
    return {"compacted": left, "retained": [one for one in found if one.offset >= first]}


def write_stream(spark: SparkSession, df: DataFrame, folder: Path, log_dir: Path) -> None:  # noqa: F811
    """As a stream of several micro-batches."""
    df.repartition(3).write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writer = stream.writeStream.format("kafkalog").options(**options("stream"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start(str(log_dir)).awaitTermination()


def bring(partition: Path, to: Path) -> None:
    """Move a log into the place of an empty one, which the broker knows by its topic's id."""
    for path in to.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.rename(to / path.name)


def without_offsets(rows: Sequence[Row]) -> list[str]:
    return sorted(str(one._replace(offset=0)) for one in rows)


@pytest.mark.parametrize("topic", TOPICS)
def test_all_rows_are_there(written: Written, topic: str) -> None:
    found = [one for (name, _), rows in written.rows.items() if name == topic for one in rows]
    ours = [one for one in found if one.timestamp_ms >= T0]
    assert without_offsets(ours) == without_offsets(records())
    assert len(found) - len(ours) == (1000 if topic == "continued" else 0)


def test_the_dump_tool_finds_every_record_and_no_fault(written: Written) -> None:
    said, complaints = written.dumped
    assert complaints == ""
    assert "isvalid: false" not in said
    assert said.count("\n| offset: ") == sum(map(len, written.rows.values()))


class Served(NamedTuple):
    first: dict[tuple[str, int], Consumed]
    recovered: dict[tuple[str, int], Consumed]
    files: dict[tuple[str, int], dict[str, bytes]]


@pytest.fixture(scope="module")
def served(broker: Cluster, written: Written) -> Served:
    """At first as we left the directory; then a broker is killed, and all but the batches is removed."""
    first = {key: broker.consume(key[0], partition=key[1]) for key in written.rows}
    broker.send("continued", 100, first=10_000)
    assert broker.complaints() == []
    broker.stop(cleanly=False)
    paths = {key: broker.log_dir / f"{key[0]}-{key[1]}" for key in written.rows}
    remove_derived(paths.values())
    (broker.log_dir / "recovery-point-offset-checkpoint").unlink()
    recovered = {key: broker.consume(key[0], partition=key[1]) for key in written.rows}
    broker.stop()
    return Served(first, recovered, {key: contents(path) for key, path in paths.items()})


def test_a_broker_passes_over_what_is_only_staged(broker: Cluster, served: Served) -> None:
    names = [path.name for path in broker.log_dir.rglob("*")]
    assert len([name for name in names if name.startswith(".kafkalog-write-")]) == 2, "of topic batch"
    assert not [name for name in names if name.startswith("not-there")], "to a broker it was deleted"


def test_a_consumer_gets_every_row(written: Written, served: Served) -> None:
    for key, found in written.rows.items():
        assert served.first[key] == Consumed(0, len(found), found)


def test_after_a_crash_all_is_there(written: Written, served: Served) -> None:
    for key, found in written.rows.items():
        added = 100 if key[0] == "continued" else 0
        assert served.recovered[key].rows[: len(found)] == found
        assert served.recovered[key].end == len(found) + added == len(served.recovered[key].rows)


def test_the_brokers_recovery_makes_the_files_that_we_wrote(written: Written, served: Served) -> None:
    # Each micro-batch closes the log, with a time index entry for its end.
    whole = (".log", "index")
    kinds = {"batch": whole, "elsewhere": whole, "stream": (".log", ".index"), "continued": ()}
    for key, ours in written.files.items():
        assert len([name for name in ours if name.endswith(".log")]) > 1
        for name in ours:
            if name.endswith(kinds[key[0]]):
                assert served.files[key][name] == ours[name], (key, name)


def test_a_write_cut_short_is_not_taken_back_from_a_broker_that_went_on_with_it(
    broker: Cluster, served: Served
) -> None:
    """A broker knows nothing of writes that are all or nothing: what it finds it serves, and appends to."""
    found = broker.consume("batch").rows
    broker.stop()
    subprocess.run([sys.executable, "-c", CUT_SHORT, str(broker.log_dir)], cwd=ROOT, check=True)
    seen = rows(LogDir(broker.log_dir).partition("batch", 0).read(columns=ROW_COLUMNS))
    assert seen == found, "readers see it as it was"
    partial = broker.consume("batch").rows
    assert partial[: len(found)] == found
    assert len(partial) > len(found)
    broker.send("batch", 50)
    all_rows = broker.consume("batch").rows
    assert len(all_rows) == len(partial) + 50
    broker.stop()
    with LogDir(broker.log_dir).partition("batch", 0) as log:
        assert rows(log.read(columns=ROW_COLUMNS)) == all_rows
        log.append(to_arrow([row(1, T0)]))
    assert broker.consume("batch").rows[:-1] == all_rows


@pytest.mark.parametrize("topic", CLEANED)
def test_what_spark_cleaned_is_served(broker: Cluster, written: Written, served: Served, topic: str) -> None:
    consumed = broker.consume(topic)
    assert consumed.rows == written.cleaned[topic]
    assert 0 < len(consumed.rows) < COUNT == consumed.end
    assert consumed.start == (consumed.rows[0].offset if topic == "retained" else 0)


ROOT = Path(__file__).parents[2]
CUT_SHORT = """
import os, signal, sys
from native_log.checkpoints.write_intent import WriteIntent
from native_log.publish.commit import commit
from tests.publish.support import staged_job

WriteIntent.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if os.fork() == 0:
    job, staged = staged_job(sys.argv[1], 0, 1000, topic="batch")
    commit(job, staged, {}, 3)
_, status = os.wait()
assert status == signal.SIGKILL
"""
