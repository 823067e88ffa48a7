"""Measure the tools of operators: dump-log, verify, recover, reindex, report, and the latest view."""

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

import native_log
from benchmarks import many_partitions
from benchmarks.broker import Broker
from benchmarks.compaction import copy
from benchmarks.corpus import KB1, MEMORY, MIB, SEED, SMALL, TOPICS, Corpus, warm
from benchmarks.jvm import KAFKA, LOGGING, JavaError, jars, java_tool, spark_kafka_source
from benchmarks.paths import scratch
from benchmarks.spark import run_in_session
from benchmarks.timing import Measurement, Pass, measure_in_turn
from native_log.checkpoints.offset_checkpoints import RECOVERY_POINT_OFFSET_CHECKPOINT
from native_log.records import scan_headers

CORES = 2
DUMP = "dump-log --print-data-log --deep-iteration of a segment"
VERIFY = "verify with all cores"
RECOVER = "recover logs of which nothing was flushed"
REPORT = "report, with the start of the process"
LATEST = f"newest record of each key, local[{CORES}]"
KAFKALOG, DUMP_TOOL, READ = "kafkalog", "kafka-dump-log", "sequential read"
RECOVERY, REINDEX, BROKER = "recover", "reindex", "broker's start: logs loaded"
WINDOW = "Spark's kafka source, row_number"
PLAIN = SMALL[0]
KEYED = TOPICS["compact-p4-none"]
VERIFIED = (PLAIN, KB1[0], *(topic for topic in MEMORY if topic.codec == "none"))
"""About 4 GB, not compressed, so that reading the files is as fast as it can be."""
CORPUS = (*VERIFIED, KEYED, SEED)


