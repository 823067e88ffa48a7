"""Benchmarks inside a Spark session: `python -m benchmarks.spark_session JSON` prints a line per result.

The JSON argument is a request: "do" names one of BENCHMARKS, the other fields are its arguments. Results are
JSON, too. This is a program of its own because a process has one session with one number of cores.
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

from benchmarks import compaction, sinks, streams, tools
from benchmarks.memory import Growth, own_peak, peaks, reset_own_peak, reset_peaks
from benchmarks.paths import ROOT
from benchmarks.timing import Pass, measure_in_turn
from benchmarks.toy import ToySource
from kafkalog_spark import compact, retain

Query = Callable[[DataFrame], int | None]
TUNED = {"kafka.max.poll.records": "50000", "kafka.max.partition.fetch.bytes": "8388608"}
# pyspark forks its workers from a process of this module.
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
        **_recommended_settings(),
        **conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measure_queries(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spark = session(request["cores"], request["conf"], request["jars"])
    spark.dataSource.register(ToySource)
    for topic, content in request["topics"].items():
        rows = content["rows"]
        for name, (query, contenders) in _queries(spark, request, topic, rows).items():
            yield from (
                asdict(measurement)
                for measurement in measure_in_turn(
                    f"{name}, local[{request['cores']}]",
                    topic,
                    {who: _contender(query, frame, rows) for who, frame in contenders.items()},
                    size_bytes=content["size_bytes"],
                    rows=rows,
                    runs=request["runs"],
                    warmups=1,
                )
            )
    spark.stop()


def _queries(
    spark: SparkSession, request: dict[str, Any], topic: str, rows: int
) -> dict[str, tuple[Query, dict[str, Callable[[], DataFrame]]]]:
    """Return each query of a topic and the sources that are compared."""

    def kafkalog(columns: str | None = None) -> DataFrame:
        reader = spark.read.format("kafkalog").option("subscribe", topic)
        return (reader.option("columns", columns) if columns else reader).load(request["log_dir"])

    def kafka(**options: str) -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", request["bootstrap"])
        return reader.option("subscribe", topic).options(**options).load()

    def toy(columns: str | None = None) -> DataFrame:
        reader = spark.read.format("toy").options(rows=rows, partitions=4)
        return (reader.schema(f"{columns} {_TYPES[columns]}") if columns else reader).load()

    def values(frame: DataFrame) -> int:
        count, _ = frame.agg(F.count("value"), F.sum(F.length("value"))).first()
        return count

    def offsets(frame: DataFrame) -> int:
        return frame.agg(F.count("offset")).first()[0]

    def counted(frame: DataFrame) -> int:
        return int(frame.agg(F.sum("count")).first()[0])

    def view_counts() -> DataFrame:
        reader = spark.read.format("kafkalog").option("subscribe", topic).option("view", "counts")
        return reader.load(request["log_dir"])

    counts: dict[str, Callable[[], DataFrame]] = {
        "kafkalog, view=counts": view_counts,
        "kafkalog": lambda: kafkalog("partition").groupBy("partition").count(),
        "Spark's kafka source": lambda: kafka().groupBy("partition").count(),
    }

    def contenders(columns: str | None) -> dict[str, Callable[[], DataFrame]]:
        sources = {
            "kafkalog": lambda: kafkalog(columns),
            "Spark's kafka source": kafka,
            "Spark's kafka source, tuned": lambda: kafka(**TUNED),
        }
        if not topic.startswith("kb1"):  # the prebuilt batches have small records
            sources["ceiling"] = lambda: toy(columns)
        return sources

    return {
        "seven columns to noop": (to_noop, contenders(None)),
        "sum(length(value))": (values, contenders("value")),
        "count(offset)": (offsets, contenders("offset")),
        "count by partition": (counted, counts),
    }


def measure_first_rows(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the seconds of limit(10).collect() for the first query of a session and for later ones."""
    spark = session(request["cores"], request["conf"])
    spark.dataSource.register(ToySource)
    for _ in range(1 + request["runs"]):
        started = time.perf_counter()
        rows = spark.read.format(request["source"]).options(**request["options"]).load().limit(10).collect()
        yield {"rows": len(rows), "seconds": time.perf_counter() - started}
    spark.stop()


