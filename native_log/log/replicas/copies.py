"""Inspect a copy of a log: read all its batches, and note damaged ranges and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.replicas.plan import CopyState, OffsetSpan
from native_log.log.replicas.state import read_state
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.log.local_log import LocalLog
    from native_log.log.segment_slices import SegmentSlice
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged range of a copy.

    Attributes:
        bytes: the damaged range.
        lost: the offsets that it may have held. At the end of the log, the end is MAX_OFFSET.
    """

    bytes: DamagedRange
    lost: OffsetSpan


@dataclass(frozen=True, slots=True)
class InspectedCopy:
    """A copy of a log, after all its batches were checked.

    Attributes:
        log: the log.
        state: what it contains.
        damaged: its damaged ranges, by segment and position.
        missing: offsets of missing segments, or in a topic that is not compacted of missing batches.
        lost: the offsets in damaged ranges and the missing ones, sorted and without overlaps.
    """

    log: LocalLog
    state: CopyState
    damaged: tuple[Damage, ...]
    missing: tuple[OffsetSpan, ...]
    lost: tuple[OffsetSpan, ...]


def inspect_copy(log: LocalLog, is_compacted: bool = True) -> InspectedCopy:
    """Check the checksums of all batches of a copy, and return what it contains.

    Args:
        log: the log of the copy.
        is_compacted: whether compaction may have removed records. Then offsets are missing only if an index
            without a .log file shows a missing segment.

    Raises OSError, LogTruncatedError if the files change meanwhile.
    """
    state = read_state(log)
    damaged: list[Damage] = []
    missing: list[OffsetSpan] = []
    previous: int | None = None
    for segment in log.segments:
        in_segment: list[DamagedRange] = []
        for batches in valid_batches(log, segment, in_segment):
            missing += (gap for gap, _ in gaps(batches, previous))
            previous = batches.column("lastOffset")[-1].as_py()
        damaged += (Damage(each, lost_offsets(each, segment)) for each in in_segment)
    if is_compacted:
        missing = [gap for gap in missing if any(_overlap(gap, span) for span in state.missing)]
    lost = [each.lost for each in damaged if each.lost.start_offset < each.lost.end_offset]
    missing = [gap for gap in missing if not any(_overlap(gap, span) for span in lost)]
    return InspectedCopy(log, state, tuple(damaged), tuple(missing), _union([*lost, *missing]))


def valid_batches(
    log: LocalLog, segment: LogSegment, damaged: list[DamagedRange]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with right checksums of a segment (BATCH_SCHEMA). Damage is added to `damaged`."""
    end = log.end_position(segment)
    if end == 0:
        return
    with SegmentLookup(segment, end, Window(), max_batch_bytes=log.max_batch_bytes) as lookup:
        for scanned in lookup.batches(0, damaged.append, only_valid=True):
            if scanned.batches.num_rows:
                yield scanned.batches


def gaps(batches: pa.RecordBatch, previous: int | None) -> Iterator[tuple[OffsetSpan, int]]:
    """Yield the offsets between batches (BATCH_SCHEMA), each with the index of the batch after them.

    Args:
        batches: at least one batch.
        previous: the last offset of the batch before them; None: unknown.
    """
    lasts = batches.column("lastOffset")
    first = pc.coalesce(batches.column("baseOffset"), lasts)
    # The header of a compressed batch of magic 0 or 1 has no base offset, so that its gaps are unknown.
    is_known = batches.column("baseOffset").is_valid()
    if previous is not None and is_known[0].as_py() and first[0].as_py() > previous + 1:
        yield OffsetSpan(previous + 1, first[0].as_py()), 0
    is_gap = pc.and_(is_known[1:], pc.greater(first[1:], pc.add(lasts[:-1], 1)))
    for index in pc.indices_nonzero(is_gap).to_pylist():
        yield OffsetSpan(lasts[index].as_py() + 1, first[index + 1].as_py()), index + 1


def lost_offsets(damaged: DamagedRange, segment: LogSegment | SegmentSlice) -> OffsetSpan:
    """Return the offsets that a damaged range of a segment may have held."""
    start = segment.base_offset if damaged.offset is None else damaged.offset
    end = segment.end_offset if damaged.next_offset is None else damaged.next_offset
    return OffsetSpan(start, max(start, end))


def _union(spans: Iterable[OffsetSpan]) -> tuple[OffsetSpan, ...]:
    """Return the spans in order, with those that overlap joined."""
    joined: list[OffsetSpan] = []
    for span in sorted(spans, key=lambda span: span.start_offset):
        if joined and span.start_offset < joined[-1].end_offset:
            before = joined.pop()
            span = OffsetSpan(before.start_offset, max(before.end_offset, span.end_offset))
        joined.append(span)
    return tuple(joined)


def _overlap(one: OffsetSpan, other: OffsetSpan) -> bool:
    return one.start_offset < other.end_offset and other.start_offset < one.end_offset
