"""Packed keys on their way from the tasks that gather them to those that merge them.

They lie in files beside the log, a file to each attempt of a task, and go with the staging directory; what
goes through Spark's shuffle is where in them a bundle lies. So a task tried again, or twice at a time, is
referred to once, and no key passes the JVM. A dry run changes nothing in a log's directory: there the packs
themselves go through the shuffle.
"""

from __future__ import annotations

import sys
import uuid
from array import array
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.storage import DataFile
from native_log.storage.writing import AppendFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

MERGED_BYTES = 8 << 20
"""About how much a merging task reads at a time, if a bucket takes no more."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Consecutive packs of a task, one a bucket.

    Attributes:
        source: the file they lie in, from `position` on; or they themselves.
        lengths: of each, in bytes.
    """

    source: str | bytes
    position: int
    lengths: array[int]


class PackWriter:
    """Takes the packs of one attempt of a task; a context manager.

    Args:
        path: the partition's directory; None: they go along.
    """

    def __init__(self, path: str | None, buckets: int) -> None:
        self._path = None if path is None else Path(path, STAGING_DIRECTORY, f"{uuid.uuid4().hex}.keys")
        self._buckets = buckets
        self._file: AppendFile | None = None

    def bundles(self, packs: Sequence[Buffer]) -> Iterator[Bundle]:
        """Of `buckets` packs each."""
        for first in range(0, len(packs), self._buckets):
            yield self._bundle(packs[first : first + self._buckets])

    def _bundle(self, packs: Sequence[Buffer]) -> Bundle:
        lengths = array("q", (memoryview(pack).nbytes for pack in packs))
        if self._path is None:
            return Bundle(b"".join(packs), 0, lengths)
        if self._file is None:
            self._file = AppendFile(str(self._path), exclusive=True, sent_from=sys.maxsize)
        bundle = Bundle(str(self._path), self._file.size_bytes, lengths)
        for pack in packs:
            self._file.append(pack)
        return bundle

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def by_bucket(bundles: Sequence[Bundle]) -> Iterator[list[memoryview]]:
    """The packs of each bucket in turn, of all tasks' bundles. They are to be used before the next is asked
    for: the memory is used again."""
    sizes = [sum(lengths) for lengths in zip(*(bundle.lengths for bundle in bundles), strict=True)]
    readers = [_Reader(bundle) for bundle in bundles]
    buffer = memoryview(bytearray(MERGED_BYTES))
    for first, end in _runs(sizes, MERGED_BYTES):
        needed = sum(sizes[first:end])
        if needed > len(buffer):
            buffer = memoryview(bytearray(needed))
        free = buffer
        found: list[list[memoryview]] = []
        for reader in readers:
            packs, free = reader.read(first, end, free)
            found.append(packs)
        yield from map(list, zip(*found, strict=True))


def _runs(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Of consecutive items that have no more than `most` together, or are one: (first, end)."""
    first = filled = 0
    for index, size in enumerate(sizes):
        if index > first and filled + size > most:
            yield first, index
            first, filled = index, 0
        filled += size
    if sizes:
        yield first, len(sizes)


class _Reader:
    def __init__(self, bundle: Bundle) -> None:
        self._source = bundle.source
        self._ends = list(accumulate(bundle.lengths, initial=bundle.position))

    def read(self, first: int, end: int, into: memoryview) -> tuple[list[memoryview], memoryview]:
        """The packs with index first <= i < end, and what is left of `into`."""
        start, stop = self._ends[first], self._ends[end]
        if isinstance(self._source, bytes):
            data, free = memoryview(self._source)[start:stop], into
        else:
            data, free = into[: stop - start], into[stop - start :]
            if data:
                _read(self._source, start, data)
        borders = [position - start for position in self._ends[first : end + 1]]
        return [data[a:b] for a, b in pairwise(borders)], free


def _read(path: str, position: int, into: memoryview) -> None:
    with DataFile(path) as file:
        missing = position + len(into) - file.size_bytes
        if missing > 0:
            raise OSError(f"{path} ends at {file.size_bytes}: {missing} bytes of packed keys are missing")
        file.read_into(into, position)
