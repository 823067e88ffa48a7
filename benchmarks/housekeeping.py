"""Measure work that one process does for many tasks or partitions: commits and retention."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import pyarrow as pa

import native_log
from benchmarks import many_partitions
from benchmarks.corpus import KIB, Corpus
from benchmarks.machine import CORES
from benchmarks.memory import Growth, own_peak, reset_own_peak
from benchmarks.paths import scratch
from benchmarks.spark import run_in_session
from benchmarks.timing import Measurement
from native_log import LogDir
from native_log.config import LogConfig
from native_log.log.writing.record_encoding import RecordEncoder
from native_log.publish.commit import commit
from native_log.publish.job import WriteJob
from native_log.publish.staging import StagedFile, StagingWriter, TaskAttempt

COMMIT = "commit a job of {tasks} tasks x {partitions} partitions"
TASKS, PARTITIONS, JOB_BYTES = 200, 10, 1 << 30
RETAIN = "retention, dry run"


def measure_commits(scale: float, runs: int) -> Iterator[Measurement | Growth]:
    """Commit 1 GB in batches of 16 KB and of 64 KB: the driver's work grows with the number of batches."""
    tasks = max(2, round(TASKS * scale))
    name = COMMIT.format(tasks=tasks, partitions=PARTITIONS)
    for batch_kib in (16, 64):
        command = [sys.executable, "-m", "benchmarks.housekeeping", str(tasks), str(batch_kib)]
        results = [json.loads(subprocess.check_output(command, text=True)) for _ in range(runs)]
        seconds = tuple(result["seconds"] for result in results)
        yield Measurement(
            name,
            f"batches of {batch_kib} KB",
            "native_log.publish.commit",
            results[0]["batches"],
            results[0]["bytes"],
            seconds,
            0.0,
        )
        yield Growth(**results[0]["growth"])


def measure_retention(
    corpus: Corpus, partitions: int, runs: int, conf: Mapping[str, str]
) -> Iterator[Measurement]:
    log_dir, _ = many_partitions.make(scratch(), corpus, partitions)
    name = f"{partitions} partitions x {many_partitions.SEGMENTS} segments"
    segments = partitions * many_partitions.SEGMENTS
    config = {"retention.ms": 1, "retention.bytes": 1}
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        deletions = native_log.retain(log_dir, config=config, dry_run=True)
        seconds.append(time.perf_counter() - started)
        if deletions.num_rows != segments:
            raise AssertionError(f"{deletions.num_rows} rows for {segments} segments")
    yield Measurement(RETAIN, name, "native_log.retain", segments, 0, tuple(seconds), 0.0)
    request = {"do": "retention", "cores": CORES, "runs": runs, "path": str(log_dir), "config": config}
    results = list(run_in_session(request | {"conf": dict(conf)}))
    if any(result["rows"] != segments for result in results):
        raise AssertionError(results)
    seconds = [result["seconds"] for result in results]
    yield Measurement(
        RETAIN, name, f"kafkalog_spark.retain, local[{CORES}]", segments, 0, tuple(seconds), 0.0
    )


def _commit_once(tasks: int, batch_kib: int) -> dict[str, object]:
    """Stage records as tasks do, then measure the commit alone. Runs in a process of its own."""
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
    batches = sum(file.headers().num_rows for file in staged)
    size_bytes = sum(file.size_bytes for file in staged)
    start = reset_own_peak()
    started = time.perf_counter()
    commit(job, staged, {}, PARTITIONS)
    seconds = time.perf_counter() - started
    growth = Growth("commit", f"1 GB in {batches} batches", start, own_peak())
    shutil.rmtree(folder)
    return {"seconds": seconds, "batches": batches, "bytes": size_bytes, "growth": asdict(growth)}


def _records(size_bytes: int) -> pa.RecordBatch:
    count = size_bytes // 128
    values = pa.array([b"v%099d" % number for number in range(count)], pa.binary())
    keys = pa.array([b"key-%012d" % number for number in range(count)], pa.binary())
    return pa.record_batch({"key": keys, "value": values})


if __name__ == "__main__":
    print(json.dumps(_commit_once(int(sys.argv[1]), int(sys.argv[2]))))
