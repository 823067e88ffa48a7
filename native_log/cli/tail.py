"""Where the last N records of a log begin, found from its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.log import PartitionLog


def tail_start(
    log: PartitionLog,
    start_offset: int,
    end_offset: int,
    count: int,
    *,
    isolation_level: str = "read_uncommitted",
    mode: str = "failFast",
) -> int:
    """The offset from which on `count` records lie before `end_offset`; start_offset if there are fewer.

    Offsets are not dense (compaction, markers, aborted transactions), so records have to be counted: in a
    window before the end, then in one twice as large before that, until there are enough. Only offsets are
    decoded.
    """
    missing = count
    window = max(count, 1)
    end = end_offset
    while missing > 0 and end > start_offset:
        start = max(start_offset, end - window)
        offsets: list[int] = []
        for batch in log.read(start, end, ["offset"], isolation_level, mode=mode):
            offsets.extend(offset for offset in batch.column(0).to_pylist() if offset is not None)
        if len(offsets) >= missing:
            return offsets[-missing]
        missing -= len(offsets)
        end, window = start, window * 2
    return start_offset if missing > 0 else end
