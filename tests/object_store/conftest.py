"""Fixtures of the tests of object stores."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.http_proxy import HttpProxy
from native_log.storage.remote.object_bucket import ObjectBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.s3_server import S3Server


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[HttpProxy]:
    """A proxy in front of the S3 server, which counts the requests of one test."""
    with HttpProxy(s3.port) as running:
        yield running


@pytest.fixture
def partitions_meet(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let requests for segments wait until three partitions are read at the same time.

    Internal topics do not count. After that, nothing waits until the event is cleared.
    """
    have_met, lock = threading.Event(), threading.Lock()
    reading: Counter[str] = Counter()
    read = ObjectBucket.read

    def meet(bucket: ObjectBucket, key: str, *arguments: Any) -> Any:
        partition = key.rpartition("/")[0]
        if not key.endswith(".log") or "__" in partition:
            return read(bucket, key, *arguments)
        with lock:
            reading[partition] += 1
            if len(+reading) >= 3:
                have_met.set()
        try:
            assert have_met.wait(60), "partitions are read one after the other"
            return read(bucket, key, *arguments)
        finally:
            with lock:
                reading[partition] -= 1

    monkeypatch.setattr(ObjectBucket, "read", meet)
    return have_met
