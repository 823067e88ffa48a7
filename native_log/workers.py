"""Threads that work on partitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.progress import Progress


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
