"""Reading from a bucket, beside ranged GETs of the same bytes: `python -m benchmarks.object_store`.

It needs no corpus and no broker: it writes a log of 1 GiB with kafkalog, and starts an S3 server here. With
`aws` in the PATH, a read is also compared with a copy to the disk.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import obstore
import pyarrow as pa
from obstore.store import S3Store

from benchmarks.http_proxy import HttpProxy
from benchmarks.readers import SEVEN_COLUMNS
from benchmarks.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from native_log import LogDir
from native_log.storage.ranged_file import MAX_RANGE_BYTES, RANGES_AHEAD

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
SEGMENT_BYTES = 1 << 30
CONNECTIONS = RANGES_AHEAD  # as kafkalog uses for one file
RANGE_BYTES = MAX_RANGE_BYTES
LATENCY_SECONDS, BYTES_PER_SECOND = 0.03, 80e6
KEY = "logs/t-0/00000000000000000000.log"
_ROWS = 100_000


def main() -> None:
    with tempfile.TemporaryDirectory() as name, S3Server(Path(name) / "s3") as server:
        folder = server.root / "bench" / "logs"
        folder.mkdir(parents=True)
        write_log(folder)
        print("| Where | Contender | MB/s | Ratio |\n|---|---|--:|--:|")
        compare("a disk", None, server.options, folder)
        compare("S3, loopback", server.endpoint, server.options, folder)
        with HttpProxy(
            server.port, latency_seconds=LATENCY_SECONDS, bytes_per_second=BYTES_PER_SECOND
        ) as slow:
            compare("S3, 30 ms, 80 MB/s for each connection", slow.endpoint, server.options, folder)
        with HttpProxy(server.port) as proxy:
            print("\n| Work | Requests | KB |\n|---|--:|--:|")
            count_requests(proxy, server.options)


def write_log(folder: Path) -> None:
    """Write one segment of 1 GiB, and the beginning of another one: records of 116 bytes."""
    logs = LogDir.create(folder)
    logs.create_topic("t")
    log = logs.partition("t", 0, config={"segment.bytes": SEGMENT_BYTES})
    random = np.random.default_rng(1)
    values = pa.array([random.bytes(60) + bytes(40) for _ in range(_ROWS)], pa.binary())
    for first in range(0, 90 * _ROWS, _ROWS):
        keys = pa.array([b"key-%012d" % number for number in range(first, first + _ROWS)], pa.binary())
        times = pa.array(np.arange(first, first + _ROWS) + 1_700_000_000_000, pa.timestamp("ms", "UTC"))
        log.append(pa.table({"key": keys, "value": values, "timestamp": times}))
    logs.close()


def compare(where: str, endpoint: str | None, options: dict[str, str], folder: Path) -> None:
    """Print the medians of a complete read, and of GETs with as many connections as it uses."""
    contenders: dict[str, Callable[[], int]]
    if endpoint is None:
        contenders = {"kafkalog, seven columns": lambda: read_all(LogDir(folder))}
    else:
        given = {**options, "aws_endpoint": endpoint}
        contenders = {
            f"{CONNECTIONS} connections, ranges of 4 MiB": lambda: get_all(endpoint),
            "kafkalog, seven columns": lambda: read_all(LogDir("s3://bench/logs", storage_options=given)),
        }
        if shutil.which("aws"):
            contenders["aws s3 cp, then kafkalog"] = lambda: copy_and_read(endpoint, folder)
    speeds = {name: statistics.median(speed(read) for _ in range(RUNS)) for name, read in contenders.items()}
    reference = next(iter(speeds.values()))
    for name, megabytes in speeds.items():
        print(f"| {where} | {name} | {megabytes:.0f} | {megabytes / reference:.2f} |")


def speed(read: Callable[[], int]) -> float:
    started = time.perf_counter()
    size_bytes = read()
    return size_bytes / (time.perf_counter() - started) / 1e6


def read_all(logs: LogDir) -> int:
    log = logs.partition("t", 0)
    end = log.segments[0].end_offset
    assert sum(batch.num_rows for batch in log.read(0, end, columns=SEVEN_COLUMNS)) == end
    return log.segments[0].size_bytes


def copy_and_read(endpoint: str, folder: Path) -> int:
    """Copy the log with the AWS CLI, and read the copy."""
    names = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    environment = {**os.environ, **names, "AWS_DEFAULT_REGION": "us-east-1"}
    with tempfile.TemporaryDirectory(dir=folder.parents[2]) as copy:
        source = KEY.rpartition("/")[0]
        command = ["aws", "--endpoint-url", endpoint, "s3", "cp", "--quiet", "--recursive"]
        subprocess.run([*command, f"s3://bench/{source}", f"{copy}/t-0"], env=environment, check=True)
        return read_all(LogDir(copy))


def store_of(endpoint: str) -> S3Store:
    config: Any = {"endpoint": endpoint, "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
    return S3Store("bench", config=config, client_options={"allow_http": True})


def get_all(endpoint: str) -> int:
    store = store_of(endpoint)
    size = obstore.head(store, KEY)["size"]

    def get(start: int) -> int:
        options: Any = {"range": (start, min(size, start + RANGE_BYTES))}
        return len(obstore.get(store, KEY, options=options).bytes())

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return sum(threads.map(get, range(0, size, RANGE_BYTES)))


def count_requests(proxy: HttpProxy, options: dict[str, str]) -> None:
    """Print the requests of small reads."""
    given = {**options, "aws_endpoint": proxy.endpoint}
    logs = LogDir("s3://bench/logs", storage_options=given)
    log = logs.partition("t", 0)
    one_percent = log.log_end_offset // 100
    work = {
        "open a directory and a partition": lambda: LogDir(
            "s3://bench/logs", storage_options=given
        ).partition("t", 0),
        "first batch of rows": lambda: next(iter(log.read())),
        "last 10 records": lambda: log.read(log.log_end_offset - 10).read_all(),
        "an offset for a time": lambda: log.offset_for_timestamp(1_700_005_000_000),
        "1 % of the offsets": lambda: log.read(4_000_000, 4_000_000 + one_percent).read_all(),
    }
    for name, run in work.items():
        proxy.reset()
        run()
        time.sleep(0.2)  # what was fetched ahead arrives
        print(f"| {name} | {len(proxy.traffic.requests)} | {proxy.traffic.body_bytes // 1000} |")


if __name__ == "__main__":
    main()
