"""Jobs on a cluster of two executors on separate hosts: executors are killed, and slow tasks run twice."""

from __future__ import annotations

import json
import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log.checkpoints.lock import LogDirLock
from native_log.log.verification import verify_log
from tests.builders.golden import DATA as TESTS_DATA
from tests.contents import files
from tests.retention.test_golden import arguments, copy

from . import cluster_jobs as jobs
from .cluster import HIDDEN, Driver, unshare
from .parity import DATA
from .test_compact import CONFIG, NOW_MS, log_dir, topics
from .test_retain import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.spark

OPTIONS = {"config": CONFIG, "now_ms": NOW_MS}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("cluster"))
    (driver.path / HIDDEN).mkdir()
    yield driver
    driver.kill()


def keys(logs: Path) -> list[str]:
    """Return all keys in the log, after checking that the log is valid."""
    directory = native_log.LogDir(logs)
    keys: list[str] = []
    for partition in directory.topics()["t"]:
        log = directory.partition("t", partition)
        offsets = []
        for batch in log.read(columns=["offset", "key"]):
            offsets += batch.column("offset").to_pylist()
            keys += [key.decode() for key in batch.column("key").to_pylist()]
        assert offsets == list(range(log.log_end_offset))
        assert not list(verify_log(log))
    return sorted(keys)


def count_rows(logs: Path) -> int:
    """Return the number of visible rows."""
    directory = native_log.LogDir(logs)
    return sum(directory.partition("t", partition).high_watermark for partition in directory.topics()["t"])


def staged_names(logs: Path) -> list[str]:
    """Return the names of staging and temporary files."""
    names = [path.name for path in logs.rglob("*")]
    return [name for name in names if "kafkalog" in name or "-delete" in name]


def test_an_executor_that_is_killed_while_it_writes(driver: Driver, tmp_path: Path) -> None:
    logs, flag = tmp_path / "logs", tmp_path / "killed"
    driver.call(jobs.write_while_an_executor_dies, logs, flag)
    assert flag.exists()
    assert keys(logs) == sorted(f"k{i}" for i in range(jobs.ROWS))
    assert not staged_names(logs)


def test_two_attempts_of_a_slow_write(driver: Driver, tmp_path: Path) -> None:
    logs, flag = tmp_path / "logs", tmp_path / "slow"
    driver.call(jobs.write_with_a_slow_attempt, logs, flag)
    assert Path(f"{flag}-1").exists()
    assert keys(logs) == sorted(f"k{i}" for i in range(jobs.ROWS))
    assert not staged_names(logs)


def test_reading(driver: Driver) -> None:
    logs = native_log.LogDir(DATA)
    expected = [
        [
            row["topic"],
            row["partition"],
            row["offset"],
            None if row["value"] is None else row["value"].hex().upper(),
        ]
        for topic, partitions in logs.topics().items()
        if not topic.startswith("__")
        for partition in partitions
        for batch in logs.partition(topic, partition).read(columns=["topic", "partition", "offset", "value"])
        for row in batch.to_pylist()
    ]
    assert driver.call(jobs.read_rows, DATA) == sorted(expected, key=lambda row: row[:3])


@pytest.mark.object_store
def test_reading_a_bucket(driver: Driver, s3: S3Server, tmp_path: Path) -> None:
    """The credentials are options. No executor sees the files, and no process has them in its environment."""
    url = f"s3a://data/{Path(DATA).relative_to(TESTS_DATA).as_posix()}"
    expected = driver.call(jobs.read_rows, DATA)
    assert driver.call(jobs.read_rows, url, s3.options) == expected
    (s3.root / "second-replica").symlink_to(DATA)
    replicas = [url, "s3a://second-replica"]
    assert driver.call(jobs.read_rows, replicas, {**s3.options, "replicas": "merge"}) == expected
    folders = tmp_path / "checkpoint", tmp_path / "rows"
    assert driver.call(jobs.stream_rows, url, s3.options, *folders) == expected


