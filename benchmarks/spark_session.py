"""Run inside a Spark session: `python -m benchmarks.spark_session JSON`, one line of JSON for each result.

Apart from the rest, since each number of cores wants a session, and so a process, of its own.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import clean, spark_sinks
from benchmarks.growth import Growth, peak_of_self, peak_reset, peaks, reset_self
from benchmarks.measure import Pass, in_turn
from benchmarks.places import ROOT
from benchmarks.toy import ToySource
from kafkalog_spark import compact, retain

Query = Callable[[DataFrame], int | None]
TUNED = {"kafka.max.poll.records": "50000", "kafka.max.partition.fetch.bytes": "8388608"}
# As pyspark starts its workers: forked from a daemon of this name.
WORKER = "pyspark.daemon"


def session(cores: int, conf: dict[str, str], connector: list[str] = []) -> SparkSession:  # noqa: B006
    builder = SparkSession.builder.master(f"local[{cores}]").appName("kafkalog benchmarks")
    settings = {
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        **({"spark.jars": ",".join(connector)} if connector else {}),
        **_recommended(),
        **conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def queries(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spark = session(asked["cores"], asked["conf"], asked["jars"])
    spark.dataSource.register(ToySource)
    for topic, content in asked["topics"].items():

        def kafkalog(columns: str | None = None, topic: str = topic) -> DataFrame:
            reader = spark.read.format("kafkalog").option("subscribe", topic)
            return (reader.option("columns", columns) if columns else reader).load(asked["log_dir"])

        def kafka(topic: str = topic, **options: str) -> DataFrame:
            reader = spark.read.format("kafka").option("kafka.bootstrap.servers", asked["bootstrap"])
            return reader.option("subscribe", topic).options(**options).load()

        def toy(columns: str | None = None, rows: int = content["rows"]) -> DataFrame:
            reader = spark.read.format("toy").options(rows=rows, partitions=4)
            return (reader.schema(f"{columns} {_TYPES[columns]}") if columns else reader).load()

        def values(frame: DataFrame) -> int:
            count, _ = frame.agg(F.count("value"), F.sum(F.length("value"))).first()
            return count

        def offsets(frame: DataFrame) -> int:
            return frame.agg(F.count("offset")).first()[0]

        work: dict[str, tuple[Query, dict[str, Callable[[], DataFrame]]]] = {
            "seven columns to noop": (
                to_noop,
                {
                    "kafkalog": kafkalog,
                    "Spark's kafka source": kafka,
                    "Spark's kafka source, tuned": lambda: kafka(**TUNED),
                    "ceiling": toy,
                },
            ),
            "sum(length(value))": (
                values,
                {
                    "kafkalog": lambda: kafkalog("value"),
                    "Spark's kafka source": kafka,
                    "Spark's kafka source, tuned": lambda: kafka(**TUNED),
                    "ceiling": lambda: toy("value"),
                },
            ),
            "count(offset)": (
                offsets,
                {
                    "kafkalog": lambda: kafkalog("offset"),
                    "Spark's kafka source": kafka,
                    "Spark's kafka source, tuned": lambda: kafka(**TUNED),
                    "ceiling": lambda: toy("offset"),
                },
            ),
        }
        if topic.startswith("kb1"):  # the prebuilt batches have the shape of the small records
            for _, contenders in work.values():
                del contenders["ceiling"]
        for name, (query, contenders) in work.items():
            yield from (
                asdict(one)
                for one in in_turn(
                    f"{name}, local[{asked['cores']}]",
                    topic,
                    {who: _timed(query, frame, content["rows"]) for who, frame in contenders.items()},
                    size_bytes=content["size_bytes"],
                    rows=content["rows"],
                    runs=asked["runs"],
                    warmups=1,
                )
            )
    spark.stop()


def first_row(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Seconds of limit(10).collect(), as the first query of a session and as the next ones."""
    spark = session(asked["cores"], asked["conf"])
    spark.dataSource.register(ToySource)
    for _ in range(1 + asked["runs"]):
        started = time.perf_counter()
        rows = spark.read.format(asked["source"]).options(**asked["options"]).load().limit(10).collect()
        yield {"rows": len(rows), "seconds": time.perf_counter() - started}
    spark.stop()


