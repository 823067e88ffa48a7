"""Produce the next items of an iterator in threads while the caller works on the current one."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_MOST_TOGETHER = 64
"""How many threads of one call wait for answers of a bucket."""

_MOST_WAITING = 128
"""How many threads of all calls wait. Calls within these threads may find none left."""

_waiting = 0
_lock = threading.Lock()

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


def submit(pool: ThreadPoolExecutor, call: Callable[[], R]) -> Future[R]:
    """Submit a call to a pool. If the pool cannot start it, as at the exit of the process, call it here."""
    try:
        return pool.submit(call)
    except RuntimeError:
        future: Future[R] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future


class ProcessThreads:
    """A thread pool shared by the whole process. Threads start on demand; a forked child starts its own."""

    def __init__(self, count: int, name: str) -> None:
        """Create a pool of up to `count` threads, whose names begin with `name`."""
        self._count = count
        self._name = name
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._lock = threading.Lock()

    def submit(self, call: Callable[[], R]) -> Future[R]:
        """Call a function in one of the threads. It must not wait for other calls in the same pool."""
        with self._lock:
            if self._pool is None or self._pool[0] != os.getpid():
                self._pool = os.getpid(), ThreadPoolExecutor(self._count, self._name)
            pool = self._pool[1]
        return submit(pool, call)


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items. A thread produces the next item, and no more, while the caller works on one."""
    with ThreadPoolExecutor(1, "kafkalog-prefetch") as thread:
        following = submit(thread, lambda: next(items, None))
        while (item := following.result()) is not None:
            following = submit(thread, lambda: next(items, None))
            yield item


def map_ahead(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Yield the result of `function` for each item, in order.

    `threads` threads work on the following items meanwhile: on no more than two for each thread.
    """
    pool = ThreadPoolExecutor(threads, "kafkalog-ahead")
    results: deque[Future[R]] = deque()
    waits = True
    try:
        for item in items:
            results.append(pool.submit(function, item))
            if len(results) > 2 * threads:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()
    except KeyboardInterrupt:
        waits = False  # the answer of a slow store may take long
        raise
    finally:
        pool.shutdown(waits, cancel_futures=True)


def map_together(function: Callable[[T], R], items: Iterable[T], *, are_local: bool) -> Iterator[R]:
    """Yield the result of `function` for each item, in order.

    Args:
        function: reads little: what it reads is kept until its result is needed.
        items: what it reads.
        are_local: whether everything is on local disks, and read by the caller. Otherwise many threads wait
            for answers.
    """
    return map(function, items) if are_local else _map_in_threads(function, list(items))


def _map_in_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    with _waiting_threads(min(len(items), _MOST_TOGETHER)) as threads:
        yield from map(function, items) if threads < 2 else map_ahead(function, items, threads)


@contextmanager
def _waiting_threads(wanted: int) -> Iterator[int]:
    """Reserve threads, as many as the process may still have. Yield their number."""
    global _waiting
    with _lock:
        reserved = max(0, min(wanted, _MOST_WAITING - _waiting))
        _waiting += reserved
    try:
        yield reserved
    finally:
        with _lock:
            _waiting -= reserved


def look_up_together(function: Callable[[K], R], keys: Iterable[K], *, are_local: bool) -> dict[K, R]:
    """Return the result of `function` for each key: see `map_together`."""
    wanted = list(keys)
    return dict(zip(wanted, map_together(function, wanted, are_local=are_local), strict=True))
