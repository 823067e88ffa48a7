"""Read small segments that are not on a local disk, many at a time.

Nearly all of the time goes into waiting for requests. Large segments do not need this, because their files
are fetched ahead while records are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from native_log.log.reading.parallel import read_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import IsolationLevel

MAX_PART_BYTES = 2 << 20
"""The size of the largest part that counts as small, in bytes of the file."""

THREADS = 16
"""How many parts are read at a time."""

AHEAD_BYTES = 32 << 20
"""How many bytes of Arrow memory may be read ahead of the consumer, by all threads together."""

Part = TypeVar("Part", bound="_Divisible")


class _Divisible(Protocol):
    """A range whose slices can be read separately."""

    @property
    def isolation_level(self) -> IsolationLevel: ...
    @property
    def is_local(self) -> bool: ...
    @property
    def size_bytes(self) -> int: ...
    def split_slices(self) -> Sequence[_Divisible]: ...


def small_parts(ranges: Sequence[Part], *, undivided: bool = False) -> list[Part] | None:
    """Divide ranges into parts of one slice each. Ranges that are read_committed stay whole.

    Args:
        ranges: the ranges.
        undivided: whether all ranges stay whole.

    Returns:
        None if this would not help: all ranges are on a local disk, a part is large, or there is only one.
    """
    if all(each.is_local for each in ranges):
        return None
    parts: list[Part] = []
    for each in ranges:
        stays_whole = undivided or each.isolation_level == "read_committed"
        divided = [each] if stays_whole else each.split_slices()
        if any(part.size_bytes > MAX_PART_BYTES for part in divided):
            return None
        parts += divided  # type: ignore[arg-type]
    return parts if len(parts) > 1 else None


def read_small_parts(
    parts: Sequence[Part],
    read: Callable[[Part], Iterator[pa.RecordBatch]],
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `read` yields for each part, in order: see read_parts.

    The first part is read completely before the others are started, so that reading a few rows takes few
    requests.
    """
    yield from read(parts[0])
    advance(parts[0].size_bytes)
    yield from read_parts(iter(parts[1:]), read, THREADS, advance, AHEAD_BYTES)
