"""Read small segments that are not on a local disk, many at a time.

Almost all of the time is spent on waiting for requests. Large segments do not need this: their file fetches
what follows while records are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from native_log.log.reading.parallel import read_parts
from native_log.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import IsolationLevel
    from native_log.log.slices import SegmentSlice

PART_BYTES = 2 << 20
"""Up to how many bytes of a file a part has."""

THREADS = 16
"""How many parts are read at a time."""

AHEAD_BYTES = 32 << 20
"""How many bytes of Arrow memory may be read ahead of the consumer, by all threads together."""

Part = TypeVar("Part", bound="_Divisible")


class _Divisible(Protocol):
    @property
    def isolation_level(self) -> IsolationLevel: ...
    @property
    def slices(self) -> tuple[SegmentSlice, ...]: ...
    @property
    def size_bytes(self) -> int: ...
    def split_slices(self) -> Sequence[_Divisible]: ...


def small_parts(ranges: Iterable[Part]) -> list[Part] | None:
    """Divide ranges into parts of one slice each. Those of read_committed stay whole.

    None if that is of no use: if there is one part only, if one is large, or if all are on a local disk.
    """
    parts: list[Part] = []
    for each in ranges:
        divided = [each] if each.isolation_level == "read_committed" else each.split_slices()
        if any(part.size_bytes > PART_BYTES for part in divided):
            return None
        parts += divided  # type: ignore[arg-type]
    is_local = all(part.segment.folder.storage is LOCAL for each in parts for part in each.slices)
    return None if is_local or len(parts) < 2 else parts


def read_small_parts(
    parts: Sequence[Part],
    read: Callable[[Part], Iterator[pa.RecordBatch]],
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `read` yields for each part, in order: see read_parts.

    The others are not begun before the first part was read, so that a few rows cost few requests.
    """
    yield from read(parts[0])
    advance(parts[0].size_bytes)
    yield from read_parts(iter(parts[1:]), read, THREADS, advance, AHEAD_BYTES)
