"""Measure compaction and Kafka's LogCleaner on copies of the same partitions."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import native_log
from benchmarks.broker import Broker
from benchmarks.corpus import COMPACT, GIANT, SEED, Corpus, Topic, warm
from benchmarks.jvm import KAFKA, JavaError, jars, java_tool
from benchmarks.machine import CORES, NUMBERS_OF_CORES
from benchmarks.memory import Growth
from benchmarks.paths import scratch
from benchmarks.spark import run_in_session
from benchmarks.timing import Measurement, Pass, measure_in_turn

LOG_CLEANER = "Kafka's LogCleaner"
CLEANER_SECONDS = 400
SPARK = f"kafkalog_spark.compact, local[{CORES}]"
DRIVER_MEMORY = "2g"
"""Memory of the JVM, which is driver and executor with local[]. That of Python workers is measured."""
TOPICS = (*COMPACT, GIANT, SEED)
# What a broker needs in a log directory, besides partitions and checkpoints, to accept it as its own.
BROKER_FILES = ("__cluster_metadata-0", "meta.properties", "bootstrap.checkpoint", ".kafka_cleanshutdown")


def work(topic: Topic) -> str:
    where = "one partition" if topic.partitions == 1 else f"{topic.partitions} partitions"
    return f"compact {topic.records // 10**6} M records in {where}"


def measure(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement | Growth]:
    """Time each contender without its start.

    Kafka's cleaner is timed from its log messages, without the broker's start, and Spark in a session that
    has compacted a log before.
    """
    yield from measure_beside_cleaner(corpus, COMPACT, runs)
    for topic in COMPACT:
        if topic.partitions > 1:
            yield from _spark(corpus, topic, runs, conf, CORES)
    for cores in NUMBERS_OF_CORES:
        yield from _spark(corpus, GIANT, 1, conf, cores)
    yield from _in_turn(corpus, GIANT, {LOG_CLEANER: _log_cleaner(corpus, GIANT)}, 1)


def measure_beside_cleaner(corpus: Corpus, topics: Iterable[Topic], runs: int) -> Iterator[Measurement]:
    """Measure native_log.compact beside Kafka's cleaner, both without their start."""
    for topic in topics:
        contenders = {
            "native_log.compact": _native_log(corpus, topic),
            LOG_CLEANER: _log_cleaner(corpus, topic),
        }
        yield from _in_turn(corpus, topic, contenders, runs)


def _in_turn(
    corpus: Corpus, topic: Topic, contenders: Mapping[str, Callable[[], Pass]], runs: int
) -> list[Measurement]:
    return measure_in_turn(
        work(topic),
        topic.name,
        contenders,
        size_bytes=corpus.size_bytes(topic.name),
        rows=corpus.records[topic.name],
        runs=runs,
        warmups=0,  # each run has a new copy, and Kafka's cleaner a new broker
    )


def _native_log(corpus: Corpus, topic: Topic) -> Callable[[], Pass]:
    config = {"segment.bytes": topic.segment_bytes, "log.cleaner.threads": topic.partitions}

    def run() -> Pass:
        log_dir = copy(corpus.log_dir, corpus.partitions(topic.name))
        started = time.perf_counter()
        partitions = native_log.compact(log_dir, [topic.name], config).to_pylist()
        seconds = time.perf_counter() - started
        if {partition["status"] for partition in partitions} != {"cleaned"}:
            raise AssertionError(partitions)
        return Pass(corpus.records[topic.name], seconds, _size(log_dir, topic))

    return run


def _spark(
    corpus: Corpus, topic: Topic, runs: int, conf: Mapping[str, str], cores: int
) -> Iterator[Measurement | Growth]:
    """Measure time and memory of kafkalog_spark.compact, which uses all cores even for one partition."""
    request = {
        "do": "compaction",
        "work": work(topic),
        "corpus": topic.name,
        "rows": corpus.records[topic.name],
        "size_bytes": corpus.size_bytes(topic.name),
        "segment_bytes": topic.segment_bytes,
        "log_dir": str(corpus.log_dir),
        "before": COMPACT[0].name,
        "partitions": [str(partition) for partition in corpus.partitions(topic.name)],
        "contender": f"kafkalog_spark.compact, local[{cores}]",
        "cores": cores,
        "runs": runs,
        "conf": {"spark.driver.memory": DRIVER_MEMORY, **conf},
    }
    for result in run_in_session(request):
        yield Growth(**result) if "peak_bytes" in result else Measurement.from_json(result)


