"""Read with random options by Spark's kafka source, from a broker, and by kafkalog, from the broker's files.

python -m tests.broker.random_reads SEED SECONDS     prints each difference, then a summary
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.jvm import compile_java, spark_kafka_source
from benchmarks.spark_session import session
from native_log import delete_records

from .cluster import Cluster
from .conftest import HERE, PROGRAMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = {"plain": 3, "transactions": 2, "empty": 2, "append-time": 1, "trimmed": 2}
"""How many partitions each topic has."""
PATTERNS = ["plain|empty", "t.*", "append.*", ".*", "no.*"]
IMPATIENT = {
    "kafkaConsumer.pollTimeoutMs": "1500",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
}
"""Settings that let Spark's kafka source fail after seconds instead of minutes."""


class Answer(NamedTuple):
    """What a read returned.

    Attributes:
        batches: the rows of each batch, sorted. A batch query is one batch.
        tasks: how many tasks a batch query has.
        error: None if there was none.
    """

    batches: list[list[str]]
    tasks: int = 0
    error: str | None = None


def write(cluster: Cluster, random: Random) -> list[int]:
    """Write all topics. Return times between their records, in epoch ms."""
    for topic, count in PARTITIONS.items():
        time_type = "LogAppendTime" if topic == "append-time" else "CreateTime"
        cluster.create(topic, count, segment_ms=300, message_timestamp_type=time_type)
    times = []
    for turn in range(5):
        for number in range(3):
            compression = random.choice(["none", "lz4", "zstd"])
            count = random.randrange(20, 150)
            cluster.send("plain", count, partition=number, first=1000 * turn, compression_type=compression)
        for number in range(2):
            for end in ("commit", "abort", "commit"):
                count, producer = random.randrange(1, 40), f"producer-{number}"
                cluster.send("transactions", count, partition=number, transactional_id=producer, end=end)
            cluster.send("transactions", 5, partition=number)
            cluster.send("trimmed", 150, partition=number, first=100 * turn)
        cluster.send("append-time", 20, first=20 * turn)
        times.append(time.time_ns() // 1_000_000)
        time.sleep(0.5)
    cluster.send("transactions", 9, partition=1, transactional_id="open", end="open")
    cluster.stop()
    delete_records(cluster.log_dir, {("trimmed", 0): 170})
    cluster.consume("append-time")  # starts the broker
    return times


class RandomOptions:
    """Options of reads. About half of them are valid."""

    def __init__(self, random: Random, times: list[int]) -> None:
        self._random = random
        self._times = times

    def batch(self) -> dict[str, str]:
        options, topics = self._topics()
        return options | self._starting(topics) | self._ending(topics) | self._others()

    def stream(self) -> dict[str, str]:
        options, topics = self._topics()
        options |= self._starting(topics) or {"startingOffsets": "earliest"}
        options |= self._others()
        options.pop("maxRecordsPerPartition", None)
        return options | self._maybe(0.6, "maxOffsetsPerTrigger", "57", "100", "333", "1000", "10000")

    def _topics(self) -> tuple[dict[str, str], list[str]]:
        topics = self._random.sample(list(PARTITIONS), self._random.choice([1, 1, 1, 2, 3]))
        kind = self._random.random()
        if kind < 0.6:
            return {"subscribe": ",".join(topics)}, topics
        if kind < 0.8:
            chosen = {
                topic: sorted(
                    self._random.sample(
                        range(PARTITIONS[topic]), self._random.randrange(1, PARTITIONS[topic] + 1)
                    )
                )
                for topic in topics
            }
            return {"assign": json.dumps(chosen)}, topics
        pattern = self._random.choice(PATTERNS)
        return {"subscribePattern": pattern}, [each for each in PARTITIONS if re.fullmatch(pattern, each)]

    def _starting(self, topics: list[str]) -> dict[str, str]:
        strategy = self._maybe(0.4, "startingOffsetsByTimestampStrategy", "latest", "error", "LATEST")
        kind = self._random.random()
        if kind < 0.35:
            offsets = [-2, 0, 5, self._random.randrange(20), self._random.randrange(100)]
            rare = [-1, 1, 50, self._random.randrange(700), 10**6]
            return strategy | {"startingOffsets": self._json(topics, offsets, rare)}
        if kind < 0.5:
            return strategy | {"startingOffsetsByTimestamp": self._json(topics, self._some_times(), [0])}
        if kind < 0.65:
            return strategy | {"startingTimestamp": str(self._random.choice(self._some_times()))}
        return strategy | self._maybe(0.1, "startingOffsets", "earliest", "EARLIEST")

    def _ending(self, topics: list[str]) -> dict[str, str]:
        kind = self._random.random()
        if kind < 0.3:
            offsets = [-1, 100, self._random.randrange(20, 400)]
            return {"endingOffsets": self._json(topics, offsets, [-2, 0, 10**6])}
        if kind < 0.45:
            return {"endingOffsetsByTimestamp": self._json(topics, self._some_times(), [0])}
        if kind < 0.6:
            return {"endingTimestamp": str(self._random.choice(self._some_times()))}
        return self._maybe(0.1, "endingOffsets", "latest")

    def _others(self) -> dict[str, str]:
        return (
            self._maybe(0.25, "minPartitions", "1", "3", "7", "20")
            | self._maybe(0.15, "maxRecordsPerPartition", "1", "10", "50", "100000")
            | self._maybe(0.3, "failOnDataLoss", "false", "true")
            | self._maybe(0.3, "includeHeaders", "true")
            | self._maybe(0.4, "kafka.isolation.level", "read_committed", "read_uncommitted")
        )

    def _json(self, topics: list[str], usual: list[int], rare: list[int]) -> str:
        """Return a number for each partition; rarely, for one partition too few or too many."""
        numbers = {}
        for topic in topics:
            chance, count = self._random.random(), PARTITIONS[topic]
            count += (chance > 0.98) - (chance < 0.03)
            numbers[topic] = {
                str(partition): self._random.choice(rare if self._random.random() < 0.05 else usual)
                for partition in range(count)
            }
        return json.dumps(numbers)

    def _some_times(self) -> list[int]:
        near = [self._random.choice(self._times) + delta for delta in (-1000, -200, -1, 0, 1, 100)]
        return [0, 1, *near, *([10**13] if self._random.random() < 0.2 else [])]

    def _maybe(self, chance: float, name: str, *values: str) -> dict[str, str]:
        return {name: self._random.choice(values)} if self._random.random() < chance else {}


class Reads:
    """Reads through one data source. `options` apply to every read."""

    def __init__(
        self, spark: SparkSession, format_name: str, path: Path | None, scratch: Path, options: dict[str, str]
    ) -> None:
        self._spark = spark
        self._format = format_name
        self._path = None if path is None else str(path)
        self._scratch = scratch
        self._options = options
        self._streams = 0

    def batch(self, options: dict[str, str]) -> Answer:
        reader = self._spark.read.format(self._format).options(**self._options, **options)
        try:
            frame = reader.load(self._path)
            return Answer([_rows(frame)], frame.rdd.getNumPartitions())
        except Exception as error:
            return Answer([], error=str(error))

    def stream(self, options: dict[str, str]) -> Answer:
        """Read what is there as a stream, up to the present end."""
        batches: list[list[str]] = []
        self._streams += 1
        checkpoint = str(self._scratch / f"{self._format}-{self._streams}")
        reader = self._spark.readStream.format(self._format).options(**self._options, **options)
        try:
            writer = reader.load(self._path).writeStream.option("checkpointLocation", checkpoint)
            query = writer.foreachBatch(lambda frame, _: batches.append(_rows(frame)))
            query.trigger(availableNow=True).start().awaitTermination(60)
        except Exception as error:
            return Answer([], error=str(error))
        return Answer([batch for batch in batches if batch])


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def difference(options: dict[str, str], expected: Answer, found: Answer) -> str | None:
    """Return what differs; None: nothing that matters."""
    if (expected.error is None) != (found.error is None):
        return f"only one fails: {_short(expected)}, kafkalog: {_short(found)}"
    if expected.batches != found.batches:
        return f"the rows differ: {_short(expected)}, kafkalog: {_short(found)}"
    # Spark seldom divides ranges by maxRecordsPerPartition, because it compares -2 and -1 as offsets.
    counts_tasks = "minPartitions" in options and "maxRecordsPerPartition" not in options
    if counts_tasks and any(expected.batches) and expected.tasks != found.tasks:
        return f"the tasks differ: {expected.tasks}, kafkalog: {found.tasks}"
    return None


def _short(answer: Answer) -> str:
    if answer.error is not None:
        return re.sub(r"\s+", " ", answer.error)[:500]
    return f"rows {[len(batch) for batch in answer.batches]}"


def main() -> None:
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    random, summary = Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "classes").mkdir()
        class_path = compile_java([HERE / program for program in PROGRAMS], scratch / "classes")
        cluster = Cluster(scratch / "logs", class_path)
        spark = session(2, {"spark.log.level": "OFF"}, spark_kafka_source())
        try:
            options_of = RandomOptions(random, write(cluster, random))
            address: dict[str, Any] = {"kafka.bootstrap.servers": cluster.broker.bootstrap}
            theirs = Reads(spark, "kafka", None, scratch, address | IMPATIENT)
            ours = Reads(spark, "kafkalog", cluster.log_dir, scratch, {})
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                kind = random.choice(["batch", "batch", "stream"])
                options = getattr(options_of, kind)()
                expected, found = (getattr(reads, kind)(options) for reads in (theirs, ours))
                problem = difference(options, expected, found)
                if problem is not None:
                    print(f"{kind} {options}\n    {problem}", flush=True)
                summary["different" if problem else "both fail" if expected.error else "equal"] += 1
        finally:
            spark.stop()
            cluster.stop()
    print(f"seed {seed}: {dict(summary)}")


if __name__ == "__main__":
    main()
