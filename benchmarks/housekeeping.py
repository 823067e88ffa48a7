"""What one process has to do for many: the commit of a large job, retention of very many partitions."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import pyarrow as pa

import native_log
from benchmarks import many
from benchmarks.corpus import KIB, Corpus
from benchmarks.growth import Growth, peak_of_self, reset_self
from benchmarks.measure import Measurement
from benchmarks.places import scratch
from benchmarks.spark import in_session
from native_log import LogDir
from native_log.config import LogConfig
from native_log.log.writing.record_encoding import RecordEncoder
from native_log.publish.commit import commit
from native_log.publish.job import WriteJob
from native_log.publish.staging import StagedFile, StagingWriter, TaskAttempt

COMMIT = "commit a job of {tasks} tasks x {partitions} partitions"
TASKS, PARTITIONS, JOB_BYTES = 200, 10, 1 << 30
RETAIN = "retention, dry run"
CORES = 4


def commits(scale: float, runs: int) -> Iterator[Measurement | Growth]:
    """1 GB in batches of 16 KB and of 64 KB: what the driver does grows with the number of batches."""
    tasks = max(2, round(TASKS * scale))
    name = COMMIT.format(tasks=tasks, partitions=PARTITIONS)
    for batch_kib in (16, 64):
        command = [sys.executable, "-m", "benchmarks.housekeeping", str(tasks), str(batch_kib)]
        told = [json.loads(subprocess.check_output(command, text=True)) for _ in range(runs)]
        seconds = tuple(one["seconds"] for one in told)
        what = f"batches of {batch_kib} KB"
        yield Measurement(
            name, what, "native_log.publish.commit", told[0]["batches"], told[0]["bytes"], seconds, 0.0
        )
        yield Growth(**told[0]["growth"])


def retention(corpus: Corpus, partitions: int, runs: int, conf: Mapping[str, str]) -> Iterator[Measurement]:
    log_dir, _ = many.make(scratch(), corpus, partitions)
    name = f"{partitions} partitions x {many.SEGMENTS} segments"
    segments = partitions * many.SEGMENTS
    config = {"retention.ms": 1, "retention.bytes": 1}
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        told = native_log.retain(log_dir, config=config, dry_run=True)
        seconds.append(time.perf_counter() - started)
        if told.num_rows != segments:
            raise AssertionError(f"{told.num_rows} rows for {segments} segments")
    yield Measurement(RETAIN, name, "native_log.retain", segments, 0, tuple(seconds), 0.0)
    asked = {"do": "retention", "cores": CORES, "runs": runs, "path": str(log_dir), "config": config}
    told = list(in_session(asked | {"conf": dict(conf)}))
    if any(one["rows"] != segments for one in told):
        raise AssertionError(told)
    seconds = [one["seconds"] for one in told]
    yield Measurement(
        RETAIN, name, f"kafkalog_spark.retain, local[{CORES}]", segments, 0, tuple(seconds), 0.0
    )


def _commit_once(tasks: int, batch_kib: int) -> dict[str, object]:
    """In a process of its own: staged as tasks do it, then the commit alone is measured."""
    folder = scratch() / "commit"
    shutil.rmtree(folder, ignore_errors=True)
    with LogDir.create(folder) as log_dir:
        log_dir.create_topic("t", partitions=PARTITIONS)
    job = WriteJob.begin(folder)
    records = _records(JOB_BYTES // TASKS // PARTITIONS)
    encoding = RecordEncoder("none", None, batch_kib * KIB)
    staged: list[StagedFile] = []
    for task in range(tasks):
        writer = StagingWriter(TaskAttempt(job, f"task-{task}", encoding, LogConfig(), 0))
        for partition in range(PARTITIONS):
            writer.append("t", partition, f"t-{partition}", records)
        staged += writer.close()
    batches = sum(one.headers().num_rows for one in staged)
    size_bytes = sum(one.size_bytes for one in staged)
    start = reset_self()
    started = time.perf_counter()
    commit(job, staged, {}, PARTITIONS)
    seconds = time.perf_counter() - started
    growth = Growth("commit", f"1 GB in {batches} batches", start, peak_of_self())
    shutil.rmtree(folder)
    return {"seconds": seconds, "batches": batches, "bytes": size_bytes, "growth": asdict(growth)}


def _records(size_bytes: int) -> pa.RecordBatch:
    count = size_bytes // 128
    values = pa.array([b"v%099d" % number for number in range(count)], pa.binary())
    keys = pa.array([b"key-%012d" % number for number in range(count)], pa.binary())
    return pa.record_batch({"key": keys, "value": values})


if __name__ == "__main__":
    print(json.dumps(_commit_once(int(sys.argv[1]), int(sys.argv[2]))))
