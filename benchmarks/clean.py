"""Compaction beside Kafka's own cleaner, on copies of the same partitions, and what its parts take."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import native_log
from benchmarks.broker import Broker
from benchmarks.corpus import COMPACT, GIANT, SEED, Corpus, Topic, warm
from benchmarks.growth import Growth
from benchmarks.jvm import KAFKA, JavaError, jars, tool
from benchmarks.measure import Measurement, Pass, in_turn
from benchmarks.places import scratch
from benchmarks.spark import in_session

LOG_CLEANER = "Kafka's LogCleaner"
CLEANER_SECONDS = 400
CORES = 4
SPARK = f"kafkalog_spark.compact, local[{CORES}]"
SCALING = (1, 2, CORES)
"""Cores that work on one partition."""
DRIVER_MEMORY = "2g"
"""Of the driver, which with local[] is the executor as well; Python workers come on top, and are measured."""
TOPICS = (*COMPACT, GIANT, SEED)
# Of a log directory, beside its partitions: what a broker wants to find to load it as its own.
BROKERS_OWN = ("__cluster_metadata-0", "meta.properties", "bootstrap.checkpoint", ".kafka_cleanshutdown")


def work(topic: Topic) -> str:
    where = "one partition" if topic.partitions == 1 else f"{topic.partitions} partitions"
    return f"compact {topic.records // 10**6} M records in {where}"


def measure(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement | Growth]:
    """Kafka's cleaner is timed by what it logs, without the broker's start; Spark in a session that has
    compacted a log before."""
    for topic in COMPACT:
        contenders = {
            "native_log.compact": _native_log(corpus, topic),
            LOG_CLEANER: _log_cleaner(corpus, topic),
        }
        yield from _in_turn(corpus, topic, contenders, runs)
    for topic in (one for one in COMPACT if one.partitions > 1):
        yield from _in_spark(corpus, topic, runs, conf, CORES)
    for cores in SCALING:
        yield from _in_spark(corpus, GIANT, 1, conf, cores)
    yield from _in_turn(corpus, GIANT, {LOG_CLEANER: _log_cleaner(corpus, GIANT)}, 1)


def _in_turn(
    corpus: Corpus, topic: Topic, contenders: Mapping[str, Callable[[], Pass]], runs: int
) -> list[Measurement]:
    return in_turn(
        work(topic),
        topic.name,
        contenders,
        size_bytes=corpus.size_bytes(topic.name),
        rows=corpus.records[topic.name],
        runs=runs,
        warmups=0,  # a copy each time, and a broker of its own
    )


def _native_log(corpus: Corpus, topic: Topic) -> Callable[[], Pass]:
    config = {"segment.bytes": topic.segment_bytes, "log.cleaner.threads": topic.partitions}

    def run() -> Pass:
        log_dir = copy(corpus.log_dir, corpus.partitions(topic.name))
        started = time.perf_counter()
        told = native_log.compact(log_dir, [topic.name], config).to_pylist()
        seconds = time.perf_counter() - started
        if {one["status"] for one in told} != {"cleaned"}:
            raise AssertionError(told)
        return Pass(corpus.records[topic.name], seconds, _size(log_dir, topic))

    return run


def _in_spark(
    corpus: Corpus, topic: Topic, runs: int, conf: Mapping[str, str], cores: int
) -> Iterator[Measurement | Growth]:
    """kafkalog_spark.compact: all cores at work, inside one partition too; and the memory that it takes."""
    asked = {
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
    for told in in_session(asked):
        if "peak_bytes" in told:
            yield Growth(**told)
        else:
            yield Measurement(**(told | {"seconds": tuple(told["seconds"])}))


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


def copy(brokers: Path, partitions: list[Path]) -> Path:
    """These partitions in a log directory of their own. Closed segments are links: nobody changes them."""
    log_dir = scratch() / "clean" / "logs"
    shutil.rmtree(log_dir.parent, ignore_errors=True)
    log_dir.mkdir(parents=True)
    checkpoints = [path.name for path in brokers.glob("*-checkpoint")]
    for name in (*BROKERS_OWN, *checkpoints):
        subprocess.run(["cp", "-a", brokers / name, log_dir], check=True)
    for partition in partitions:
        into = log_dir / partition.name
        into.mkdir()
        *closed, _ = segments = sorted(partition.glob("*.log"))
        warm(segments)
        for file in partition.iterdir():
            if file in closed:
                os.link(file, into / file.name)
            else:
                shutil.copy2(file, into)
    os.sync()  # what was written before is not to be waited for while the clock runs
    return log_dir


def _compact_topic(bootstrap: str, topic: str) -> None:
    config = "cleanup.policy=compact,min.cleanable.dirty.ratio=0.001"
    main = ["-cp", f"{jars(KAFKA)}/*", "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap]
    what = ["--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config", config]
    subprocess.run([tool("java"), *main, *what], check=True, capture_output=True)


def _wait_until_cleaned(output: Path, topic: Topic, partitions: list[Path]) -> float:
    """Seconds from the first beginning to the last end; a full map makes several rounds of a partition."""
    begun = re.compile(rf"^\[(\S+)\] .*Beginning cleaning of log {topic.name}-", re.M)
    cleaned = re.compile(
        rf"^\[(\S+)\] .*\n?.*cleaned log ({topic.name}-\d+) \(dirty section = \[\d+, (\d+)\]\)", re.M
    )
    active = {(one.name, str(int(max(one.glob("*.log")).stem))) for one in partitions}
    end = time.monotonic() + CLEANER_SECONDS
    while time.monotonic() < end:
        said = output.read_text(errors="replace")
        rounds = cleaned.findall(said)
        if active <= {(partition, dirty_end) for _, partition, dirty_end in rounds}:
            started = min(_seconds(stamp) for stamp in begun.findall(said))
            return max(_seconds(stamp) for stamp, *_ in rounds) - started
        time.sleep(0.2)
    raise JavaError(f"{topic.name} was not cleaned within {CLEANER_SECONDS} s: {said[-3000:]}")


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S,%f").timestamp()


def _size(log_dir: Path, topic: Topic) -> int:
    return sum(path.stat().st_size for path in log_dir.glob(f"{topic.name}-*/*.log"))
