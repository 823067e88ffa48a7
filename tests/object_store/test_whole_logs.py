"""Reading a whole log from a bucket fetches large ranges, several at a time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.http_proxy import HttpProxy
    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

URL = "s3://whole-logs/logs"
ROWS = 1000


@pytest.fixture(scope="module")
def size_bytes(s3: S3Server) -> int:
    """Write a log of two segments. The second is small. Return the size of the first."""
    log_dir = s3.root / "whole-logs" / "logs"
    values = random.Random(1)
    with LogDir.create(log_dir) as logs:
        logs.create_topic("t", config={"cleanup.policy": "compact", "segment.bytes": 4_000_000})
        log = logs.partition("t", 0)
        for first in range(0, 36 * ROWS, ROWS):
            keys = pa.array([b"key-%d" % (i % 7000) for i in range(first, first + ROWS)], pa.binary())
            log.append(pa.table({"key": keys, "value": [values.randbytes(100) for _ in range(ROWS)]}))
        return log.segments[0].size_bytes


def verify(url: str, **options: Any) -> None:
    assert native_log.verify(url, **options).num_rows == 0


def compact(url: str, **options: Any) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    native_log.compact(url, dry_run=True, config=config, **options)


def erase(url: str, **options: Any) -> None:
    native_log.erase(url, "t", keys=[b"key-1"], dry_run=True, **options)


def read(url: str, **options: Any) -> None:
    assert LogDir(url, **options).partition("t", 0).read().read_all().num_rows == 36 * ROWS


@pytest.mark.parametrize("work", [verify, compact, erase, read])
def test_large_ranges_are_fetched(
    s3: S3Server, proxy: HttpProxy, size_bytes: int, work: Callable[..., None]
) -> None:
    work(URL, storage_options={**s3.options, "aws_endpoint": proxy.endpoint})
    ranges = [
        request.rpartition(" ")[2].split("-")
        for request in proxy.traffic.requests
        if f"{0:020}.log" in request
    ]
    passes = round(sum(int(last) + 1 - int(first) for first, last in ranges) / size_bytes)
    assert 1 <= passes <= 3
    assert len(ranges) < 10 * passes
