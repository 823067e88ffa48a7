"""Measure producers: records one by one from one Python thread, Arrow batches, and memory."""

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from benchmarks.broker import Broker
from benchmarks.corpus import Corpus
from benchmarks.memory import MIB, Growth, own_peak, reset_own_peak
from benchmarks.paths import scratch
from benchmarks.timing import Measurement, Pass, measure_in_turn
from benchmarks.write import BATCH_BYTES
from native_log import LogDir
from native_log.producer import KafkaLogProducer
from native_log.records import EncodeOptions, encode

ONE_BY_ONE = "send one by one, until all are acknowledged"
SEND = "the calls of send alone"
BATCHES = "Arrow batches of 10,000, until all are acknowledged"
KAFKALOG, KAFKA_PYTHON, CONFLUENT = "KafkaLogProducer", "kafka-python", "confluent-kafka"
SEND_BATCH, KERNEL = "KafkaLogProducer.send_batch", "kernel, encode only"
STALLED = "KafkaLogProducer, sender stalled"
STALLED_CONSTANT_MIB = 16
"""What a producer may take above 110 % of buffer.memory: modules, threads, one request."""
CODECS = ("none", "lz4")
PARTITIONS = 4
RECORDS = 2_000_000
ARROW_ROWS = 10_000
BUFFER_MIB = 256
_DISTINCT = 100_000
"""How many values a topic has. They repeat, which no batch is large enough to contain."""
_POLL_EVERY = 1000
"""How often librdkafka's client serves delivery reports, in records."""
_ALL_IN_MEMORY = 4 << 30


def measure(corpus: Corpus, scale: float, runs: int) -> Iterator[Measurement | Growth]:
    yield from measure_one_by_one(corpus, scale, runs)
    yield from _measure_batches(_values(corpus), round(RECORDS * scale), runs)
    yield _measure_stalled(max(16, round(BUFFER_MIB * min(1.0, scale))))


def _values(corpus: Corpus) -> list[bytes]:
    log = LogDir(corpus.log_dir).partition("small100-none", 0)
    table = log.read(0, min(_DISTINCT, log.log_end_offset), ["value"]).read_all()
    return list(table["value"].to_pylist())


@dataclass(frozen=True, slots=True)
class Load:
    """What each contender sends."""

    values: list[bytes]
    records: int
    codec: str

    def __iter__(self) -> Iterator[bytes]:
        whole, rest = divmod(self.records, len(self.values))
        for _ in range(whole):
            yield from self.values
        yield from self.values[:rest]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self))


def measure_one_by_one(corpus: Corpus, scale: float, runs: int) -> Iterator[Measurement]:
    """Measure `send` beside kafka-python and confluent-kafka."""
    values, records = _values(corpus), round(RECORDS * scale)
    folder = scratch() / "producer"
    shutil.rmtree(folder, ignore_errors=True)
    settings = {
        # The disk need not hold the records of all runs.
        "log.segment.bytes": str(64 << 20),
        "log.retention.bytes": str(256 << 20),
        "log.retention.check.interval.ms": "5000",
    }
    with Broker(folder / "broker", settings, "2g") as broker:
        for codec in CODECS:
            load = Load(values, records, codec)
            _create_topic(broker.bootstrap, codec)
            yield from measure_in_turn(
                ONE_BY_ONE,
                codec,
                {
                    KAFKALOG: lambda load=load: _kafkalog(load),
                    CONFLUENT: lambda load=load: _confluent(load, broker.bootstrap),
                },
                size_bytes=load.size_bytes,
                rows=records,
                runs=runs,
                warmups=1,
            )
            # It takes about a minute.
            yield from measure_in_turn(
                ONE_BY_ONE,
                codec,
                {KAFKA_PYTHON: lambda load=load: _kafka_python(load, broker.bootstrap)},
                size_bytes=load.size_bytes,
                rows=records,
                runs=min(runs, 3),
                warmups=0,
            )
            yield from measure_in_turn(
                SEND,
                codec,
                {
                    KAFKALOG: lambda load=load: _kafkalog(load, only_send=True),
                    CONFLUENT: lambda load=load: _confluent(load, broker.bootstrap, only_send=True),
                },
                size_bytes=load.size_bytes,
                rows=records,
                runs=runs,
                warmups=1,
            )
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _new_log_dir() -> Iterator[LogDir]:
    folder = scratch() / "producer-logs"
    shutil.rmtree(folder, ignore_errors=True)
    with LogDir.create(folder) as log_dir:
        log_dir.create_topic("t", PARTITIONS)
        yield log_dir
    shutil.rmtree(folder)


def _kafkalog(load: Load, *, only_send: bool = False) -> Pass:
    settings: dict[str, Any] = {"compression.type": load.codec}
    if only_send:
        settings |= {"buffer.memory": _ALL_IN_MEMORY, "delivery.timeout.ms": 2**31 - 1}
    with _new_log_dir() as log_dir:
        with KafkaLogProducer(log_dir, settings) as producer:
            producer.partitions_for("t")
            started = time.perf_counter()
            for value in load:
                producer.send("t", value)
            sent = time.perf_counter()
            producer.flush()
            flushed = time.perf_counter()
        rows = sum(log_dir.partition("t", number).log_end_offset for number in range(PARTITIONS))
    return Pass(rows, (sent if only_send else flushed) - started)


