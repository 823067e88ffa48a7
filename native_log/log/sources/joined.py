"""A log that is joined from several places, such as the copies of a partition.

Each offset is read from one place. If its bytes are damaged or missing there, other places that have the same
records supply it (see read_repair).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.log.changing_files import MOVED, retry_changed
from native_log.log.leader_history import agreed_end
from native_log.log.log_state import LogState, Relocated
from native_log.log.offset_span import OffsetSpan
from native_log.log.reading.split import split_by_offsets
from native_log.log.sliced_range import SlicedRange
from native_log.log.slices import Located
from native_log.log.sources.read_repair import ReadRepair
from native_log.segment.files import MAX_OFFSET
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.leader_history import History
    from native_log.log.log_state import LogSource
    from native_log.log.slices import SegmentSlice
    from native_log.log.sources.log_part import LogPart
    from native_log.policies import Gaps
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment
    from native_log.storage import Folder


@dataclass(frozen=True)
class JoinedState(LogState):
    """The state of a joined log. `segments` are those of all places, in the order of offsets.

    Attributes:
        slices: the bytes that hold the log, in which damage has not been looked for.
    """

    slices: tuple[SegmentSlice, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The number of bytes that hold the log."""
        return sum(each.size_bytes for each in self.slices)

    def end_position(self, segment: LogSegment) -> int:
        """Return the position at which reading `segment` stops, exclusive."""
        return max(each.end_position for each in self.slices if each.segment == segment)


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """A log whose parts are in several places. See LogSource for the other attributes.

    Attributes:
        leader: the place that messages name, and that has the partition's metadata.
        parts: where each offset is read, in the order of offsets. Offsets between parts are lost.
        spares: all places with records of the log, best first, and the offsets for which they agree with it.
        gaps: whether compaction explains offsets that no batch of a place has. If not, they are read from
            other places.
        log_start_offset: the first offset.
        log_end_offset: the offset after the last record.
        has_damaged_end: whether the place of the last part continues with damaged batches that no place has.
        doubtful_offset: the offset of its last batch, if that is not believed and counts as damaged.
        checkpoints: the checkpoint entries of the joined log.
        history: the leader epochs of merged copies; None: there is a single copy.
        join_again: returns the log as it is now, after files are gone; None: it is not joined again.
    """

    leader: LogSource
    parts: tuple[LogPart, ...]
    spares: tuple[LogPart, ...]
    gaps: Gaps
    log_start_offset: int
    log_end_offset: int
    has_damaged_end: bool
    doubtful_offset: int | None
    checkpoints: PartitionCheckpoints
    history: History | None = None
    join_again: Callable[[], JoinedSource] | None = None

    @property
    def path(self) -> str:
        """See LogSource."""
        return self.leader.path

    @property
    def folder(self) -> Folder:
        """See LogSource."""
        return self.leader.folder

    @property
    def topic(self) -> str:
        """See LogSource."""
        return self.leader.topic

    @property
    def partition(self) -> int:
        """See LogSource."""
        return self.leader.partition

    @property
    def max_batch_bytes(self) -> int:
        """See LogSource."""
        return self.leader.max_batch_bytes

    @property
    def repairs_damage(self) -> bool:
        """See LogSource."""
        return True

    def open(self) -> LogState:
        """See LogSource. If files are gone, join the log again; the state has the new source.

        Without `join_again`, raise FileNotFoundError, LogTruncatedError or OffsetOutOfRangeError instead.
        If a place has changed in another way, reading it raises LogTruncatedError.
        """
        try:
            return self._open()
        except MOVED:
            if self.join_again is None:
                raise
            return self.reopen()

    def reopen(self) -> LogState:
        """See LogSource. The log is read up to the same high watermark."""
        if self.join_again is None:
            return self.open()
        return retry_changed(self._joined_again, MOVED)

    def _joined_again(self) -> JoinedState:
        assert self.join_again is not None
        joined, known = self.join_again(), self.checkpoints
        checkpoints = replace(joined.checkpoints, high_watermark=known.high_watermark, live=known.live)
        return replace(joined, checkpoints=checkpoints)._open()

    def _open(self) -> JoinedState:
        sources = {self.leader.path: self.leader} | {part.source.path: part.source for part in self.parts}
        states = {path: source.open() for path, source in sources.items()}
        leader = states[self.leader.path]
        slices = self._whole_log(states)
        return JoinedState(
            self,
            tuple(dict.fromkeys(each.segment for each in slices)),
            leader.snapshots,
            # Bytes after the end of a place are not part of the joined log.
            replace(leader.tail, invalid_bytes=0),
            self.log_start_offset,
            self.log_end_offset,
            without_log=leader.without_log,
            slices=slices,
        )

    def lost(self, span: OffsetSpan) -> list[OffsetSpan]:
        """See LogSource."""
        held = span.intersection(OffsetSpan(self.log_start_offset, self.log_end_offset))
        lost, offset = [], held.start_offset
        for part in (*(each.span for each in self.parts), OffsetSpan(held.end_offset, held.end_offset)):
            gap = held.intersection(OffsetSpan(offset, max(offset, part.start_offset)))
            lost += [] if gap.is_empty else [gap]
            offset = max(offset, part.end_offset)
        return lost

    def locate(self, state: LogState, span: OffsetSpan) -> Located:
        """See LogSource."""
        assert isinstance(state, JoinedState)
        state.check_offset(span.start_offset)
        if span.is_empty:
            return Located(())
        start, end = self.log_start_offset, self.log_end_offset
        whole = SlicedRange(self, start, end, "read_uncommitted", state.slices)
        for part in split_by_offsets(whole, [span.start_offset, span.end_offset]):
            if part.start_offset == span.start_offset:
                return Located(part.slices)
        return Located(())

    def headers(
        self,
        state: LogState,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """See LogSource."""
        start = max(state.local_log_start_offset, start_offset or 0)
        span = OffsetSpan(start, state.log_end_offset)
        window = Window()
        for part in self.readable(state.locate(span).slices, span):
            with part.lookup(window, self.max_batch_bytes) as lookup:
                for scanned in lookup.batches(
                    part.start_position, on_damage, next_offset=part.next_offset, check_crcs=check_crcs
                ):
                    yield part.segment, scanned

    def readable(self, slices: Iterable[SegmentSlice], span: OffsetSpan) -> Iterator[SegmentSlice]:
        """See LogSource. Damaged bytes stay in the slices if no place has their records."""
        slices = tuple(slices)
        begin = min((spare.span.start_offset for spare in self.spares), default=MAX_OFFSET)
        count = sum(each.max_offset is not None and each.max_offset <= begin for each in slices)
        yield from slices[:count]  # nothing could replace their bytes
        if count and slices[count:]:
            span = OffsetSpan(max(span.start_offset, slices[count].first_offset), span.end_offset)
        if slices[count:] or not count:
            repair = ReadRepair(self.spares, self.gaps, self.path, self.log_end_offset, self.max_batch_bytes)
            yield from repair.slices(slices[count:], span)

    def without_repair(self) -> JoinedSource:
        """See LogSource."""
        return replace(self, spares=())

    def locate_again(
        self, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
    ) -> Relocated:
        """See LogSource. Without `join_again`, raise `error`: another plan might read other places."""
        del located
        if self.join_again is None:
            raise error
        state = self.reopen()
        start, end = state.local_log_start_offset, state.log_end_offset
        held = span.intersection(OffsetSpan(start, end))
        return Relocated(
            state.source, () if held.is_empty else state.locate(held).slices, self._find_loss(state, span)
        )

    def _find_loss(self, state: LogState, span: OffsetSpan) -> OSError | LogTruncatedError | None:
        """Return the error for records of `span` that the log no longer has; None if it has all of them."""
        now = state.source
        assert isinstance(now, JoinedSource)
        if self.history is not None and now.history is not None:
            same_end = agreed_end(now.history, self.history)
            if same_end is not None and same_end < span.end_offset:
                return LogTruncatedError(
                    f"the log was truncated while it was read: it has other records from offset {same_end} "
                    "on. Plan the read again",
                    path=self.path,
                    offset=span.start_offset,
                )
        start, end = state.local_log_start_offset, state.log_end_offset
        lost = [*now.lost(span)]
        if span.start_offset < start:
            lost.insert(0, OffsetSpan(span.start_offset, min(span.end_offset, start)))
        if span.end_offset > end:
            lost.append(OffsetSpan(max(span.start_offset, end), span.end_offset))
        if not lost:
            return None
        return FileNotFoundError(
            f"{self.path}: a segment was removed while it was read (by retention, or by hand): offsets "
            f"{lost[0].start_offset} to {lost[-1].end_offset - 1} are gone. Plan the read again"
        )

    def _whole_log(self, states: Mapping[str, LogState]) -> tuple[SegmentSlice, ...]:
        """Return the slices of the whole log, in which damage has not been looked for.

        Args:
            states: the places, by path.
        """
        slices: list[SegmentSlice] = []
        for part in self.parts:
            state, start, end = states[part.source.path], part.span.start_offset, part.span.end_offset
            limit = MAX_OFFSET
            if self.has_damaged_end and part is self.parts[-1]:
                end = state.log_end_offset  # so that a reader reports the damage
                limit = limit if self.doubtful_offset is None else self.doubtful_offset
            slices += (
                replace(
                    each,
                    segment=replace(each.segment, end_offset=min(each.segment.end_offset, limit)),
                    min_offset=start,
                    max_offset=part.span.end_offset,
                )
                for each in state.locate(OffsetSpan(start, end)).slices
            )
        return tuple(slices)