def planning(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Seconds to plan a directory of many partitions, and to count all of their records."""
    spark = session(asked["cores"], asked["conf"])
    spark.range(1).count()
    for _ in range(asked["runs"]):
        started = time.perf_counter()
        frame = spark.read.format("kafkalog").option("columns", "offset").load(asked["path"])
        splits = frame._jdf.queryExecution().toRdd().getNumPartitions()
        planned = time.perf_counter()
        rows = spark.read.format("kafkalog").load(asked["path"]).agg(F.count("offset")).first()[0]
        read = time.perf_counter()
        yield {"splits": splits, "rows": rows, "planned": planned - started, "read": read - planned}
    spark.stop()


def memory(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Growth of the most grown worker while it reads one topic; all have read a little before."""
    for topic in asked["topics"]:
        spark = session(asked["cores"], asked["conf"])
        spark.dataSource.register(ToySource)
        to_noop(
            spark.read.format("toy").options(rows=4, partitions=asked["cores"]).schema("offset bigint").load()
        )
        started = peak_reset(WORKER)
        to_noop(spark.read.format("kafkalog").option("subscribe", topic).load(asked["log_dir"]))
        yield asdict(_most_grown("Spark worker", topic, started, peaks(WORKER)))
        spark.stop()


def _most_grown(who: str, topic: str, started: dict[int, int], grown: dict[int, int]) -> Growth:
    first = min(started.values())  # a worker that was forked since began no larger
    worker = max(grown, key=lambda pid: grown[pid] - started.get(pid, first))
    return Growth(who, topic, started.get(worker, first), grown[worker])


def sinks(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same cached rows to each sink."""
    spark = session(asked["cores"], asked["conf"], asked["jars"])
    yield from spark_sinks.measure(spark, asked)
    spark.stop()


def compaction(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same partitions compacted, a copy each time; and by how much the worker that grew most did, and the
    driver's Python."""
    spark = session(asked["cores"], asked["conf"])
    _start_workers(spark)
    driver, started = reset_self(), peak_reset(WORKER)
    # What a session's first run waits for (classes, modules) is no part of the work.
    compact(spark, asked["log_dir"], [asked["before"]], dry_run=True, small_bytes=0).collect()
    peak_reset(WORKER)
    topic, partitions = asked["corpus"], [Path(partition) for partition in asked["partitions"]]

    def run() -> Pass:
        log_dir = clean.copy(Path(asked["log_dir"]), partitions)
        started = time.perf_counter()
        told = compact(spark, log_dir, [topic], {"segment.bytes": asked["segment_bytes"]}).collect()
        seconds = time.perf_counter() - started
        if {one["status"] for one in told} != {"cleaned"}:
            raise AssertionError(told)
        return Pass(
            asked["rows"], seconds, sum(path.stat().st_size for path in log_dir.glob(f"{topic}-*/*.log"))
        )

    contenders = {asked["contender"]: run}
    sizes = {"size_bytes": asked["size_bytes"], "rows": asked["rows"]}
    for one in in_turn(asked["work"], topic, contenders, **sizes, runs=asked["runs"], warmups=0):
        yield asdict(one)
    yield asdict(_most_grown(f"{asked['contender']}: worker", topic, started, peaks(WORKER)))
    yield asdict(Growth(f"{asked['contender']}: driver's Python", topic, driver, peak_of_self()))
    spark.stop()


def retention(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Seconds of a dry run over many partitions."""
    spark = session(asked["cores"], asked["conf"])
    _start_workers(spark)
    for _ in range(asked["runs"]):
        started = time.perf_counter()
        rows = retain(spark, asked["path"], config=asked["config"], dry_run=True).count()
        yield {"rows": rows, "seconds": time.perf_counter() - started}
    spark.stop()


def repeat(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One topic to noop, a few times: for a profiler to look at."""
    spark = session(asked["cores"], asked["conf"])
    reader = (
        spark.read.format("kafkalog").option("subscribe", asked["topic"]).option("columns", asked["columns"])
    )
    for _ in range(5):
        started = time.perf_counter()
        to_noop(reader.load(asked["log_dir"]))
        yield {"seconds": time.perf_counter() - started}
    spark.stop()


def _start_workers(spark: SparkSession) -> None:
    """So that no measurement has to wait for Python's start."""
    spark.dataSource.register(ToySource)
    to_noop(spark.read.format("toy").options(rows=4, partitions=4).load())


def to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


_TYPES = {"value": "binary", "offset": "bigint"}


def _timed(query: Query, frame: Callable[[], DataFrame], rows: int) -> Callable[[], Pass]:
    """A query with its load; one that tells no count (noop) is taken to have seen all rows."""

    def run() -> Pass:
        found = query(frame())
        return Pass(rows if found is None else found)

    return run


def _recommended() -> dict[str, str]:
    """The settings that conf/spark-defaults.conf recommends; all contenders have them."""
    path = ROOT / "conf" / "spark-defaults.conf"
    if not path.exists():
        return {}
    lines = [line.split("#")[0].split(None, 1) for line in path.read_text().splitlines()]
    return {words[0]: words[1].strip() for words in lines if len(words) == 2}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    # Spark and its JVM may write to standard output; the results have theirs apart.
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for one in {
        each.__name__: each
        for each in (queries, first_row, planning, memory, sinks, compaction, retention, repeat)
    }[request["do"]](request):
        print(json.dumps(one), file=results)
