"""Decide which copy of a log is read for which offsets. All functions are pure.

The rules are those of an election and of a follower that truncates its log:

1. The copy with the highest leader epoch leads. Among several, the longest one leads. A last batch whose
   offset is not believed does not count (see last_batch.py).
2. Each other copy counts up to the offset at which it diverges from that history (KIP-101, KIP-279).
3. Each offset is read from one copy: the leading one if it has the segment, otherwise the next best. Damaged
   batches are found, and read from other copies, only when they are read (see read_repair).
4. Offsets before those of the leading copy are read from copies that still have them, if they connect.
5. The log starts where DeleteRecords has moved its start in any copy.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.log.leader_history import agreed_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.leader_history import History
    from native_log.log.offset_span import OffsetSpan
    from native_log.log.replicas.last_batch import LastBatch


@dataclass(frozen=True, slots=True)
class CopyState:
    """What one copy of a log contains.

    Attributes:
        history: its leader epochs.
        start_offset: the first offset of its segments.
        end_offset: its log end offset.
        log_start_offset: its entry in log-start-offset-checkpoint; None: no entry.
        high_watermark: its entry in replication-offset-checkpoint; None: no entry.
        missing: the offsets of missing segments, sorted and without overlaps.
        has_damaged_end: whether its log continues after `end_offset` with damaged batches.
        doubtful: its last batch, if that is not believed (see last_batch.py). It lies after `end_offset`.
    """

    history: History
    start_offset: int
    end_offset: int
    log_start_offset: int | None = None
    high_watermark: int | None = None
    missing: tuple[OffsetSpan, ...] = ()
    has_damaged_end: bool = False
    doubtful: LastBatch | None = None


@dataclass(frozen=True, slots=True)
class CopySpan:
    """Offsets from `start_offset` to before `end_offset`, which are read from the copy with index `copy`."""

    start_offset: int
    end_offset: int
    copy: int


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Which copy is read for which offsets.

    Attributes:
        leader: the index of the leading copy.
        ranking: the indexes of all copies, best first.
        spans: the offsets of the merged log, without gaps, in order.
        agreed_ends: for each copy, the offset up to which (exclusive) it agrees with the merged history.
        log_start_offset: the first offset that can be read.
        log_end_offset: the offset after the last record.
        high_watermark: the highest offset up to which (exclusive) a copy is known to be committed; None: no
            copy has a checkpointed high watermark.
        unconnected: the copies with offsets that are not read, because offsets between them and the rest are
            in no copy.
    """

    leader: int
    ranking: tuple[int, ...]
    spans: tuple[CopySpan, ...]
    agreed_ends: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    unconnected: tuple[int, ...]


def plan_merge(copies: Sequence[CopyState]) -> MergePlan:
    """Return the plan for reading at least one copy as one log."""
    ranking = sorted(range(len(copies)), key=lambda copy: _rank(copies[copy]), reverse=True)
    leader = ranking[0]
    agreed = tuple(
        copies[copy].end_offset if copy == leader else _agreed_end(copies[leader], copies[copy])
        for copy in range(len(copies))
    )
    # A copy without records, as of a follower that has just started over, must not move the end of the log.
    last = max(end for copy, end in enumerate(agreed) if copy == leader or end > copies[copy].start_offset)
    connected = _connected(_cover(copies, ranking, agreed), last)
    deleted = max((copy.log_start_offset or 0 for copy in copies), default=0)
    first = connected[0].start_offset if connected else copies[leader].start_offset
    start = max(first, deleted)
    committed = [
        min(state.high_watermark, end)
        for state, end in zip(copies, agreed, strict=True)
        if state.high_watermark is not None and end <= last
    ]
    unconnected = tuple(
        copy for copy, end in enumerate(agreed) if max(copies[copy].start_offset, deleted) < min(end, start)
    )
    return MergePlan(
        leader,
        tuple(ranking),
        tuple(
            CopySpan(max(span.start_offset, start), span.end_offset, span.copy)
            for span in connected
            if span.end_offset > start
        ),
        agreed,
        start,
        max(start, last),
        max(committed, default=None),
        unconnected,
    )


def _rank(copy: CopyState) -> tuple[int, int, bool]:
    # Of equal copies, one with a damaged end leads, so that the damage is reported.
    return copy.history.last_epoch, copy.end_offset, copy.has_damaged_end


def _agreed_end(leader: CopyState, copy: CopyState) -> int:
    end = agreed_end(leader.history, copy.history)
    if end is None:
        # Without a common epoch, only committed records are known to be in the history, and only before it.
        known = leader.history.entries
        begin = known[0].start_offset if known else leader.end_offset
        end = min(copy.high_watermark or 0, begin)
    return max(copy.start_offset, min(end, copy.end_offset))


def _cover(copies: Sequence[CopyState], ranking: Sequence[int], agreed: Sequence[int]) -> list[CopySpan]:
    """Return for each offset the best copy that has it. Offsets that no copy has are missing."""
    bounds = set(agreed)
    for copy in copies:
        bounds.add(copy.start_offset)
        for missing in copy.missing:
            bounds.update((missing.start_offset, missing.end_offset))
    missing_starts = [[missing.start_offset for missing in copy.missing] for copy in copies]

    def is_missing(copy: int, offset: int) -> bool:
        before = bisect_right(missing_starts[copy], offset) - 1
        return before >= 0 and offset < copies[copy].missing[before].end_offset

    spans: list[CopySpan] = []
    for start, end in pairwise(sorted(bounds)):
        usable = [copy for copy in ranking if copies[copy].start_offset <= start and end <= agreed[copy]]
        complete = (copy for copy in usable if not is_missing(copy, start))
        chosen = next(complete, usable[0] if usable else None)
        if chosen is None:
            continue
        if spans and spans[-1].copy == chosen and spans[-1].end_offset == start:
            start = spans.pop().start_offset
        spans.append(CopySpan(start, end, chosen))
    return spans


def _connected(spans: Sequence[CopySpan], end_offset: int) -> list[CopySpan]:
    """Return the last spans that reach `end_offset` without a gap."""
    connected: list[CopySpan] = []
    for span in reversed(spans):
        if span.end_offset != end_offset:
            break
        connected.append(span)
        end_offset = span.start_offset
    return connected[::-1]
