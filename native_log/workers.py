"""Threads that work on partitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from native_log.prefetch import map_ahead
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from native_log.progress import Progress


T = TypeVar("T")
R = TypeVar("R")

_REMOTE_READERS = 8
"""How many logs that are not on a local disk are read at a time, at least: threads mostly wait for answers.
Each may need 64 MiB."""


def reading_threads(*, are_local: bool) -> int:
    """Return how many logs to read at a time: one for each core, but at least 8 if they are not local.

    Args:
        are_local: whether all of them are on local disks.
    """
    cores = available_cores()
    return cores if are_local else max(cores, _REMOTE_READERS)


def map_logs(function: Callable[[T], R], logs: Iterable[T], *, are_local: bool) -> Iterator[R]:
    """Yield the result of `function`, which may read a whole log, for each log, in order.

    The caller reads local logs one after the other, as their results are needed. Several threads read others.
    """
    if are_local:
        return map(function, logs)
    return map_ahead(function, logs, reading_threads(are_local=False))


def map_tables(
    read: Callable[[T], Iterator[R]], logs: Iterable[T], *, at_once: bool
) -> Iterator[Iterable[R]]:
    """Yield what `read` yields for each log, in order.

    Args:
        read: reads a log.
        logs: the logs.
        at_once: whether the caller reads them as their results are needed. Otherwise the results of a log are
            collected, so that several logs can be read at a time.
    """
    return map(read, logs) if at_once else map_logs(lambda log: list(read(log)), logs, are_local=False)


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
