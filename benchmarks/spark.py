"""kafkalog in Spark beside Spark's own Kafka source and the ceiling of Python data sources."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.broker import Broker
from benchmarks.corpus import Corpus, warm
from benchmarks.growth import Growth
from benchmarks.jvm import SPARK_KAFKA_SOURCE, jars
from benchmarks.measure import Measurement

TOPICS = ("small100-none", "small100-lz4", "kb1-none")


def measure(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    """One session for each number of cores; the broker runs over the very files that kafkalog reads."""
    for topic in TOPICS:
        warm(corpus.segments(topic))
    with Broker(corpus.log_dir, heap="1g") as broker:
        for cores in (2, 4):
            asked = {
                "do": "queries",
                "cores": cores,
                "runs": runs,
                "bootstrap": broker.bootstrap,
                "jars": connector(),
                "log_dir": str(corpus.log_dir),
                "topics": {
                    topic: {"rows": corpus.records[topic], "size_bytes": corpus.size_bytes(topic)}
                    for topic in TOPICS
                },
                "conf": dict(conf),
            }
            for told in in_session(asked):
                yield Measurement(**(told | {"seconds": tuple(told["seconds"])}))


def memory(corpus: Corpus, topics: list[str], conf: Mapping[str, str]) -> Iterator[Growth]:
    """How much a Python worker of Spark grows while it reads each of the topics."""
    log_dir = str(corpus.log_dir)
    for told in in_session(
        {"do": "memory", "cores": 2, "log_dir": log_dir, "topics": topics, "conf": dict(conf)}
    ):
        yield Growth(**told)


def in_session(asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What spark_session.py tells, line for line, in a process and so in a session of its own."""
    command = [sys.executable, "-m", "benchmarks.spark_session", json.dumps(asked)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def connector() -> list[str]:
    """The jars of Spark's Kafka source and sink that pyspark does not bring along."""
    wanted = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    return [str(jar) for jar in jars(SPARK_KAFKA_SOURCE).glob("*.jar") if jar.name.startswith(wanted)]
