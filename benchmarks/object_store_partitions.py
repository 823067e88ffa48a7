"""Work on many partitions in a bucket, where each request takes 30 ms.

`python -m benchmarks.object_store_partitions` needs no corpus and no broker. The first thing that is measured
is a copy of all objects to a disk, on which commands would take less than a second.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa

import native_log
from benchmarks.http_proxy import HttpProxy
from benchmarks.object_store import LATENCY_SECONDS, store_of
from benchmarks.s3_server import S3Server
from native_log import LogDir
from native_log.cli.listing import list_log_dir
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.storage import Storages

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.logdir.catalog import PartitionKey

RUNS = 3
PARTITIONS, SEGMENTS, ROWS = 500, 4, 400
"""Of the log directory on which commands are run. A segment has about 45 KB."""
PLANNED_PARTITIONS, PLANNED_SEGMENTS = 10_000, 10
"""Of the log directory that is planned."""
COPIES = 64
"""How many objects are copied at a time."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name, S3Server(Path(name) / "s3") as server:
        bucket = server.root / "bench"
        bucket.mkdir()
        write_partitions(bucket / "some", PARTITIONS, SEGMENTS, ROWS)
        write_partitions(bucket / "many", PLANNED_PARTITIONS, PLANNED_SEGMENTS, 100)
        with HttpProxy(server.port, latency_seconds=LATENCY_SECONDS) as distant:
            print_head(PARTITIONS, SEGMENTS)
            compare_commands(distant, server.options, Path(name) / "copy")
            print_head(PLANNED_PARTITIONS, PLANNED_SEGMENTS)
            compare_plans(distant, server.options)


def print_head(partitions: int, segments: int) -> None:
    print(f"\n| {partitions} partitions with {segments} segments | Requests | Seconds |\n|---|--:|--:|")


def write_partitions(folder: Path, partitions: int, segments: int, rows: int) -> None:
    """Write one partition, and link its files as many others."""
    logs = LogDir.create(folder)
    logs.create_topic("t")
    log = logs.partition("t", 0, config={"segment.bytes": 120 * rows})
    keys = pa.array([b"%d" % number for number in range(rows)], pa.binary())
    for _ in range(segments):
        log.append(pa.table({"key": keys, "value": pa.array([bytes(100)] * rows, pa.binary())}))
    logs.close()
    for number in range(1, partitions):
        shutil.copytree(folder / "t-0", folder / f"t-{number}", copy_function=os.link)


def compare_commands(distant: HttpProxy, options: dict[str, str], copy: Path) -> None:
    """Print the medians of commands in the bucket, and of a copy of the bucket."""
    url, given = "s3://bench/some", {**options, "aws_endpoint": distant.endpoint}
    compaction, retention = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "retention.ms": 1}
    stream = LiveLogDir(url, LogDirOptions(storages=Storages(given)))
    work: dict[str, Callable[[], object]] = {
        "copy all objects to a disk, 64 at a time": lambda: copy_all(distant.endpoint, copy),
        "ls": lambda: list_log_dir(LogDir(url, storage_options=given)),
        "verify": lambda: native_log.verify(url, storage_options=given),
        "retain, dry run": lambda: native_log.retain(
            url, "t", retention, dry_run=True, storage_options=given
        ),
        "compact, dry run": lambda: native_log.compact(
            url, "t", compaction, dry_run=True, storage_options=given
        ),
        "open the logs of a stream": lambda: LiveLogDir(
            url, LogDirOptions(storages=Storages(given))
        ).open_logs(keys_of(stream)),
        "a trigger of a stream without new records": stream.refresh,
    }
    stream.open_logs(keys_of(stream))
    measure(distant, work, RUNS)


def compare_plans(distant: HttpProxy, options: dict[str, str]) -> None:
    """Print what it takes to list all objects one after the other, and to plan and to open all logs."""
    given = {**options, "aws_endpoint": distant.endpoint}

    def log_dir() -> LogDir:
        return LogDir("s3://bench/many", storage_options=given)

    work: dict[str, Callable[[], object]] = {
        "list all objects, recursively": lambda: list(obstore.list(store_of(distant.endpoint), "many/")),
        "plan a complete read": lambda: (logs := log_dir()).unbounded_ranges(keys_of(logs)),
        "open the logs": lambda: (logs := log_dir()).open_logs(keys_of(logs)),
    }
    measure(distant, work, 1)


def keys_of(logs: LogDir | LiveLogDir) -> list[PartitionKey]:
    return [directory.key for directory in logs.partitions()]


def copy_all(endpoint: str, copy: Path) -> None:
    store = store_of(endpoint)
    names = [each["path"] for page in obstore.list(store, "some/") for each in page]

    def get(name: str) -> None:
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(obstore.get(store, name).bytes())

    with ThreadPoolExecutor(COPIES) as threads:
        list(threads.map(get, names))


def measure(distant: HttpProxy, work: dict[str, Callable[[], object]], runs: int) -> None:
    for name, run in work.items():
        seconds = []
        for _ in range(runs):
            distant.reset()
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        print(f"| {name} | {len(distant.traffic.requests)} | {statistics.median(seconds):.1f} |", flush=True)


if __name__ == "__main__":
    main()
