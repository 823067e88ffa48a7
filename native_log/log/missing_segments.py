"""Find segments that are missing: their offset index is in the directory, but not their .log file.

An incomplete copy leaves such a directory, because indexes are small and .log files are large. A broker
removes the index when it loads the log, and consumers skip the offsets without an error.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from native_log.log.listing import next_offset
from native_log.log.offset_span import OffsetSpan
from native_log.segment.files import INDEX, MAX_OFFSET, file_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.log_state import LogState
    from native_log.segment.segment import LogSegment


def missing_segments(log: LogState) -> tuple[OffsetSpan, ...]:
    """Return the offsets that missing segments had, in order: up to MAX_OFFSET after the last segment.

    The index of a segment that compaction has merged into the one before it shows nothing. Neither does one
    below the log start offset.

    Raises OSError if the end of the segment before a missing one cannot be read.
    """
    # The segments of a joined log may be in another order.
    segments = sorted(log.segments, key=lambda segment: segment.base_offset)
    bases = [segment.base_offset for segment in segments]
    missing: list[OffsetSpan] = []
    for base in log.without_log:
        following = bisect_right(bases, base)
        end = bases[following] if following < len(bases) else MAX_OFFSET
        is_counted = bool(missing) and missing[-1].end_offset == end
        is_deleted = base < (log.checkpoints.log_start_offset or 0)
        if not (is_counted or is_deleted) and _end_before(log, segments, following) <= base:
            missing.append(OffsetSpan(base, end))
    return tuple(missing)


def _end_before(log: LogState, segments: Sequence[LogSegment], following: int) -> int:
    """Return where the records end that come before the segment with the index `following`."""
    if following == 0:
        return 0
    if following == len(segments):
        # A broker creates the files of a new segment one by one.
        return MAX_OFFSET if log.checkpoints.live else log.log_end_offset
    return next_offset(segments[following - 1], log.max_batch_bytes)


def describe_missing(span: OffsetSpan) -> str:
    """Return what a missing segment means. A message that names its index is to end with this text."""
    up_to = "on" if span.end_offset == MAX_OFFSET else f"to {span.end_offset - 1}"
    return f"the .log file of this index is missing, and with it the offsets from {span.start_offset} {up_to}"


def describe_all(missing: Sequence[OffsetSpan]) -> str | None:
    """Return the first missing segment and the number of others in one line; None if none is missing."""
    if not missing:
        return None
    others = f". {len(missing)} segments are missing in all" if len(missing) > 1 else ""
    return f"{file_name(missing[0].start_offset, INDEX)}: {describe_missing(missing[0])}{others}"