def measure_planning(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the seconds to plan a scan of many partitions, and to count all of their records."""
    spark = session(request["cores"], request["conf"])
    spark.range(1).count()
    for _ in range(request["runs"]):
        started = time.perf_counter()
        frame = spark.read.format("kafkalog").option("columns", "offset").load(request["path"])
        splits = frame._jdf.queryExecution().toRdd().getNumPartitions()
        planned = time.perf_counter()
        rows = spark.read.format("kafkalog").load(request["path"]).agg(F.count("offset")).first()[0]
        read = time.perf_counter()
        yield {
            "splits": splits,
            "rows": rows,
            "plan_seconds": planned - started,
            "read_seconds": read - planned,
        }
    spark.stop()


def measure_memory(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the growth of the worker that grows most while it reads one topic.

    Every worker has read a few rows of another source before.
    """
    for topic in request["topics"]:
        spark = session(request["cores"], request["conf"])
        spark.dataSource.register(ToySource)
        to_noop(
            spark.read.format("toy")
            .options(rows=4, partitions=request["cores"])
            .schema("offset bigint")
            .load()
        )
        started = reset_peaks(WORKER)
        to_noop(spark.read.format("kafkalog").option("subscribe", topic).load(request["log_dir"]))
        yield asdict(_most_grown("Spark worker", topic, started, peaks(WORKER)))
        spark.stop()


def _most_grown(who: str, topic: str, started: dict[int, int], grown: dict[int, int]) -> Growth:
    first = min(started.values())  # the start size of workers that were forked later
    worker = max(grown, key=lambda pid: grown[pid] - started.get(pid, first))
    return Growth(who, topic, started.get(worker, first), grown[worker])


def measure_sinks(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Write the same cached rows to each sink."""
    spark = session(request["cores"], request["conf"], request["jars"])
    yield from sinks.measure(spark, request)
    spark.stop()


def measure_streams(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Drain a topic as a stream."""
    spark = session(request["cores"], request["conf"], request["jars"])
    yield from map(asdict, streams.drain(spark, request))
    spark.stop()


def measure_stream_delay(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Measure the delay of records that a broker appends."""
    spark = session(request["cores"], request["conf"], request["jars"])
    yield from map(asdict, streams.delay(spark, request))
    spark.stop()


def measure_latest(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find the newest record of each key."""
    spark = session(request["cores"], request["conf"], request["jars"])
    yield from map(asdict, tools.latest(spark, request))
    spark.stop()


def measure_compaction(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Compact a new copy of the same partitions in each run.

    Yields a measurement, then the growth of the worker that grew most and of the driver's Python process.
    """
    spark = session(request["cores"], request["conf"])
    _start_workers(spark)
    driver, started = reset_own_peak(), reset_peaks(WORKER)
    # The first run of a session loads classes and modules, which is not to be measured.
    compact(spark, request["log_dir"], [request["before"]], dry_run=True, small_bytes=0).collect()
    reset_peaks(WORKER)
    topic, partitions = request["corpus"], [Path(partition) for partition in request["partitions"]]

    def run() -> Pass:
        log_dir = compaction.copy(Path(request["log_dir"]), partitions)
        started = time.perf_counter()
        rows = compact(spark, log_dir, [topic], {"segment.bytes": request["segment_bytes"]}).collect()
        seconds = time.perf_counter() - started
        if {row["status"] for row in rows} != {"cleaned"}:
            raise AssertionError(rows)
        written = sum(path.stat().st_size for path in log_dir.glob(f"{topic}-*/*.log"))
        return Pass(request["rows"], seconds, written)

    contenders = {request["contender"]: run}
    for measurement in measure_in_turn(
        request["work"],
        topic,
        contenders,
        size_bytes=request["size_bytes"],
        rows=request["rows"],
        runs=request["runs"],
        warmups=0,
    ):
        yield asdict(measurement)
    yield asdict(_most_grown(f"{request['contender']}: worker", topic, started, peaks(WORKER)))
    yield asdict(Growth(f"{request['contender']}: driver's Python", topic, driver, own_peak()))
    spark.stop()


def measure_retention(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the seconds of a dry run over many partitions."""
    spark = session(request["cores"], request["conf"])
    _start_workers(spark)
    for _ in range(request["runs"]):
        started = time.perf_counter()
        rows = retain(spark, request["path"], config=request["config"], dry_run=True).count()
        yield {"rows": rows, "seconds": time.perf_counter() - started}
    spark.stop()


def repeat_read(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Write one topic to noop a few times, for a profiler."""
    spark = session(request["cores"], request["conf"])
    reader = (
        spark.read.format("kafkalog")
        .option("subscribe", request["topic"])
        .option("columns", request["columns"])
    )
    for _ in range(5):
        started = time.perf_counter()
        to_noop(reader.load(request["log_dir"]))
        yield {"seconds": time.perf_counter() - started}
    spark.stop()


def _start_workers(spark: SparkSession) -> None:
    """Start Python workers, so that no measurement includes their start."""
    spark.dataSource.register(ToySource)
    to_noop(spark.read.format("toy").options(rows=4, partitions=4).load())


def to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


_TYPES = {"value": "binary", "offset": "bigint"}


def _contender(query: Query, load: Callable[[], DataFrame], rows: int) -> Callable[[], Pass]:
    """Return a contender that loads and queries; writing to noop returns no count and counts as all rows."""

    def run() -> Pass:
        count = query(load())
        return Pass(rows if count is None else count)

    return run


def _recommended_settings() -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf, which apply to all contenders."""
    path = ROOT / "conf" / "spark-defaults.conf"
    if not path.exists():
        return {}
    lines = [line.split("#")[0].split(None, 1) for line in path.read_text().splitlines()]
    return {words[0]: words[1].strip() for words in lines if len(words) == 2}


BENCHMARKS = {
    "queries": measure_queries,
    "first_rows": measure_first_rows,
    "planning": measure_planning,
    "memory": measure_memory,
    "sinks": measure_sinks,
    "streams": measure_streams,
    "stream_delay": measure_stream_delay,
    "latest": measure_latest,
    "compaction": measure_compaction,
    "retention": measure_retention,
    "repeat": repeat_read,
}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    # Spark and its JVM may write to standard output. Move that to standard error; results use the original.
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for result in BENCHMARKS[request["do"]](request):
        print(json.dumps(result), file=output)
