"""List many partition directories in a bucket with few requests, before their logs are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from native_log.prefetch import map_together
from native_log.storage import UrlStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from native_log.logdir.discovery import PartitionDir

R = TypeVar("R")


def map_listed(
    function: Callable[[PartitionDir], R], directories: Iterable[PartitionDir]
) -> Iterator[tuple[PartitionDir, R]]:
    """Yield directories with the results of a function that lists each of them once.

    Directories at URLs are listed together first, as far as possible. Many threads call the function, because
    it may also wait for files. Directories may be yielded in another order.
    """
    for group in _listed_ahead(directories):
        yield from zip(group, map_together(function, group, are_local=False), strict=True)


def _listed_ahead(directories: Iterable[PartitionDir]) -> Iterator[Sequence[PartitionDir]]:
    """Yield the directories in groups. Many directories at URLs have been listed by then.

    Until the next group is requested, listing each of them once more takes no request.
    """
    by_parent: dict[Path, dict[str, PartitionDir]] = {}
    others = []
    for directory in directories:
        if isinstance(directory.storage, UrlStorage):
            by_parent.setdefault(directory.path.parent, {})[directory.path.name] = directory
        else:
            others.append(directory)
    yield others
    for parent, named in by_parent.items():
        storage = next(iter(named.values())).storage
        assert isinstance(storage, UrlStorage)
        for names in storage.list_ahead(str(parent), named):
            yield [named[name] for name in names]
