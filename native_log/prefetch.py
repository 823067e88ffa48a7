"""Produce the next item of an iterator in a thread while the caller works on the current one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items. A thread produces the next item, and no more, while the caller works on one."""
    with ThreadPoolExecutor(1, "kafkalog-prefetch") as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item
