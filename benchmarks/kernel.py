"""Measure the kernel, Kafka's classes, Python clients and PartitionLog on the same files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import readers
from benchmarks.corpus import KB1, SMALL, VARIED, Corpus, Topic, warm
from benchmarks.jvm import Jvm, compile_java
from benchmarks.paths import HERE, scratch
from benchmarks.timing import Measurement, Pass, measure_in_turn
from native_log import LogDir

SEVEN = "decode seven columns"
ONE_FILE = "decode seven columns, one partition"
SOME = "decode some columns"
HEADERS = "scan batch headers"
PARTITION_LOG = "read a partition"


def measure(corpus: Corpus, runs: int) -> Iterator[Measurement]:
    for topic in (*SMALL, *KB1):
        segments = corpus.segments(topic.name)
        warm(segments)
        run_in_turn = partial(
            measure_in_turn, corpus=topic.name, size_bytes=corpus.size_bytes(topic.name), runs=runs
        )
        yield from measure_beside_java(corpus, [topic], runs)
        with _jvm(segments) as jvm:  # a new JVM, whose compiler has seen nothing else
            yield from run_in_turn(
                HEADERS,
                contenders={
                    "kernel": readers.kernel_scan(segments),
                    "PartitionLog.batches": _batches(corpus, topic.name),
                    "Java FileRecords": readers.java(jvm, "headers"),
                },
                rows=corpus.records[topic.name],
                runs=2 * runs,
            )
        yield from run_in_turn(
            PARTITION_LOG,
            contenders={
                "kernel": readers.kernel_decode(segments),
                "PartitionLog.read": _partition_log(corpus, topic.name),
            },
            rows=corpus.records[topic.name],
        )
        yield from run_in_turn(
            SOME,
            contenders={
                "all seven": readers.kernel_decode(segments),
                "offset,timestamp": readers.kernel_decode(segments, ("offset", "timestamp")),
                "key": readers.kernel_decode(segments, ("key",)),
                "value": readers.kernel_decode(segments, ("value",)),
            },
            rows=corpus.records[topic.name],
        )
    yield from measure_beside_java(corpus, VARIED, runs)
    yield from _python_clients(corpus, runs)


def measure_beside_java(corpus: Corpus, topics: Iterable[Topic], runs: int) -> Iterator[Measurement]:
    """Measure how fast the records of each topic are decoded."""
    for topic in topics:
        segments = corpus.segments(topic.name)
        warm(segments)
        with _jvm(segments) as jvm:
            yield from measure_in_turn(
                SEVEN,
                topic.name,
                {
                    "kernel": readers.kernel_decode(segments),
                    "Java MemoryRecords": readers.java(jvm, "memory"),
                    "Java FileRecords": readers.java(jvm, "file"),
                },
                size_bytes=corpus.size_bytes(topic.name),
                rows=corpus.records[topic.name],
                runs=runs,
            )


def _python_clients(corpus: Corpus, runs: int) -> Iterator[Measurement]:
    """Measure them on the first partition only: kafka-python takes seconds for a million records."""
    for topic in ("small100-none", "small100-lz4", "kb1-none"):
        segments = sorted(corpus.partitions(topic)[0].glob("*.log"))
        warm(segments)
        yield from measure_in_turn(
            ONE_FILE,
            topic,
            {
                "kernel": readers.kernel_decode(segments),
                "aiokafka": readers.aiokafka(segments),
                "kafka-python": readers.kafka_python(segments),
            },
            size_bytes=sum(segment.stat().st_size for segment in segments),
            runs=min(3, runs),
            warmups=1,
        )


def _partition_log(corpus: Corpus, topic: str) -> Callable[[], Pass]:
    """Open the log directory and read all partitions of a topic, one after the other."""

    def run() -> Pass:
        log_dir = LogDir(corpus.log_dir)
        rows = 0
        for number in log_dir.topics()[topic]:
            for batch in log_dir.partition(topic, number).read(columns=readers.SEVEN_COLUMNS):
                rows += batch.num_rows
        return Pass(rows)

    return run


def _batches(corpus: Corpus, topic: str) -> Callable[[], Pass]:
    def run() -> Pass:
        log_dir = LogDir(corpus.log_dir)
        rows = 0
        for number in log_dir.topics()[topic]:
            for batches in log_dir.partition(topic, number).batches():
                rows += sum(batches["recordCount"].to_pylist())
        return Pass(rows)

    return run


@contextmanager
def _jvm(segments: Sequence[Path]) -> Iterator[Jvm]:
    class_path = compile_java([HERE / "java" / "RecordsReader.java"], scratch() / "classes")
    options = ["-Xms2g", "-Xmx2g", "-XX:+UseParallelGC"]
    with Jvm(class_path, "RecordsReader", *map(str, segments), options=options) as jvm:
        yield jvm
