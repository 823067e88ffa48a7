"""What a user waits for: the first rows of a large segment, and the planning of very many partitions."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import many
from benchmarks.corpus import Corpus, warm
from benchmarks.measure import Measurement
from benchmarks.spark import in_session
from native_log import LogDir

CORES = 2
FIRST_ROW = "first rows: limit(10)"
PLAN = "plan"
READ = "read: count(offset)"


def first_row(corpus: Corpus, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    """Of one partition directory, in new sessions; a source that costs nothing shows what is Spark's part."""
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
            asked = {"do": "first_row", "cores": CORES, "runs": 3, "source": source, "options": options}
            told = list(in_session(asked | {"conf": dict(conf)}))
            assert all(one["rows"] == 10 for one in told)
            seconds[f"{source}, first query of a session"].append(told[0]["seconds"])
            seconds[f"{source}, later queries"] += [one["seconds"] for one in told[1:]]
    for who, each in seconds.items():
        yield Measurement(FIRST_ROW, "one 256 MB segment", who, 10, size_bytes, tuple(each), 0.0)


def planning(
    corpus: Corpus, folder: Path, partitions: int, runs: int, conf: Mapping[str, str]
) -> Iterator[Measurement]:
    log_dir, records = many.make(folder, corpus, partitions)
    name = f"{partitions} partitions x {many.SEGMENTS} segments"
    size_bytes = 0  # of no interest here
    opened = [_seconds_to_open(log_dir) for _ in range(runs)]
    yield Measurement(PLAN, name, "LogDir: every partition opened", records, size_bytes, tuple(opened), 0.0)
    asked = {"do": "planning", "cores": CORES, "runs": runs, "path": str(log_dir), "conf": dict(conf)}
    told = list(in_session(asked))
    assert all(one["rows"] == records for one in told), told
    for work, key in ((PLAN, "planned"), (READ, "read")):
        seconds = tuple(one[key] for one in told)
        yield Measurement(work, name, f"Spark, local[{CORES}]", records, size_bytes, seconds, 0.0)


def _seconds_to_open(path: Path) -> float:
    started = time.perf_counter()
    log_dir = LogDir(path)
    for topic, partitions in log_dir.topics().items():
        for partition in partitions:
            _ = log_dir.partition(topic, partition).high_watermark
    return time.perf_counter() - started
