"""Where the last N records of a log begin, found from its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def tail_start(
    offsets_in: Callable[[int, int], Iterable[int]], start_offset: int, end_offset: int, count: int
) -> int:
    """The offset from which on `count` records lie before `end_offset`; start_offset if there are fewer.

    Offsets are not dense (compaction, markers, aborted transactions), so records have to be counted: in a
    window before the end, then in one twice as large before that, until there are enough.

    Args:
        offsets_in: the offsets of the records in a range, in order.
    """
    if count >= end_offset - start_offset:  # there are no more records than offsets
        return start_offset
    missing = count
    for start, end in windows_from_end(start_offset, end_offset, count) if count else ():
        offsets = list(offsets_in(start, end))
        if len(offsets) >= missing:
            return offsets[-missing]
        missing -= len(offsets)
    return start_offset if count else end_offset


def windows_from_end(start_offset: int, end_offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of offsets that tile the given one from its end on, each twice as large as the one before."""
    while end_offset > start_offset:
        start = max(start_offset, end_offset - size)
        yield start, end_offset
        end_offset, size = start, size * 2
