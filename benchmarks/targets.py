"""Performance targets of kafkalog, relative to its peers: the first table of RESULTS.md."""

from dataclasses import dataclass

from benchmarks import compaction, kernel, latency, producer, sinks, streams, tools, write
from benchmarks.corpus import COMPACT, GIANT

JAVA = ("Java MemoryRecords", "Java FileRecords")
SOURCE, TUNED, CEILING = "Spark's kafka source", "Spark's kafka source, tuned", "ceiling"
COUNTS = "kafkalog, view=counts"
WORKER_LIMIT_MIB = 256
# The limit applies neither to compaction, whose memory is set by log.cleaner.dedupe.buffer.size, nor to
# producers, whose memory is set by buffer.memory.
UNLIMITED = ("kafkalog_spark.compact", producer.STALLED)


@dataclass(frozen=True, slots=True)
class Target:
    """`ours` must be at least `ratio` times as fast as the fastest of `peers`, measured in turn.

    Without a corpus, the target applies to every corpus, and the lowest ratio is reported.
    """

    work: str
    corpus: str | None
    ours: str
    peers: tuple[str, ...]
    ratio: float


@dataclass(frozen=True, slots=True)
class Limit:
    """`ours` must take at most `seconds`."""

    work: str
    ours: str
    seconds: float


TARGETS = (
    # Libraries limit zstd and gzip: zstd alone takes most of the time that Java takes in total.
    Target(kernel.SEVEN, "small100-none", "kernel", JAVA, 2.2),
    Target(kernel.SEVEN, "small100-lz4", "kernel", JAVA, 2.2),
    Target(kernel.SEVEN, "small100-snappy", "kernel", JAVA, 2.9),
    Target(kernel.SEVEN, "small100-zstd", "kernel", JAVA, 1.4),
    Target(kernel.SEVEN, "small100-gzip", "kernel", JAVA, 2.3),
    Target(kernel.SEVEN, "kb1-none", "kernel", JAVA, 1.05),
    Target(kernel.SEVEN, "kb1-lz4", "kernel", JAVA, 1.8),
    Target(kernel.SEVEN, None, "kernel", JAVA, 1),
    Target(kernel.ONE_FILE, "small100-none", "kernel", ("aiokafka",), 10),
    Target(kernel.ONE_FILE, "small100-none", "kernel", ("kafka-python",), 150),
    Target(kernel.HEADERS, "small100-none", "kernel", ("Java FileRecords",), 1),
    Target(kernel.SOME, "small100-none", "offset,timestamp", ("all seven",), 1),
    Target(kernel.SOME, "small100-none", "key", ("all seven",), 1),
    Target(kernel.PARTITION_LOG, "small100-none", "PartitionLog.read", ("kernel",), 0.9),
    *(
        target
        for cores in (2, 4)
        for target in (
            Target(f"seven columns to noop, local[{cores}]", "small100-none", "kafkalog", (CEILING,), 0.9),
            Target(f"seven columns to noop, local[{cores}]", "small100-none", "kafkalog", (SOURCE,), 4.5),
            Target(f"seven columns to noop, local[{cores}]", "small100-none", "kafkalog", (TUNED,), 2.5),
            Target(f"sum(length(value)), local[{cores}]", "small100-none", "kafkalog", (SOURCE,), 8),
            Target(f"count(offset), local[{cores}]", "small100-none", "kafkalog", (SOURCE,), 12),
            Target(f"count by partition, local[{cores}]", "small100-none", COUNTS, (SOURCE,), 50),
            Target(f"count by partition, local[{cores}]", "small100-none", COUNTS, ("kafkalog",), 20),
        )
    ),
    *(
        Target(write.ENCODE, f"small100, {codec}", "kernel", (write.BUILDER,), ratio)
        for codec, ratio in (("none", 3), ("lz4", 3), ("snappy", 3), ("zstd", 1.5), ("gzip", 3))
    ),
    *(
        Target(write.APPEND, f"small100, {codec}", "PartitionLog.append", (write.FLOOR,), 0.9)
        for codec in ("none", "lz4")
    ),
    *(
        target
        for codec in ("none", "lz4")
        for target in (
            Target(sinks.work(2), codec, "kafkalog", (sinks.SINK,), 4),
            Target(sinks.work(2), codec, "kafkalog", (sinks.BATCHED_SINK,), 2.5),
        )
    ),
    *(
        target
        for codec in producer.CODECS
        for target in (
            Target(producer.ONE_BY_ONE, codec, producer.KAFKALOG, (producer.KAFKA_PYTHON,), 5),
            Target(producer.ONE_BY_ONE, codec, producer.KAFKALOG, (producer.CONFLUENT,), 1),
            Target(producer.SEND, codec, producer.KAFKALOG, (producer.CONFLUENT,), 1),
            Target(producer.BATCHES, codec, producer.SEND_BATCH, (producer.KERNEL,), 0.7),
        )
    ),
    Target(streams.DRAIN, streams.TOPIC, streams.KAFKALOG, (streams.KAFKA,), 3),
    Target(streams.DRAIN, streams.TOPIC, streams.KAFKALOG, (streams.CEILING,), 0.9),
    Target(streams.DRAIN_ALL, streams.TOPIC, streams.KAFKALOG, (streams.BATCH,), 0.85),
    Target(streams.DRAIN_ALL, streams.TOPIC, streams.STARTED, (streams.BATCH,), 0.85),
    Target(streams.P50, "delay", streams.KAFKALOG, (streams.KAFKA,), 1 / 1.5),
    Target(streams.P99, "delay", streams.KAFKALOG, (streams.KAFKA,), 1 / 1.5),
    Target(streams.IDLE, None, streams.KAFKALOG, (streams.FILES,), 0.5),
    Target(tools.DUMP, None, tools.KAFKALOG, (tools.DUMP_TOOL,), 20),
    Target(tools.VERIFY, None, tools.KAFKALOG, (tools.READ,), 0.7),
    Target(tools.RECOVER, None, tools.RECOVERY, (tools.BROKER,), 3),
    Target(tools.RECOVER, None, tools.REINDEX, (tools.BROKER,), 3),
    Target(tools.LATEST, None, tools.KAFKALOG, (tools.WINDOW,), 10),
    *(
        Target(compaction.work(topic), topic.name, "native_log.compact", (compaction.LOG_CLEANER,), ratio)
        for topic, ratio in zip(COMPACT, (14, 12, 8, 8), strict=True)
    ),
    *(
        Target(compaction.work(topic), topic.name, compaction.SPARK, (compaction.LOG_CLEANER,), ratio)
        for topic, ratio in ((COMPACT[2], 8), (COMPACT[3], 8), (GIANT, 25))
    ),
)
LIMITS = (
    Limit(latency.FIRST_ROW, "kafkalog, first query of a session", 1),
    Limit(latency.PLAN, "LogDir: every partition opened", 5),
    Limit(latency.PLAN, f"Spark, local[{latency.CORES}]", 5),
    Limit(tools.REPORT, tools.KAFKALOG, 10),
    Limit(latency.READ, f"Spark, local[{latency.CORES}]", 10),
)
