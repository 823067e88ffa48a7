"""Find segments without a .log file, or with an empty one, whose indexes show that it had records.

An incomplete copy leaves such a directory, because indexes are small and .log files are large. A broker
removes or rebuilds the indexes when it loads the log, and consumers skip the offsets without an error.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.listing import next_offset
from native_log.log.offset_span import OffsetSpan
from native_log.segment.files import INDEX, MAX_OFFSET, file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.log.log_state import LogState
    from native_log.segment.segment import LogSegment


@dataclass(frozen=True, slots=True)
class MissingSegment:
    """A segment whose records are missing.

    Attributes:
        span: the offsets that it had, up to MAX_OFFSET after the last segment.
        is_empty: whether there is a .log file, without any bytes.
    """

    span: OffsetSpan
    is_empty: bool

    @property
    def index(self) -> str:
        """The name of the index."""
        return file_name(self.span.start_offset, INDEX)

    def __str__(self) -> str:
        """Say what is missing. A message that names the index is to end with this text."""
        state = "empty" if self.is_empty else "missing"
        up_to = "on" if self.span.end_offset == MAX_OFFSET else f"to {self.span.end_offset - 1}"
        return (
            f"the .log file of this index is {state}: the offsets from {self.span.start_offset} {up_to} are "
            "lost"
        )


def missing_segments(log: LogState) -> tuple[MissingSegment, ...]:
    """Return the missing segments in the order of offsets. Those that follow each other are one.

    The index of a segment that compaction has merged into the one before it shows nothing. Neither does one
    below the log start offset. While a broker has the directory open, nothing counts as missing: it has
    removed such indexes, and it renames and creates the files of a segment one by one.

    Raises OSError if the end of the segment before a missing one cannot be read.
    """
    if log.checkpoints.live or not (log.without_log or any(s.size_bytes == 0 for s in log.segments[:-1])):
        return ()
    # The segments of a joined log may be in another order.
    segments = sorted(log.segments, key=lambda segment: segment.base_offset)
    bases = [segment.base_offset for segment in segments]
    missing = []
    for base in log.without_log:
        following = bisect_right(bases, base)
        if _end_before(log, segments, following) <= base:
            end = bases[following] if following < len(bases) else MAX_OFFSET
            missing.append(MissingSegment(OffsetSpan(base, end), is_empty=False))
    for segment in segments[:-1]:
        if segment.size_bytes == 0 and segment.last_time_entry() is not None:
            end = bases[bisect_right(bases, segment.base_offset)]
            missing.append(MissingSegment(OffsetSpan(segment.base_offset, end), is_empty=True))
    start = log.checkpoints.log_start_offset or 0
    missing = [each for each in missing if each.span.start_offset >= start]
    missing.sort(key=lambda each: each.span.start_offset)
    return tuple(_without_repeated(missing))


def describe_all(missing: Sequence[MissingSegment]) -> str | None:
    """Return the first missing segment and how many there are in one line; None if none is missing."""
    if not missing:
        return None
    count = f". {len(missing)} segments are missing in all" if len(missing) > 1 else ""
    return f"{missing[0].index}: {missing[0]}{count}"


def _end_before(log: LogState, segments: Sequence[LogSegment], following: int) -> int:
    """Return where the records end that come before the segment with the index `following`."""
    if following == 0:
        return 0
    if following == len(segments):
        return log.log_end_offset
    return next_offset(segments[following - 1], log.max_batch_bytes)


def _without_repeated(missing: Iterable[MissingSegment]) -> Iterator[MissingSegment]:
    end = 0
    for each in missing:
        if each.span.start_offset >= end:
            yield each
            end = each.span.end_offset
