"""Measure how long a user waits for the first rows of a segment and for the planning of many partitions."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import many_partitions
from benchmarks.corpus import Corpus, warm
from benchmarks.spark import run_in_session
from benchmarks.timing import Measurement
from native_log import LogDir

CORES = 2
FIRST_ROW = "first rows: limit(10)"
PLAN = "plan"
READ = "read: count(offset)"


def measure_first_rows(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    """Read ten rows of a partition directory in new sessions; the toy source shows Spark's share."""
    partition = corpus.partitions("small100-none")[0]
    warm(partition.glob("*.log"))
    size_bytes = sum(log.stat().st_size for log in partition.glob("*.log"))
    sources = {
        "kafkalog": {"path": str(partition)},
        "toy": {"rows": str(corpus.records["small100-none"]), "partitions": "2"},
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        for source, options in sources.items():
            request = {"do": "first_rows", "cores": CORES, "runs": 3, "source": source, "options": options}
            results = list(run_in_session(request | {"conf": dict(conf)}))
            assert all(result["rows"] == 10 for result in results)
            first, *later = [result["seconds"] for result in results]
            seconds[f"{source}, first query of a session"].append(first)
            seconds[f"{source}, later queries"] += later
    for contender, runs_seconds in seconds.items():
        yield Measurement(
            FIRST_ROW, "one 256 MB segment", contender, 10, size_bytes, tuple(runs_seconds), 0.0
        )


def measure_planning(
    corpus: Corpus, folder: Path, partitions: int, runs: int, conf: Mapping[str, str]
) -> Iterator[Measurement]:
    log_dir, records = many_partitions.make(folder, corpus, partitions)
    name = f"{partitions} partitions x {many_partitions.SEGMENTS} segments"
    size_bytes = 0  # the report shows no MB/s
    open_seconds = tuple(_seconds_to_open(log_dir) for _ in range(runs))
    yield Measurement(PLAN, name, "LogDir: every partition opened", records, size_bytes, open_seconds, 0.0)
    request = {"do": "planning", "cores": CORES, "runs": runs, "path": str(log_dir), "conf": dict(conf)}
    results = list(run_in_session(request))
    assert all(result["rows"] == records for result in results), results
    for work, key in ((PLAN, "plan_seconds"), (READ, "read_seconds")):
        seconds = tuple(result[key] for result in results)
        yield Measurement(work, name, f"Spark, local[{CORES}]", records, size_bytes, seconds, 0.0)


def _seconds_to_open(path: Path) -> float:
    started = time.perf_counter()
    log_dir = LogDir(path)
    for topic, partitions in log_dir.topics().items():
        for partition in partitions:
            _ = log_dir.partition(topic, partition).high_watermark
    return time.perf_counter() - started