def measure(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    yield from _measure_dump(corpus, runs)
    yield from _measure_verify(corpus, runs)
    yield from _measure_recovery(corpus, runs)
    yield from _measure_latest(corpus, runs, conf)


def _measure_dump(corpus: Corpus, runs: int) -> list[Measurement]:
    """Run both commands as a user does, with their start. What they print is the same, and is discarded."""
    segment = corpus.segments(PLAIN.name)[0]
    warm([segment])
    how = ["--deep-iteration", "--print-data-log", "--files", str(segment)]
    java = [java_tool("java"), LOGGING, "-Xmx256m", "-cp", f"{jars(KAFKA)}/*", "kafka.tools.DumpLogSegments"]
    commands = {KAFKALOG: [sys.executable, "-m", "native_log", "dump-log", *how], DUMP_TOOL: [*java, *how]}
    digests = {_digest(command) for command in commands.values()}
    if len(digests) > 1:
        raise AssertionError(f"{segment}: expected the same text of both commands, found different ones")
    rows = _count_records(segment)
    return measure_in_turn(
        DUMP,
        PLAIN.name,
        {name: _command(command, rows) for name, command in commands.items()},
        size_bytes=segment.stat().st_size,
        runs=runs,
        warmups=0,
    )


def _count_records(segment: Path) -> int:
    with segment.open("rb", buffering=0) as file:
        scanned = scan_headers(file.fileno(), 0, segment.stat().st_size, max_rows=1 << 30)
    return sum(scanned.batches.column("recordCount").to_pylist())


def _digest(command: Sequence[str]) -> str:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return hashlib.file_digest(process.stdout, "sha256").hexdigest()


def _command(command: Sequence[str], rows: int) -> Callable[[], Pass]:
    def run() -> Pass:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return Pass(rows)

    return run


def _measure_verify(corpus: Corpus, runs: int) -> list[Measurement]:
    names = [topic.name for topic in VERIFIED]
    segments = [segment for name in names for segment in corpus.segments(name)]
    rows = sum(corpus.records[name] for name in names)
    buffer = bytearray(MIB)

    def verify() -> Pass:
        problems = native_log.verify(corpus.log_dir, names)
        if problems.num_rows:
            raise AssertionError(problems.to_pylist())
        return Pass(rows)

    def read() -> Pass:
        for segment in segments:
            with segment.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
        return Pass(rows)

    warm(segments)
    size_bytes = sum(corpus.size_bytes(name) for name in names)
    contenders = {KAFKALOG: verify, READ: read}
    return measure_in_turn(VERIFY, "none", contenders, size_bytes=size_bytes, rows=rows, runs=runs)


def _measure_recovery(corpus: Corpus, runs: int) -> list[Measurement]:
    """Recover copies of the same logs. The broker is timed from its log messages, without the rest of its
    start."""
    rows = corpus.records[PLAIN.name]

    def timed(job: Callable[[Path], Any]) -> Callable[[], Pass]:
        def run() -> Pass:
            log_dir = _unclean_copy(corpus)
            started = time.perf_counter()
            job(log_dir)
            return Pass(rows, time.perf_counter() - started)

        return run

    def broker() -> Pass:
        log_dir = _unclean_copy(corpus)
        with Broker(log_dir, heap="1g", options=["-Dlog.level=info"]) as broker:
            return Pass(rows, _loading_seconds(broker.log_lines()))

    return measure_in_turn(
        RECOVER,
        PLAIN.name,
        {RECOVERY: timed(native_log.recover), REINDEX: timed(native_log.reindex), BROKER: broker},
        size_bytes=corpus.size_bytes(PLAIN.name),
        rows=rows,
        runs=runs,
        warmups=0,  # each run has a new copy
    )


def _unclean_copy(corpus: Corpus) -> Path:
    """Copy the logs as a crash leaves them whose data the broker has not flushed yet."""
    log_dir = copy(corpus.log_dir, corpus.partitions(PLAIN.name))
    for name in (".kafka_cleanshutdown", RECOVERY_POINT_OFFSET_CHECKPOINT):
        (log_dir / name).unlink()
    return log_dir


def _loading_seconds(lines: Sequence[str]) -> float:
    """Return how long the broker took to load its logs, most of which is their recovery."""
    for line in lines:
        if match := re.search(r"Loaded \d+ logs in (\d+) ?ms", line):
            return int(match[1]) / 1000
    raise JavaError(f"expected the time to load logs in the broker's log, found none: {lines[-30:]}")


def measure_report(corpus: Corpus, partitions: int, runs: int) -> list[Measurement]:
    """Run the command as a user does, with its start. The page is discarded."""
    log_dir, records = many_partitions.make(scratch(), corpus, partitions)
    command = [sys.executable, "-m", "native_log", "report", str(log_dir), "--output", "-"]
    name = f"{partitions} partitions x {many_partitions.SEGMENTS} segments"
    return measure_in_turn(
        REPORT, name, {KAFKALOG: _command(command, records)}, size_bytes=0, runs=runs, warmups=1
    )


def _measure_latest(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    warm(corpus.segments(KEYED.name))
    request: dict[str, Any] = {
        "do": "latest",
        "cores": CORES,
        "runs": runs,
        "jars": spark_kafka_source(),
        "log_dir": str(corpus.log_dir),
        "rows": corpus.records[KEYED.name],
        "size_bytes": corpus.size_bytes(KEYED.name),
        "conf": dict(conf),
    }
    with Broker(corpus.log_dir, heap="1g") as broker:
        for result in run_in_session({**request, "bootstrap": broker.bootstrap}):
            yield Measurement.from_json(result)


def latest(spark: SparkSession, request: dict[str, Any]) -> list[Measurement]:
    """Write the newest record of each key to noop. The rates are those of the records that were read."""

    def kafkalog() -> DataFrame:
        reader = spark.read.format("kafkalog").options(subscribe=KEYED.name, view="latest")
        return reader.load(request["log_dir"])

    def kafka() -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", request["bootstrap"])
        number = F.row_number().over(Window.partitionBy("partition", "key").orderBy(F.desc("offset")))
        records = reader.option("subscribe", KEYED.name).load()
        return records.withColumn("number", number).where("number = 1").drop("number")

    keys: set[int] = set()

    def written(load: Callable[[], DataFrame]) -> Callable[[], Pass]:
        def run() -> Pass:
            count = Observation()
            frame = load().observe(count, F.count(F.lit(1)).alias("rows"))
            frame.write.format("noop").mode("overwrite").save()
            keys.add(count.get["rows"])
            if len(keys) > 1:
                raise AssertionError(f"expected the same number of keys in each run, found {keys}")
            return Pass(request["rows"])

        return run

    return measure_in_turn(
        LATEST,
        KEYED.name,
        {KAFKALOG: written(kafkalog), WINDOW: written(kafka)},
        size_bytes=request["size_bytes"],
        rows=request["rows"],
        runs=request["runs"],
        warmups=1,
    )