def _kafka_python(load: Load, bootstrap: str) -> Pass:
    import kafka

    before = _end_offsets(bootstrap, load.codec)
    codec = None if load.codec == "none" else load.codec
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec)
    producer.partitions_for(load.codec)
    started = time.perf_counter()
    for value in load:
        producer.send(load.codec, value)
    producer.flush()
    seconds = time.perf_counter() - started
    producer.close()
    return Pass(_end_offsets(bootstrap, load.codec) - before, seconds)


def _confluent(load: Load, bootstrap: str, *, only_send: bool = False) -> Pass:
    import confluent_kafka

    before = _end_offsets(bootstrap, load.codec)
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "compression.type": load.codec}
    if only_send:
        settings |= {"queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": _ALL_IN_MEMORY >> 10}
    producer = confluent_kafka.Producer(settings)
    producer.list_topics(load.codec)
    started = time.perf_counter()
    for number, value in enumerate(load):
        while True:
            try:
                producer.produce(load.codec, value)
                break
            except BufferError:
                producer.poll(0.01)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    sent = time.perf_counter()
    producer.flush()
    flushed = time.perf_counter()
    return Pass(_end_offsets(bootstrap, load.codec) - before, (sent if only_send else flushed) - started)


def _create_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def _end_offsets(bootstrap: str, topic: str) -> int:
    """Return the sum of the partitions' end offsets: the number of records that were ever written."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(partition)[1] for partition in partitions)
    finally:
        consumer.close()


def _measure_batches(values: list[bytes], records: int, runs: int) -> Iterator[Measurement]:
    for codec in CODECS:
        load = Load(values, records, codec)
        column = pa.array(load, pa.binary())
        table = pa.record_batch({"value": column})
        batches = [table.slice(start, ARROW_ROWS) for start in range(0, records, ARROW_ROWS)]
        yield from measure_in_turn(
            BATCHES,
            codec,
            {SEND_BATCH: _send_batches(batches, codec), KERNEL: _encode(batches, codec)},
            size_bytes=load.size_bytes,
            rows=records,
            runs=runs,
        )


def _send_batches(batches: list[pa.RecordBatch], codec: str) -> Callable[[], Pass]:
    def run() -> Pass:
        with _new_log_dir() as log_dir:
            settings = {"compression.type": codec, "batch.size": BATCH_BYTES}
            with KafkaLogProducer(log_dir, settings) as producer:
                for number in range(PARTITIONS):  # to open the logs
                    producer.send("t", b"", partition=number)
                producer.flush()
                started = time.perf_counter()
                for batch in batches:
                    producer.send_batch("t", batch)
                producer.flush()
                seconds = time.perf_counter() - started
            rows = sum(log_dir.partition("t", number).log_end_offset for number in range(PARTITIONS))
        return Pass(rows - PARTITIONS, seconds)

    return run


def _encode(batches: list[pa.RecordBatch], codec: str) -> Callable[[], Pass]:
    options = EncodeOptions(compression=codec, batch_size=BATCH_BYTES)

    def run() -> Pass:
        ratio, written = 1.0, 0
        for batch in batches:
            encoded = encode(batch, options, estimated_ratio=ratio)
            ratio = encoded.estimated_ratio
            written += len(encoded.data)
        return Pass(sum(batch.num_rows for batch in batches), written_bytes=written)

    return run


def _measure_stalled(buffer_mib: int) -> Growth:
    """Measure in a new process how far it grows until its buffer is full, while no append ends."""
    command = [sys.executable, "-m", "benchmarks.producer", str(buffer_mib)]
    return Growth(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def stalled_limit_mib(growth: Growth) -> float:
    """Return the most MiB that the process of this measurement may grow by."""
    return 1.1 * int(growth.corpus.removeprefix(_BUFFER)) + STALLED_CONSTANT_MIB


_BUFFER = "buffer.memory, MiB: "


def _fill_buffer(buffer_mib: int) -> Growth:
    from native_log.log import PartitionLog

    may_append = threading.Event()
    append = PartitionLog.append_built

    def append_later(*arguments: Any, **options: Any) -> int:
        may_append.wait()
        return append(*arguments, **options)

    PartitionLog.append_built = append_later  # type: ignore[method-assign]
    value = bytes(100)
    with _new_log_dir() as log_dir:
        settings = {"buffer.memory": buffer_mib * MIB, "max.block.ms": 1000}
        with KafkaLogProducer(log_dir, settings) as producer:
            start = reset_own_peak()
            while not producer.send("t", value).failed():
                pass
            growth = Growth(STALLED, f"{_BUFFER}{buffer_mib}", start, own_peak())
            may_append.set()
    return growth


if __name__ == "__main__":
    print(json.dumps(asdict(_fill_buffer(int(sys.argv[1])))))
