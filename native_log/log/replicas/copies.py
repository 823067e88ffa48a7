"""Inspect a copy of a log: check all its batches, and note damaged ranges and missing offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.offset_span import OffsetSpan, union
from native_log.log.replicas.state import read_state
from native_log.log.slices import SegmentSlice
from native_log.log.sources.slice_check import Damaged, Missing, SliceCheck
from native_log.policies import Gaps
from native_log.segment.files import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.log.log_state import LogState
    from native_log.log.replicas.plan import CopyState


@dataclass(frozen=True, slots=True)
class InspectedCopy:
    """A copy of a log, after all its batches were checked.

    Attributes:
        log: the log.
        state: what it contains.
        damaged: its damaged ranges, by segment and position, with the offsets that they may have held. At the
            end of the log, these end at MAX_OFFSET.
        missing: offsets of missing segments, or in a topic that is not compacted of missing batches, sorted.
        lost: the offsets in damaged ranges and the missing ones, sorted and without overlaps.
    """

    log: LogState
    state: CopyState
    damaged: tuple[Damaged, ...]
    missing: tuple[OffsetSpan, ...]
    lost: tuple[OffsetSpan, ...]


def inspect_copy(log: LogState, is_compacted: bool = True) -> InspectedCopy:
    """Check the checksums of all batches of a copy, and return what it contains.

    Args:
        log: the log of the copy.
        is_compacted: whether compaction may have removed records. Then offsets are missing only if an index
            without a .log file shows a missing segment.

    Raises OSError, LogTruncatedError if the files change meanwhile.
    """
    state = read_state(log)
    damaged: list[Damaged] = []
    missing: list[OffsetSpan] = []
    slice_check = SliceCheck(log.max_batch_bytes, Gaps.UNEXPLAINED)
    for checked in slice_check.check(_whole_segments(log), OffsetSpan(state.start_offset, MAX_OFFSET)):
        if isinstance(checked, Damaged):
            damaged.append(checked)
        elif isinstance(checked, Missing) and _is_missing(checked.lost, state, is_compacted):
            missing.append(checked.lost)
    lost = [*missing, *(each.lost for each in damaged if not each.lost.is_empty)]
    return InspectedCopy(log, state, tuple(damaged), union(missing), union(lost))


def _is_missing(gap: OffsetSpan, state: CopyState, is_compacted: bool) -> bool:
    """Return whether offsets that no batch has are missing.

    Those after the end are not, and those that compaction may have removed.
    """
    if gap.end_offset == MAX_OFFSET:
        return False
    return not is_compacted or any(gap.overlaps(span) for span in state.missing)


def _whole_segments(log: LogState) -> Iterator[SegmentSlice]:
    """Yield the bytes of the segments of a log, up to its end."""
    for segment in log.segments:
        if end := log.end_position(segment):
            yield SegmentSlice.of(segment, 0, end)
