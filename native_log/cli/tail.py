"""Find the offset at which the last N records of a log begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def tail_start(
    offsets_in: Callable[[int, int], Iterable[int]], start_offset: int, end_offset: int, count: int
) -> int:
    """Return the offset of the first of the last `count` records before `end_offset`.

    If there are fewer records, return `start_offset`. Offsets have gaps (compaction, markers, aborted
    transactions), so the records are counted: first in a window at the end, then in windows before it, each
    twice as large as the last one.

    Args:
        offsets_in: returns the offsets of the records in a range (end exclusive), in order.
        end_offset: exclusive.
    """
    if count >= end_offset - start_offset:  # There are at most as many records as offsets.
        return start_offset
    missing = count
    for start, end in windows_from_end(start_offset, end_offset, count) if count else ():
        offsets = list(offsets_in(start, end))
        if len(offsets) >= missing:
            return offsets[-missing]
        missing -= len(offsets)
    return start_offset if count else end_offset


def windows_from_end(start_offset: int, end_offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges from the end of a range to its start, each twice as large as the last."""
    while end_offset > start_offset:
        start = max(start_offset, end_offset - size)
        yield start, end_offset
        end_offset, size = start, size * 2
