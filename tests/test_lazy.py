"""Attributes that are computed when they are first needed."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from native_log.lazy import lazy_property, shared_property


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


def test_one_thread_computes_what_others_wait_for() -> None:
    both = threading.Barrier(2, timeout=60)

    class Log:
        reads = 0

        @shared_property
        def topics(self) -> str:
            """The topics."""
            time.sleep(0.001)  # the other thread needs it meanwhile
            self.reads += 1
            return f"read {self.reads}"

    log = Log()

    def topics(_: int) -> str:
        both.wait()
        return log.topics

    with ThreadPoolExecutor(2) as threads:
        for _ in range(50):
            assert list(threads.map(topics, range(2))) == [f"read {log.reads}"] * 2
            Log.topics.forget(log)
    assert log.reads == 50
    assert Log.topics.__doc__ == "The topics."
