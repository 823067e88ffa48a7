"""Which remote segments make up a log (Kafka: RemoteLogMetadataCache, RemoteLogLeaderEpochState).

A segment may have been copied twice, by an old and a new leader, with other bounds or with records that the
new leader does not have. Leader epochs decide: an offset is read from a segment that has it in the epoch in
which it is in the log.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry
from native_log.log.offset_span import OffsetSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.log.tiers.remote_segment import RemoteSegment


@dataclass(frozen=True, slots=True)
class RemotePart:
    """Offsets of a log, and the remote segment from which they are read."""

    segment: RemoteSegment
    span: OffsetSpan


def trace_lineage(
    segments: Sequence[RemoteSegment], epochs: Sequence[EpochEntry], span: OffsetSpan
) -> list[RemotePart]:
    """Return from which segments the offsets of a log are read, sorted. Offsets without a part are missing.

    Where Kafka finds a segment, that one is read. It finds none if a later and shorter copy has replaced a
    longer one. Then the copy that was finished last is read, of those with the offset.

    Args:
        segments: the segments that can be read, in the order in which their copies were finished.
        epochs: the leader epochs of the log, in order.
        span: the offsets to look for.
    """
    states = _states(segments)
    parts: list[RemotePart] = []
    ends = [*(each.start_offset for each in epochs), span.end_offset][1:]
    for entry, end in zip(epochs, ends, strict=True):
        state = states.get(entry.epoch)
        wanted = span.intersection(OffsetSpan(entry.start_offset, max(entry.start_offset, end)))
        if state is None:
            continue
        offset = wanted.start_offset
        while offset < wanted.end_offset:
            found = state.find(offset)
            if found is None:
                offset = state.next_start(offset, wanted.end_offset)
                continue
            segment, held = found
            part = RemotePart(segment, OffsetSpan(offset, min(held.end_offset, wanted.end_offset)))
            if parts and parts[-1].segment is segment and parts[-1].span.end_offset == offset:
                part = RemotePart(segment, OffsetSpan(parts.pop().span.start_offset, part.span.end_offset))
            parts.append(part)
            offset = part.span.end_offset
    return parts


def epochs_of(segments: Iterable[RemoteSegment], known: Sequence[EpochEntry]) -> tuple[EpochEntry, ...]:
    """Return the leader epochs of a log: those that are known, and before them those of its segments.

    An epoch that begins at or after a later one was truncated away.

    Args:
        segments: the segments of the log.
        known: the content of the log's leader-epoch-checkpoint, which may lack the earliest epochs.
    """
    starts: dict[int, int] = {}
    for segment in segments:
        for entry in segment.leader_epochs:
            starts[entry.epoch] = min(entry.start_offset, starts.get(entry.epoch, entry.start_offset))
    first = known[0] if known else None
    epochs = list(reversed(known))
    for epoch, start in sorted(starts.items(), reverse=True):
        if first is not None and epoch == first.epoch and start < first.start_offset:
            epochs[-1] = EpochEntry(epoch, start)
        elif (first is None or epoch < first.epoch) and (not epochs or start < epochs[-1].start_offset):
            epochs.append(EpochEntry(epoch, start))
    return tuple(reversed(epochs))


@dataclass(slots=True)
class _EpochState:
    """The segments with records of one leader epoch.

    Attributes:
        copies: all segments, and their offsets in the epoch, in the order in which they were finished.
        starts: the start offsets of `copies`, sorted.
        referenced: those that Kafka finds, by start offset.
        referenced_starts: their start offsets, sorted.
        highest_end: the greatest end offset in the epoch.
    """

    copies: list[tuple[RemoteSegment, OffsetSpan]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    referenced: dict[int, tuple[RemoteSegment, OffsetSpan]] = field(default_factory=dict)
    referenced_starts: list[int] = field(default_factory=list)
    highest_end: int = -1

    def add(self, segment: RemoteSegment, span: OffsetSpan) -> None:
        """Take the next segment (Kafka: handleSegmentWithCopySegmentFinishedState)."""
        starts = self.referenced_starts
        while starts and starts[-1] >= span.start_offset and self.highest_end <= span.end_offset:
            del self.referenced[starts.pop()]  # a copy of a former leader
        if span.start_offset not in self.referenced:
            insort(starts, span.start_offset)
        self.referenced[span.start_offset] = segment, span
        self.highest_end = max(self.highest_end, span.end_offset)
        self.copies.append((segment, span))
        insort(self.starts, span.start_offset)

    def find(self, offset: int) -> tuple[RemoteSegment, OffsetSpan] | None:
        """Return the segment from which an offset of the epoch is read, and its offsets in the epoch."""
        index = bisect_right(self.referenced_starts, offset) - 1
        if index >= 0:
            found = self.referenced[self.referenced_starts[index]]
            if offset < found[1].end_offset:
                return found
        others = (
            copy for copy in reversed(self.copies) if copy[1].start_offset <= offset < copy[1].end_offset
        )
        return next(others, None)

    def next_start(self, offset: int, end: int) -> int:
        """Return the first offset after `offset` at which a segment begins, at most `end`."""
        index = bisect_right(self.starts, offset)
        return min(end, self.starts[index]) if index < len(self.starts) else end


def _states(segments: Iterable[RemoteSegment]) -> dict[int, _EpochState]:
    states: dict[int, _EpochState] = {}
    for segment in segments:
        for each in segment.epoch_spans():
            states.setdefault(each.epoch, _EpochState()).add(segment, each.span)
    return states
