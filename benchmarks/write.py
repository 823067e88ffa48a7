"""Measure writing: the kernel and Kafka's batch builder, PartitionLog.append, and sinks in Spark."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pyarrow as pa
from typing_extensions import Buffer

from benchmarks.broker import Broker
from benchmarks.corpus import CODECS, KIB, Corpus
from benchmarks.jvm import Jvm, compile_java, spark_kafka_source
from benchmarks.machine import SEVERAL_CORES
from benchmarks.paths import HERE, scratch
from benchmarks.spark import run_in_session
from benchmarks.timing import Measurement, Pass, measure_in_turn
from native_log import LogDir
from native_log.records import EncodeOptions, encode
from native_log.storage.writing import AppendFile

ENCODE = "encode to batches of 64 KB"
APPEND = "append to a partition"
BUILDER = "Java MemoryRecordsBuilder"
DISK = "write and fsync of the same bytes"
FLOOR = "encode, write and fsync"
BATCH_BYTES = 64 * KIB
SINK_ROWS = 4_000_000


@dataclass(frozen=True, slots=True)
class Input:
    """The first `records` of a topic's first segment."""

    topic: str
    records: int


INPUTS = (Input("small100-none", 1_000_000), Input("kb1-none", 200_000))


def measure(corpus: Corpus, scale: float, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    for source in INPUTS:
        yield from _measure_encode(corpus, source, runs)
        yield from _measure_append(corpus, source, runs)
    yield from _measure_sinks(round(SINK_ROWS * scale), runs, conf)


def _measure_encode(corpus: Corpus, source: Input, runs: int) -> Iterator[Measurement]:
    segment = corpus.segments(source.topic)[0]
    records = _records(segment, source.records)
    class_path = compile_java([HERE / "java" / "RecordsWriter.java"], scratch() / "classes")
    options = ["-Xms3g", "-Xmx3g", "-XX:+UseParallelGC"]
    for codec in CODECS:
        arguments = (str(segment), str(records.num_rows), str(BATCH_BYTES))
        with Jvm(class_path, "RecordsWriter", *arguments, options=options) as jvm:
            yield from measure_in_turn(
                ENCODE,
                f"{source.topic.split('-')[0]}, {codec}",
                {"kernel": _kernel(records, codec), BUILDER: _java(jvm, codec)},
                size_bytes=_content_bytes(records),
                rows=records.num_rows,
                runs=runs,
                warmups=4,
            )


def _measure_append(corpus: Corpus, source: Input, runs: int) -> Iterator[Measurement]:
    """Append to a new partition of a new log directory in each run; the time includes the flush to disk."""
    records = _records(corpus.segments(source.topic)[0], source.records)
    for codec in ("none", "lz4"):
        yield from measure_in_turn(
            APPEND,
            f"{source.topic.split('-')[0]}, {codec}",
            {
                "kernel": _kernel(records, codec),
                DISK: _disk(records, codec),
                FLOOR: _floor(records, codec),
                "PartitionLog.append": _partition_log(records, codec),
            },
            size_bytes=_content_bytes(records),
            rows=records.num_rows,
            runs=runs,
        )


def _measure_sinks(rows: int, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    folder = scratch() / "sinks"
    shutil.rmtree(folder, ignore_errors=True)
    settings = {
        "auto.create.topics.enable": "true",
        "num.partitions": "4",
        # The disk need not hold the records of all runs.
        "log.segment.bytes": str(64 << 20),
        "log.retention.bytes": str(256 << 20),
        "log.retention.check.interval.ms": "5000",
    }
    with Broker(folder / "broker", settings, "2g") as broker:
        for cores in SEVERAL_CORES:
            request = {
                "do": "sinks",
                "cores": cores,
                "runs": runs,
                "rows": rows,
                "bootstrap": broker.bootstrap,
                "jars": spark_kafka_source(),
                "folder": str(folder / "kafkalog"),
                "conf": dict(conf),
            }
            for result in run_in_session(request):
                yield Measurement.from_json(result)
    shutil.rmtree(folder, ignore_errors=True)


def _records(segment: Path, count: int) -> pa.RecordBatch:
    from native_log.log import PartitionLog

    log = PartitionLog.open(segment.parent)
    batches = log.read(0, min(count, log.log_end_offset), ["key", "value", "timestamp"])
    table = pa.Table.from_batches(batches)
    return table.combine_chunks().to_batches()[0]


def _content_bytes(records: pa.RecordBatch) -> int:
    """Return the size of keys and values."""
    return sum(records[name].nbytes - 4 * (records.num_rows + 1) for name in ("key", "value"))


def _kernel(records: pa.RecordBatch, codec: str) -> Callable[[], Pass]:
    def run() -> Pass:
        written = sum(len(data) for data in _encode(records, codec))
        return Pass(records.num_rows, written_bytes=written)

    return run


def _encode(records: pa.RecordBatch, codec: str) -> Iterator[Buffer]:
    """Encode about 1 MiB per call, as the library's writers do."""
    step = max(1, records.num_rows * (1 << 20) // max(1, _content_bytes(records)))
    options, ratio = EncodeOptions(compression=codec, batch_size=BATCH_BYTES), 1.0
    for start in range(0, records.num_rows, step):
        encoded = encode(records.slice(start, step), options, estimated_ratio=ratio)
        ratio = encoded.estimated_ratio
        yield encoded.data


def _disk(records: pa.RecordBatch, codec: str) -> Callable[[], Pass]:
    """Write the same bytes to one file and flush it: no log on this disk can be faster."""
    chunks = [bytes(data) for data in _encode(records, codec)]
    return _write(records.num_rows, lambda: chunks)


def _floor(records: pa.RecordBatch, codec: str) -> Callable[[], Pass]:
    """Encode, write to one file and flush it: no log that uses this kernel and this disk can be faster."""
    return _write(records.num_rows, lambda: _encode(records, codec))


def _write(rows: int, chunks: Callable[[], Iterable[Buffer]]) -> Callable[[], Pass]:
    path = scratch() / "append.bytes"

    def run() -> Pass:
        path.unlink(missing_ok=True)
        started = perf_counter()
        file = AppendFile(str(path))
        for chunk in chunks():
            file.append(chunk)
        file.flush()
        file.close()
        seconds = perf_counter() - started
        path.unlink()
        return Pass(rows, seconds, file.size_bytes)

    return run


def _java(jvm: Jvm, codec: str) -> Callable[[], Pass]:
    def run() -> Pass:
        rows, seconds, written = jvm.ask(codec).split()
        return Pass(int(rows), float(seconds), int(written))

    return run


def _partition_log(records: pa.RecordBatch, codec: str) -> Callable[[], Pass]:
    folder = scratch() / "append"

    def run() -> Pass:
        shutil.rmtree(folder, ignore_errors=True)
        with LogDir.create(folder) as log_dir:
            log_dir.create_topic("t", partitions=1)
            started = perf_counter()
            with log_dir.partition("t", 0) as log:
                log.append(records, compression=codec, batch_size=BATCH_BYTES)
            seconds = perf_counter() - started
        written = sum(path.stat().st_size for path in folder.glob("t-0/*.log"))
        shutil.rmtree(folder)
        return Pass(records.num_rows, seconds, written)

    return run
