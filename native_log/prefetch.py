"""Produce the next items of an iterator in threads while the caller works on the current one."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_MOST_TOGETHER = 64

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


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items. A thread produces the next item, and no more, while the caller works on one."""
    with ThreadPoolExecutor(1, "kafkalog-prefetch") as thread:
        following = submit(thread, lambda: next(items, None))
        while (item := following.result()) is not None:
            following = submit(thread, lambda: next(items, None))
            yield item


def map_together(function: Callable[[T], R], items: Sequence[T], *, are_local: bool) -> list[R]:
    """Return the result of `function` for each item, in order.

    Args:
        function: reads something.
        items: what it reads.
        are_local: whether everything is on local disks. Otherwise several threads wait for answers.
    """
    if are_local or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _MOST_TOGETHER), "kafkalog-together") as threads:
        return list(threads.map(function, items))


def map_ahead(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Yield the result of `function` for each item, in order.

    `threads` threads work on the following items meanwhile: on no more than two for each thread.
    """
    pool = ThreadPoolExecutor(threads, "kafkalog-ahead")
    results: deque[Future[R]] = deque()
    try:
        for item in items:
            results.append(pool.submit(function, item))
            if len(results) > 2 * threads:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