def test_compaction_of_large_logs(driver: Driver, tmp_path: Path) -> None:
    local, data = (log_dir(tmp_path / name, "round1") for name in ("local", "data"))
    flags, options = tmp_path / "flag", OPTIONS | {"topics": topics(data)}
    expected = native_log.compact(local, **options)

    rows = driver.call(jobs.compact_in_parts, data, options, flags)

    assert all(Path(f"{flags}-{name}").exists() for name in ("collect", "rewrite", "resolve-1"))
    statistics = [
        row | {"settings": [list(setting.values()) for setting in row["settings"]]}
        for row in expected.to_pylist()
    ]
    assert rows == [list(row.values()) for row in statistics]
    assert files(data) == files(local)
    assert not staged_names(data)
    assert driver.call(jobs.job_description) is None


def test_compaction_of_small_logs(driver: Driver, tmp_path: Path) -> None:
    local, data = (log_dir(tmp_path / name, "round2") for name in ("local", "data"))
    flags, options = tmp_path / "flag", OPTIONS | {"topics": topics(data)}
    native_log.compact(local, **options)

    driver.call(jobs.compact_small, data, options, flags)

    assert Path(f"{flags}-killed").exists() and Path(f"{flags}-1").exists()
    assert files(data) == files(local)
    assert not staged_names(data)


def test_an_interrupted_compaction(driver: Driver, tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", "round2")
    before = files(data)

    assert (
        driver.call(jobs.compact_interrupted, data, OPTIONS | {"topics": topics(data)}, tmp_path / "flag")
        == "interrupted"
    )

    assert files(data) == before
    assert not staged_names(data)
    assert driver.call(jobs.job_description) is None
    with LogDirLock(data):
        pass


def test_retention(driver: Driver, tmp_path: Path) -> None:
    before = NEWEST[0]
    options = arguments(before)
    local, data = (copy(before, tmp_path / name) for name in ("local", "data"))
    flags = tmp_path / "flag"
    native_log.retain(local, **options)

    driver.call(jobs.retain_old, data, options, flags)

    assert Path(f"{flags}-killed").exists()
    assert files(data) == files(local)


@pytest.mark.skipif(unshare() is None, reason="a process may not have mounts of its own here")
def test_a_path_that_executors_do_not_see(driver: Driver) -> None:
    data = log_dir(driver.path / HIDDEN / "logs", "round1", ("compact-idem",))
    before = files(data)
    message = r"the executor on host \S+ does not see"
    reads = (jobs.read_rows, jobs.count_segments)
    for job in (*reads, jobs.compact_once, jobs.retain_once, jobs.write_once):
        with pytest.raises(RuntimeError, match=message):
            driver.call(job, data)
        assert files(data) == before
        assert not staged_names(data)


def test_a_stream_whose_driver_is_killed(driver: Driver, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    rows = [[f"k{batch}-{i}" for i in range(20)] for batch in range(4)]
    for batch, keys_of_batch in enumerate(rows):
        lines = [json.dumps({"key": key, "value": "v"}) for key in keys_of_batch]
        file = tmp_path / "files" / f"{batch}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (batch, batch))
    logs = tmp_path / "logs"

    driver.begin(jobs.stream, tmp_path, "k1-7")
    stopped = tmp_path / "stopped"
    driver.kill_when(lambda: stopped.exists() and bool(list(logs.rglob("*.batches"))))
    assert keys(logs) == sorted(rows[0])

    other = Driver(driver.path, "local[2]")
    try:
        other.begin(jobs.stream, tmp_path)
        other.kill_when(lambda: count_rows(logs) >= 40)
    finally:
        other.kill()
    jobs.stream(spark, str(tmp_path))
    assert keys(logs) == sorted(chain(*rows))
    assert [name[:17] for name in staged_names(logs)] == [".kafkalog-stream-"]