def _log_cleaner(corpus: Corpus, topic: Topic) -> Callable[[], Pass]:
    settings = {
        "log.cleaner.dedupe.buffer.size": str(512 << 20),
        "log.cleaner.backoff.ms": "500",
        "log.cleaner.threads": str(topic.partitions),
    }

    def run() -> Pass:
        log_dir = copy(corpus.log_dir, corpus.partitions(topic.name))
        with Broker(log_dir, settings, heap="3g") as broker:
            _compact_topic(broker.bootstrap, topic.name)
            seconds = _wait_until_cleaned(
                log_dir.with_name(f"{log_dir.name}.broker.log"), topic, corpus.partitions(topic.name)
            )
        return Pass(corpus.records[topic.name], seconds, _size(log_dir, topic))

    return run


def copy(source: Path, partitions: list[Path]) -> Path:
    """Copy partitions to a new log directory and return it.

    Segments before the active one are hard links: nothing changes them.
    """
    log_dir = scratch() / "clean" / "logs"
    shutil.rmtree(log_dir.parent, ignore_errors=True)
    log_dir.mkdir(parents=True)
    checkpoints = [path.name for path in source.glob("*-checkpoint")]
    for name in (*BROKER_FILES, *checkpoints):
        subprocess.run(["cp", "-a", source / name, log_dir], check=True)
    for partition in partitions:
        target = log_dir / partition.name
        target.mkdir()
        *closed, _ = segments = sorted(partition.glob("*.log"))
        warm(segments)
        for file in partition.iterdir():
            if file in closed:
                os.link(file, target / file.name)
            else:
                shutil.copy2(file, target)
    os.sync()  # so that no timed run waits for earlier writes
    return log_dir


def _compact_topic(bootstrap: str, topic: str) -> None:
    config = "cleanup.policy=compact,min.cleanable.dirty.ratio=0.001"
    main = ["-cp", f"{jars(KAFKA)}/*", "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap]
    change = ["--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config", config]
    subprocess.run([java_tool("java"), *main, *change], check=True, capture_output=True)


def _wait_until_cleaned(output: Path, topic: Topic, partitions: list[Path]) -> float:
    """Return the seconds from the start of the first round to the end of the last.

    When the cleaner's offset map is full, a partition takes several rounds.
    """
    beginning = re.compile(rf"^\[(\S+)\] .*Beginning cleaning of log {topic.name}-", re.M)
    cleaned = re.compile(
        rf"^\[(\S+)\] .*\n?.*cleaned log ({topic.name}-\d+) \(dirty section = \[\d+, (\d+)\]\)", re.M
    )
    active = {(partition.name, str(int(max(partition.glob("*.log")).stem))) for partition in partitions}
    deadline = time.monotonic() + CLEANER_SECONDS
    while time.monotonic() < deadline:
        log = output.read_text(errors="replace")
        rounds = cleaned.findall(log)
        if active <= {(partition, dirty_end) for _, partition, dirty_end in rounds}:
            started = min(_seconds(timestamp) for timestamp in beginning.findall(log))
            return max(_seconds(timestamp) for timestamp, *_ in rounds) - started
        time.sleep(0.2)
    raise JavaError(f"{topic.name} was not compacted within {CLEANER_SECONDS} s: {log[-3000:]}")


def _seconds(timestamp: str) -> float:
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S,%f").timestamp()


def _size(log_dir: Path, topic: Topic) -> int:
    return sum(path.stat().st_size for path in log_dir.glob(f"{topic.name}-*/*.log"))
