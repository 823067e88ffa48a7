"""The records of a whole log whose end has not been looked up yet.

Finding the end of a log means reading its last segment, which takes at least one request for each log in a
bucket. A plan for many logs leaves this to the tasks, which read the segments anyway.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.log.changing_files import CHANGED
from native_log.log.listing import LogListing, tail_of
from native_log.log.missing_segments import missing_segments
from native_log.log.offset_span import OffsetSpan
from native_log.log.readable_log import report_missing_end
from native_log.log.reading.log_range import LogRange
from native_log.log.reading.split import split_between_slices, split_by_bytes
from native_log.log.sliced_range import SlicedRange
from native_log.log.tail import Tail
from native_log.segment.files import MAX_OFFSET
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from native_log.log.sources.directory import DirectorySource
    from native_log.storage import KnownFile

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnboundedRange(SlicedRange):
    """The records of a log from `start_offset` to the end of its files. See SlicedRange for the attributes.

    The range ends where the files ended when they were listed, even if they have grown since. Until that
    offset is known, `end_offset` is MAX_OFFSET.

    Attributes:
        snapshots: the newest producer snapshot, which shows whether the log has lost its end: see LogListing.
        end_of_empty_segment: the end of the log if its last segment is empty; None if that has bytes.
        last_index: the offset index of the last segment as it was listed; None if nothing is known of it.
    """

    source: DirectorySource
    snapshots: tuple[tuple[int, str], ...] = ()
    end_of_empty_segment: int | None = None
    last_index: KnownFile | None = None

    @classmethod
    def of(cls, source: DirectorySource, listing: LogListing) -> UnboundedRange | None:
        """Return the records of a whole log, to be read with the isolation level "read_uncommitted".

        Return None if the log's checkpoints set an end, or if the start of the log or segments are missing.
        """
        last = listing.segments[-1] if listing.segments else None
        state = source.state(listing, Tail(0 if last is None else last.size_bytes, MAX_OFFSET))
        if state.checkpoints.live or state.missing_start is not None:
            return None
        if state.without_log or missing_segments(state):
            return None
        start = state.local_log_start_offset
        located = state.locate(OffsetSpan(start, MAX_OFFSET))
        return cls(
            *(source, start, MAX_OFFSET, "read_uncommitted", located.slices, located.earlier),
            listing.snapshots[:1],
            None if last is None or last.size_bytes else last.base_offset,
            None if last is None else last.listed_index(),
        )

    def split(self, max_bytes: int) -> list[LogRange | UnboundedRange]:
        """Split between batches, as LogRange.split does. Only the end of the last part is unknown."""
        return _with_ends(split_by_bytes(self, max_bytes))

    def split_slices(self) -> list[LogRange | UnboundedRange]:
        """Split into ranges of one slice each. Only the end of the last part is unknown."""
        return _with_ends(split_between_slices(self))

    def bounded(self, *, fail_on_data_loss: bool) -> LogRange:
        """Find the end, and return the range with it. Log a warning if the end of the log is damaged.

        Args:
            fail_on_data_loss: whether to raise an error if the last segment was replaced or truncated.
                Otherwise log a warning, and read up to the present end of the log.

        Raises:
            LogTruncatedError: see `fail_on_data_loss`.
            OSError: a file cannot be read.
        """
        if not self.slices:
            return self._until(self.start_offset, 0)
        last = self.slices[-1]
        try:
            tail = self._tail()
        except CHANGED as error:
            return self._until(self._end_after_change(error, fail_on_data_loss), last.end_position)
        state = self.source.state(LogListing((last.segment,), self.snapshots), tail)
        report_missing_end(state)
        return self._until(state.log_end_offset, state.end_position(last.segment))

    def _tail(self) -> Tail:
        """Find the end of the last segment with records."""
        segment = self.slices[-1].segment
        if self.end_of_empty_segment is not None:
            return Tail(segment.size_bytes, self.end_of_empty_segment)
        clean_shutdown = self.source.checkpoints.clean_shutdown
        return tail_of(segment, clean_shutdown, self.max_batch_bytes, self.last_index)

    def _end_after_change(self, error: OSError | LogTruncatedError, fail_on_data_loss: bool) -> int:
        """Return the offset at which the last segment ended when it was listed."""
        listed = self.slices[-1].segment
        state = self.source.open()
        for segment in state.segments:
            if segment.base_offset == listed.base_offset and segment.size_bytes >= listed.size_bytes:
                end, limit = listed.size_bytes, self.max_batch_bytes
                with SegmentLookup(segment, end, Window(), max_batch_bytes=limit) as lookup:
                    return lookup.find_offset(MAX_OFFSET).next_offset
        message = f"expected {listed.log} to be as it was listed, or longer, found it replaced or truncated"
        if fail_on_data_loss:
            raise LogTruncatedError(
                f"{message}: the planned end of the log can no longer be found; read again, or set "
                "fail_on_data_loss=False to read up to its present end",
                path=listed.path,
            ) from error
        logger.warning("%s: %s; reading up to the present end of the log", listed.path, message)
        return state.log_end_offset

    def _until(self, end_offset: int, end_position: int) -> LogRange:
        """Return the range up to an offset, and up to a position of its last slice."""
        slices = self.slices
        if slices and slices[-1].end_position > end_position:
            last = replace(slices[-1], end_position=end_position)
            slices = (*slices[:-1], *([last] if last.size_bytes > 0 else []))
        end = max(self.start_offset, end_offset)
        return LogRange(self.source, self.start_offset, end, self.isolation_level, slices, self.earlier)


def _with_ends(parts: list[UnboundedRange]) -> list[LogRange | UnboundedRange]:
    """Set the ends of all parts of a range except the last."""
    *others, last = parts
    return [*(each._until(each.end_offset, each.slices[-1].end_position) for each in others), last]
