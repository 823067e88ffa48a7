"""Work on one thing while the next is being made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


def prefetch(things: Iterator[T]) -> Iterator[T]:
    """The same things. While the caller is at work on one, a thread makes the next; never more."""
    with ThreadPoolExecutor(1, "kafkalog-ahead") as thread:
        following = thread.submit(next, things, None)
        while (thing := following.result()) is not None:
            following = thread.submit(next, things, None)
            yield thing
