"""What is asked of kafkalog, beside whom: the lines that RESULTS.md begins with."""

from dataclasses import dataclass

from benchmarks import clean, kernel, latency, spark_sinks, write
from benchmarks.corpus import COMPACT, GIANT

JAVA = ("Java MemoryRecords", "Java FileRecords")
SOURCE, TUNED, CEILING = "Spark's kafka source", "Spark's kafka source, tuned", "ceiling"
WORKER_LIMIT_MIB = 256
# But for compaction, whose memory is a setting: log.cleaner.dedupe.buffer.size.
UNLIMITED = "kafkalog_spark.compact"


@dataclass(frozen=True, slots=True)
class Claim:
    """`ours` is at least `ratio` times as fast as the fastest of `peers`, side by side.

    Without a corpus: on each, of which the one with the least ratio is reported.
    """

    work: str
    corpus: str | None
    ours: str
    peers: tuple[str, ...]
    ratio: float


@dataclass(frozen=True, slots=True)
class Limit:
    """`ours` takes at most so many seconds."""

    work: str
    ours: str
    seconds: float


CLAIMS = (
    Claim(kernel.SEVEN, "small100-none", "kernel", JAVA, 2.5),
    Claim(kernel.SEVEN, "small100-lz4", "kernel", JAVA, 3),
    Claim(kernel.SEVEN, "small100-snappy", "kernel", JAVA, 3),
    Claim(kernel.SEVEN, "small100-zstd", "kernel", JAVA, 2),
    Claim(kernel.SEVEN, "small100-gzip", "kernel", JAVA, 4),
    Claim(kernel.SEVEN, None, "kernel", JAVA, 1),
    Claim(kernel.ONE_FILE, "small100-none", "kernel", ("aiokafka",), 10),
    Claim(kernel.ONE_FILE, "small100-none", "kernel", ("kafka-python",), 150),
    Claim(kernel.HEADERS, "small100-none", "kernel", ("Java FileRecords",), 1),
    Claim(kernel.SOME, "small100-none", "offset,timestamp", ("all seven",), 1),
    Claim(kernel.SOME, "small100-none", "key", ("all seven",), 1),
    Claim(kernel.PARTITION_LOG, "small100-none", "PartitionLog.read", ("kernel",), 0.9),
    *(
        claim
        for cores in (2, 4)
        for claim in (
            Claim(f"seven columns to noop, local[{cores}]", "small100-none", "kafkalog", (CEILING,), 0.9),
            Claim(f"seven columns to noop, local[{cores}]", "small100-none", "kafkalog", (SOURCE,), 4.5),
            Claim(f"seven columns to noop, local[{cores}]", "small100-none", "kafkalog", (TUNED,), 2.5),
            Claim(f"sum(length(value)), local[{cores}]", "small100-none", "kafkalog", (SOURCE,), 8),
            Claim(f"count(offset), local[{cores}]", "small100-none", "kafkalog", (SOURCE,), 12),
        )
    ),
    *(
        Claim(write.ENCODE, f"small100, {codec}", "kernel", (write.BUILDER,), ratio)
        for codec, ratio in (("none", 3), ("lz4", 3), ("snappy", 3), ("zstd", 1.5), ("gzip", 3))
    ),
    *(
        Claim(write.APPEND, f"small100, {codec}", "PartitionLog.append", ("kernel",), 0.8)
        for codec in ("none", "lz4")
    ),
    *(
        claim
        for codec in ("none", "lz4")
        for claim in (
            Claim(spark_sinks.work(2), codec, "kafkalog", (spark_sinks.SINK,), 4),
            Claim(spark_sinks.work(2), codec, "kafkalog", (spark_sinks.BATCHED_SINK,), 2.5),
        )
    ),
    *(
        Claim(clean.work(topic), topic.name, "native_log.compact", (clean.LOG_CLEANER,), ratio)
        for topic, ratio in zip(COMPACT, (10, 8, 8, 8), strict=True)
    ),
    *(
        Claim(clean.work(topic), topic.name, clean.SPARK, (clean.LOG_CLEANER,), ratio)
        for topic, ratio in ((COMPACT[2], 8), (COMPACT[3], 8), (GIANT, 15))
    ),
)
LIMITS = (
    Limit(latency.FIRST_ROW, "kafkalog, first query of a session", 1),
    Limit(latency.PLAN, "LogDir: every partition opened", 5),
    Limit(latency.PLAN, f"Spark, local[{latency.CORES}]", 5),
    Limit(latency.READ, f"Spark, local[{latency.CORES}]", 10),
)
