"""Attributes that are computed when they are first needed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from native_log.lazy import lazy_property


def test_computed_once() -> None:
    class Log:
        reads = 0

        @lazy_property
        def topic_id(self) -> str:
            """The topic id."""
            self.reads += 1
            return f"id {self.reads}"

    log = Log()
    assert [log.topic_id, log.topic_id, Log().topic_id] == ["id 1", "id 1", "id 1"]
    assert Log.topic_id.__doc__ == "The topic id."
    Log.topic_id.forget(log)
    Log.topic_id.forget(log)
    assert [log.topic_id, log.topic_id] == ["id 2", "id 2"]


def test_threads_compute_those_of_different_objects_at_the_same_time() -> None:
    barrier = threading.Barrier(2, timeout=60)

    class Log:
        @lazy_property
        def topic_id(self) -> int:
            return barrier.wait()

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(lambda log: log.topic_id, [Log(), Log()])) == [0, 1]
