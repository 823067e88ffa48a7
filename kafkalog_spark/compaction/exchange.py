"""Pass packed keys from the tasks that collect them to the tasks that merge them.

Each attempt of a task writes its packs into a file of its own in the partition's staging directory. Only the
position of each bundle in that file (a Bundle) goes through Spark's shuffle. So the keys never pass through
the JVM. If Spark runs several attempts of a task, it uses the bundles of only one of them.

A dry run changes nothing in the partition directory: the packs themselves go through the shuffle.
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

MERGE_BUFFER_BYTES = 8 << 20
"""About how many bytes of packs a merging task reads at a time. A larger bucket is read whole."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The packs of consecutive buckets that one task has collected.

    Attributes:
        source: the path of the file that contains the packs, or the packs themselves.
        position: the position of the first pack in the file.
        lengths: the size of each pack in bytes, one for each bucket.
    """

    source: str | bytes
    position: int
    lengths: array[int]


class PackWriter:
    """Writes the packs of one attempt of a task. A context manager that closes the file.

    Args:
        path: the partition directory; None: put the packs into the bundles instead of a file.
        buckets: the number of buckets in each bundle.
    """

    def __init__(self, path: str | None, buckets: int) -> None:
        self._path = None if path is None else Path(path, STAGING_DIRECTORY, f"{uuid.uuid4().hex}.keys")
        self._buckets = buckets
        self._file: AppendFile | None = None

    def write(self, packs: Sequence[Buffer]) -> Iterator[Bundle]:
        """Write the packs of all buckets, and yield the bundles."""
        for first in range(0, len(packs), self._buckets):
            yield self._write_bundle(packs[first : first + self._buckets])

    def _write_bundle(self, packs: Sequence[Buffer]) -> Bundle:
        lengths = array("q", (memoryview(pack).nbytes for pack in packs))
        if self._path is None:
            return Bundle(b"".join(packs), 0, lengths)
        if self._file is None:
            self._file = AppendFile(str(self._path), exclusive=True, writeback_from=sys.maxsize)
        bundle = Bundle(str(self._path), self._file.size_bytes, lengths)
        for pack in packs:
            self._file.append(pack)
        return bundle

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def packs_by_bucket(bundles: Sequence[Bundle]) -> Iterator[list[memoryview]]:
    """Yield the packs of each bucket in turn, from all bundles.

    The memory is reused: a list is valid only until the next one is requested.

    Args:
        bundles: the bundles that all tasks have collected for the same buckets.

    Raises:
        OSError: a file cannot be read, or is too short.
    """
    sizes = [sum(lengths) for lengths in zip(*(bundle.lengths for bundle in bundles), strict=True)]
    readers = [_BundleReader(bundle) for bundle in bundles]
    buffer = memoryview(bytearray(MERGE_BUFFER_BYTES))
    for first, end in _divide(sizes, MERGE_BUFFER_BYTES):
        needed = sum(sizes[first:end])
        if needed > len(buffer):
            buffer = memoryview(bytearray(needed))
        free = buffer
        packs_by_reader: list[list[memoryview]] = []
        for reader in readers:
            packs, free = reader.read(first, end, free)
            packs_by_reader.append(packs)
        yield from map(list, zip(*packs_by_reader, strict=True))


def _divide(sizes: Sequence[int], max_size: int) -> Iterator[tuple[int, int]]:
    """Yield index ranges (first, end) of consecutive items that have at most `max_size` in total.

    A larger item has a range of its own.
    """
    first = total = 0
    for index, size in enumerate(sizes):
        if index > first and total + size > max_size:
            yield first, index
            first, total = index, 0
        total += size
    if sizes:
        yield first, len(sizes)


class _BundleReader:
    def __init__(self, bundle: Bundle) -> None:
        self._source = bundle.source
        self._ends = list(accumulate(bundle.lengths, initial=bundle.position))

    def read(self, first: int, end: int, into: memoryview) -> tuple[list[memoryview], memoryview]:
        """Return the packs with the indexes first <= i < end, and the unused rest of `into`."""
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
        end = position + len(into)
        if end > file.size_bytes:
            raise OSError(f"{path}: expected packed keys up to position {end}, found {file.size_bytes} bytes")
        file.read_into(into, position)
