"""Measure kafkalog in Spark, Spark's Kafka source, and the ceiling of Python data sources."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.broker import Broker
from benchmarks.corpus import Corpus, warm
from benchmarks.jvm import spark_kafka_source
from benchmarks.machine import SEVERAL_CORES
from benchmarks.memory import Growth
from benchmarks.timing import Measurement

TOPICS = ("small100-none", "small100-lz4", "kb1-none")


def measure(
    corpus: Corpus,
    runs: int,
    conf: Mapping[str, str],
    topics: Sequence[str] = TOPICS,
    numbers_of_cores: Sequence[int] = SEVERAL_CORES,
) -> Iterator[Measurement]:
    """Run one session for each number of cores. The broker has the same files that kafkalog reads."""
    for topic in topics:
        warm(corpus.segments(topic))
    with Broker(corpus.log_dir, heap="1g") as broker:
        for cores in numbers_of_cores:
            request = {
                "do": "queries",
                "cores": cores,
                "runs": runs,
                "bootstrap": broker.bootstrap,
                "jars": spark_kafka_source(),
                "log_dir": str(corpus.log_dir),
                "topics": {
                    topic: {"rows": corpus.records[topic], "size_bytes": corpus.size_bytes(topic)}
                    for topic in topics
                },
                "conf": dict(conf),
            }
            for result in run_in_session(request):
                yield Measurement.from_json(result)


def measure_memory(corpus: Corpus, topics: list[str], conf: Mapping[str, str]) -> Iterator[Growth]:
    """Measure how much a Python worker of Spark grows while it reads each of the topics."""
    log_dir = str(corpus.log_dir)
    request = {"do": "memory", "cores": 2, "log_dir": log_dir, "topics": topics, "conf": dict(conf)}
    for result in run_in_session(request):
        yield Growth(**result)


def run_in_session(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Run spark_session.py in a new process, and so in a new session; yield its results."""
    command = [sys.executable, "-m", "benchmarks.spark_session", json.dumps(request)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
