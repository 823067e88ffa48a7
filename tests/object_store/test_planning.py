"""What is requested to plan a read of many partitions in a bucket."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir, reindex
from tests.builders.copies import batches, rows, rows_of, write_copy

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.http_proxy import HttpProxy
    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

LOG = batches(0, 6)
TOPICS = ("t", "t-1", "t.x", "u")
KEYS = [(topic, partition) for topic in TOPICS for partition in range(30)]


@pytest.fixture(scope="module")
def url(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bucket with many partitions, and a folder between them that is none."""
    log_dir: Path = s3.root / "many" / "logs"
    written = write_copy(tmp_path_factory.mktemp("many"), LOG, rolls=[6, 12])
    for topic, partition in KEYS:
        shutil.copytree(written, log_dir / f"{topic}-{partition}")
    for name in ("meta.properties", "t-15x/a", "t-15x/b/c"):
        (log_dir / name).parent.mkdir(exist_ok=True, parents=True)
        (log_dir / name).write_text("version=1\nbroker.id=1\n")
    return "s3://many/logs"


@pytest.fixture
def log_dir(s3: S3Server, proxy: HttpProxy, url: str) -> LogDir:
    opened = LogDir(url, storage_options={**s3.options, "aws_endpoint": proxy.endpoint})
    proxy.reset()
    return opened


def test_whole_logs_are_planned_by_lists_of_many_partitions(log_dir: LogDir, proxy: HttpProxy) -> None:
    ranges = log_dir.unbounded_ranges(KEYS)
    assert ranges is not None
    assert all("list-type=2" in request for request in proxy.traffic.requests)
    assert len(proxy.traffic.requests) < 10
    assert list(ranges) == KEYS
    for topic, partition in KEYS:
        log = ranges[topic, partition].bounded(fail_on_data_loss=True)
        assert (log.topic, log.partition) == (topic, partition)
        assert rows(log.read(["offset", "value"])) == rows_of(LOG)


def test_a_log_directory_is_listed_once(log_dir: LogDir, proxy: HttpProxy, url: str) -> None:
    proxy.reset()
    logs = LogDir(url, storage_options=log_dir.storage_options)
    assert logs.unbounded_ranges(KEYS) is not None
    lists = [request for request in proxy.traffic.requests if "list-type=2" in request]
    assert sum("delimiter" in request and "prefix=logs%2F " in f"{request} " for request in lists) == 1


def test_a_task_finds_the_end_by_two_requests(s3: S3Server, proxy: HttpProxy) -> None:
    write_copy(s3.root / "large" / "logs", batches(0, 1000))
    reindex(s3.root / "large" / "logs")
    options = {**s3.options, "aws_endpoint": proxy.endpoint}
    planned = LogDir("s3://large/logs", storage_options=options).unbounded_ranges([("t", 0)])
    assert planned is not None
    in_task = pickle.loads(pickle.dumps(planned["t", 0]))
    proxy.reset()
    assert in_task.bounded(fail_on_data_loss=True).end_offset == 3000
    end, index = sorted(proxy.traffic.requests, key=lambda request: ".index" in request)
    assert end.startswith("GET ") and ".log" in end
    assert index.startswith("GET ") and ".index" in index


def test_logs_are_opened_with_one_get_each(log_dir: LogDir, proxy: HttpProxy) -> None:
    logs = log_dir.open_logs(KEYS)
    assert list(logs) == KEYS
    requests = proxy.traffic.requests
    assert sum("list-type=2" in request for request in requests) < 10
    assert sum("list-type=2" not in request for request in requests) == len(KEYS)
    assert {log.log_end_offset for log in logs.values()} == {18}
    assert {len(log.segments) for log in logs.values()} == {3}


def test_a_listing_is_used_once(log_dir: LogDir, s3: S3Server) -> None:
    log_dir.open_logs(KEYS)
    added = s3.root / "many" / "logs" / "t-0" / f"{18:020}.log"
    added.write_bytes(batches(6, 7)[0].data)
    try:
        assert log_dir.partition("t", 0).log_end_offset == 21
    finally:
        added.unlink()
