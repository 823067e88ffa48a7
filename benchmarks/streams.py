"""Measure streaming reads: draining a backlog, the delay of new records, and triggers without new records."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks import many_partitions
from benchmarks.broker import Broker
from benchmarks.corpus import Corpus, warm
from benchmarks.jvm import spark_kafka_source
from benchmarks.memory import Growth, own_peak, reset_own_peak
from benchmarks.spark import run_in_session
from benchmarks.timing import Measurement, Pass, measure_in_turn
from benchmarks.toy import ToySource

CORES = 2
TOPIC = "small100-none"
KAFKALOG, KAFKA, BATCH, FILES = "kafkalog", "Spark's kafka source", "batch read", "list and stat"
STARTED = "kafkalog, from the first trigger"
CEILING = "ceiling"
DRAIN = f"stream with 1 M records per trigger, local[{CORES}]"
DRAIN_ALL = f"stream without limits, local[{CORES}]"
P50, P99 = "delay from append to foreachBatch, median", "delay from append to foreachBatch, 99th percentile"
IDLE = "trigger without new records"
TRIGGER_MS = 100
SENDS_PER_SECOND = 50
IDLE_TRIGGERS = 1000
SOAK_TRIGGERS = 10_000


def measure(corpus: Corpus, scale: float, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    """Drain the topic from the broker's files and from the broker, and measure the delay of new records."""
    warm(corpus.segments(TOPIC))
    request: dict[str, Any] = {
        "cores": CORES,
        "runs": runs,
        "jars": spark_kafka_source(),
        "log_dir": str(corpus.log_dir),
        "rows": corpus.records[TOPIC],
        "size_bytes": corpus.size_bytes(TOPIC),
        "records_per_trigger": max(1000, int(1_000_000 * scale)),
        "delay_seconds": max(5, int(60 * scale)),
        "conf": dict(conf),
    }
    with Broker(corpus.log_dir, heap="1g") as broker:
        for result in run_in_session({**request, "do": "streams", "bootstrap": broker.bootstrap}):
            yield Measurement.from_json(result)
    with TemporaryDirectory() as folder, Broker(Path(folder) / "logs", heap="1g") as broker:
        paths = {"log_dir": str(broker.log_dir), "bootstrap": broker.bootstrap}
        for result in run_in_session({**request, **paths, "do": "stream_delay"}):
            yield Measurement.from_json(result)


def drain(spark: SparkSession, request: dict[str, Any]) -> list[Measurement]:
    """Drain the topic with Trigger.AvailableNow, with and without limits."""

    def kafkalog(**options: object) -> DataFrame:
        return spark.readStream.format("kafkalog").options(**options).load(request["log_dir"])

    def kafka(**options: object) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", request["bootstrap"])
        return reader.options(**options).load()

    def ceiling(**options: object) -> DataFrame:
        reader = spark.readStream.format("toy").options(rows=request["rows"], partitions=2 * CORES)
        return reader.options(**options).load()

    def streamed(
        load: Callable[..., DataFrame], *, with_start: bool = True, **limits: object
    ) -> Callable[[], Pass]:
        def run() -> Pass:
            frame = load(subscribe=TOPIC, startingOffsets="earliest", **limits)
            return _run_available_now(frame, with_start)

        return run

    def batch() -> Pass:
        frame = spark.read.format("kafkalog").option("subscribe", TOPIC).load(request["log_dir"])
        frame.write.format("noop").mode("overwrite").save()
        return Pass(request["rows"])

    limit = {"maxOffsetsPerTrigger": request["records_per_trigger"]}
    spark.dataSource.register(ToySource)
    work = {
        DRAIN: {
            KAFKALOG: streamed(kafkalog, **limit),
            KAFKA: streamed(kafka, **limit),
            CEILING: streamed(ceiling, **limit),
        },
        DRAIN_ALL: {
            KAFKALOG: streamed(kafkalog),
            STARTED: streamed(kafkalog, with_start=False),
            BATCH: batch,
            CEILING: streamed(ceiling),
        },
    }
    return [
        measurement
        for name, contenders in work.items()
        for measurement in measure_in_turn(
            name,
            TOPIC,
            contenders,
            size_bytes=request["size_bytes"],
            rows=request["rows"],
            runs=request["runs"],
            warmups=1,
        )
    ]


def _run_available_now(frame: DataFrame, with_start: bool) -> Pass:
    """Write a stream to noop until its end.

    Spark starts a Python interpreter for each query with a Python data source. The time includes it only
    if `with_start` is set.
    """
    with TemporaryDirectory() as checkpoint:
        started = time.perf_counter()
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
        progress = query.recentProgress
    if not with_start:
        seconds = sum(trigger.durationMs["triggerExecution"] for trigger in progress) / 1000
    return Pass(sum(trigger.numInputRows for trigger in progress), seconds)


