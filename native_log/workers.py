"""Threads that work on partitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from native_log.prefetch import map_ahead
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from native_log.progress import Progress


T = TypeVar("T")
R = TypeVar("R")

_READER_BYTES = 52 << 20
"""How much memory a thread needs to read a large log that is not on a local disk."""
_LEAST_READERS, _MOST_READERS = 8, 64


def waiting_readers(sizes: Iterable[float]) -> int:
    """Return how many logs that are not on local disks to read at a time.

    Threads mostly wait for answers: many of them read small logs, and as many large ones as there are cores,
    but at least 8. They need at most 416 MiB, unless there are more cores.

    Args:
        sizes: the sizes of the logs in bytes.
    """
    needs = sorted((min(size, _READER_BYTES) for size in sizes), reverse=True)[:_MOST_READERS]
    fitting = sum(total <= _LEAST_READERS * _READER_BYTES for total in accumulate(needs))
    return max(available_cores(), _LEAST_READERS, fitting)


def map_logs(function: Callable[[T], R], logs: Iterable[T], readers: int | None) -> Iterator[R]:
    """Yield the result of `function`, which may read a whole log, for each log, in order.

    Args:
        function: reads a log.
        logs: the logs.
        readers: how many threads read them; None: the caller does, as results are needed.
    """
    return map(function, logs) if readers is None else map_ahead(function, logs, readers)


def map_tables(
    read: Callable[[T], Iterator[R]], logs: Iterable[T], readers: int | None
) -> Iterator[Iterable[R]]:
    """Yield what `read` yields for each log, in order: see `map_logs`. Threads collect it for each log."""
    return map(read, logs) if readers is None else map_ahead(lambda log: list(read(log)), logs, readers)


@contextmanager
def worker_threads(count: int, name: str, progress: Progress | None = None) -> Iterator[ThreadPoolExecutor]:
    """Provide `count` threads, at least one, that work on partitions until the block ends.

    If the block fails, for example because of an interrupt, stop `progress` and drop the work that has not
    begun. The block ends only when all threads have stopped, so that locks can then be released.
    """
    pool = ThreadPoolExecutor(max(1, count), name)
    try:
        yield pool
    except BaseException:
        if progress is not None:
            progress.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