def delay(spark: SparkSession, request: dict[str, Any]) -> list[Measurement]:
    """Append records through the broker, and take the time until foreachBatch has them.

    Both streams run at the same time. kafkalog reads beyond the checkpointed high watermark, which a broker
    writes every five seconds.
    """
    from kafka import KafkaAdminClient, KafkaProducer
    from kafka.admin import NewTopic

    KafkaAdminClient(bootstrap_servers=request["bootstrap"]).create_topics([NewTopic("delay", 1, 1)])
    source = {"subscribe": "delay", "startingOffsets": "latest"}
    frames = {
        KAFKALOG: spark.readStream.format("kafkalog")
        .options(**source, highWatermark="ignore")
        .load(request["log_dir"]),
        KAFKA: spark.readStream.format("kafka")
        .options(**source, **{"kafka.bootstrap.servers": request["bootstrap"]})
        .load(),
    }
    arrivals: dict[str, list[float]] = {name: [] for name in frames}

    def collect(name: str) -> Callable[[DataFrame, int], None]:
        def each(batch: DataFrame, _: int) -> None:
            sent = [float(row.value) for row in batch.select("value").collect()]
            now = time.time()
            arrivals[name].extend(now - moment for moment in sent)

        return each

    producer = KafkaProducer(bootstrap_servers=request["bootstrap"], linger_ms=0)
    with TemporaryDirectory() as folder:
        queries = [
            frame.writeStream.foreachBatch(collect(name))
            .option("checkpointLocation", f"{folder}/{number}")
            .trigger(processingTime=f"{TRIGGER_MS} milliseconds")
            .start()
            for number, (name, frame) in enumerate(frames.items())
        ]
        measured: dict[str, list[list[float]]] = {name: [] for name in frames}
        for run in range(1 + request["runs"]):  # the first one starts the workers
            for times in arrivals.values():
                times.clear()
            for _ in range(request["delay_seconds"] * SENDS_PER_SECOND):
                producer.send("delay", repr(time.time()).encode()).get()
                time.sleep(1 / SENDS_PER_SECOND)
            time.sleep(2)
            if run:
                for name, times in arrivals.items():
                    measured[name].append(sorted(times))
        for query in queries:
            query.stop()
    return [
        Measurement(work, "delay", name, len(samples[0]), 0, tuple(_quantile(s, part) for s in samples), 0.0)
        for work, part in ((P50, 0.5), (P99, 0.99))
        for name, samples in measured.items()
    ]


def _quantile(ascending: list[float], part: float) -> float:
    return ascending[int(len(ascending) * part)]


def measure_idle(
    corpus: Corpus, folder: Path, partitions: int, scale: float
) -> Iterator[Measurement | Growth]:
    """Run triggers over many partitions to which nothing is appended."""
    from pyspark.sql.datasource import CaseInsensitiveDict
    from pyspark.sql.types import StructType

    from kafkalog_spark import KafkaLogDataSource

    log_dir, _ = many_partitions.make(folder, corpus, partitions)
    source = KafkaLogDataSource(CaseInsensitiveDict({"path": str(log_dir)}))
    reader = source.streamReader(StructType().add("offset", "long"))
    start = reader.initialOffset()
    reader.latestOffset(start)
    started = reset_own_peak()
    triggers = max(20, int(IDLE_TRIGGERS * scale))
    name = f"{partitions} partitions x {many_partitions.SEGMENTS} segments"

    def trigger() -> Pass:
        assert reader.latestOffset(start) == start
        reader.reportLatestOffset()
        return Pass(partitions)

    def files() -> Pass:
        for directory in os.scandir(log_dir):
            if directory.is_dir():
                for entry in os.scandir(directory.path):
                    entry.stat()
        return Pass(partitions)

    work = {KAFKALOG: trigger, FILES: files}
    yield from measure_in_turn(IDLE, name, work, size_bytes=0, rows=partitions, runs=triggers)
    yield Growth(f"{triggers} triggers without new records", name, started, own_peak())


def measure_soak(scale: float) -> Iterator[Growth]:
    """Read a growing log with thousands of triggers; the growth is that of the last nine tenths of them."""
    import pyarrow as pa
    from pyspark.sql.datasource import CaseInsensitiveDict
    from pyspark.sql.types import StructType

    import native_log
    from kafkalog_spark import KafkaLogDataSource

    triggers = max(100, int(SOAK_TRIGGERS * scale))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "logs"
        with native_log.LogDir.create(path) as log_dir:
            log_dir.create_topic("soak", 4)
            logs = [log_dir.partition("soak", partition) for partition in range(4)]
            records = pa.record_batch({"value": [b"x" * 100] * 10})
            source = KafkaLogDataSource(CaseInsensitiveDict({"path": str(path)}))
            reader = source.streamReader(StructType().add("offset", "long"))
            offset, rows, started = reader.initialOffset(), 0, 0
            for number in range(triggers):
                if number == triggers // 10:
                    started = reset_own_peak()
                logs[number % 4].append(records)
                end = reader.latestOffset(offset)
                for split in reader.partitions(offset, end):
                    rows += sum(batch.num_rows for batch in reader.read(split))
                offset = end
            assert rows == triggers * 10
        yield Growth(f"{triggers} triggers with new records", "soak", started, own_peak())
