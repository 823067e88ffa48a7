"""The records of a whole log whose end nobody has looked up yet.

To find the end of a log, its last segment must be read. In a bucket, that is a request for each log. A plan
for many logs leaves it to the tasks, which read the segments anyway.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.log.listing import LogListing, tail_of
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

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnboundedRange(SlicedRange):
    """The records of a log from `start_offset` to the end of its files. See SlicedRange for the attributes.

    Its end is that of the files as they were listed, also if they have grown since. `end_offset` is
    MAX_OFFSET.

    Attributes:
        snapshots: see LogListing. They tell whether the log has lost its end.
        end_of_empty_segment: where the log ends if its last segment has no bytes; None: it has some.
    """

    source: DirectorySource
    snapshots: tuple[tuple[int, str], ...] = ()
    end_of_empty_segment: int | None = None

    @classmethod
    def of(cls, source: DirectorySource, listing: LogListing) -> UnboundedRange | None:
        """Return the records of a log that can be read without transactions ("read_uncommitted").

        None if its checkpoints limit it, or say that it has lost its start.
        """
        last = listing.segments[-1] if listing.segments else None
        state = source.state(listing, Tail(0 if last is None else last.size_bytes, MAX_OFFSET))
        if state.checkpoints.live or state.missing_start is not None:
            return None
        start = state.local_log_start_offset
        located = state.locate(OffsetSpan(start, MAX_OFFSET))
        return cls(
            *(source, start, MAX_OFFSET, "read_uncommitted", located.slices, located.earlier),
            listing.snapshots[:1],
            None if last is None or last.size_bytes else last.base_offset,
        )

    def split(self, max_bytes: int) -> list[LogRange | UnboundedRange]:
        """Split between batches, as LogRange.split. Only the last part has no known end."""
        return _with_ends(split_by_bytes(self, max_bytes))

    def split_slices(self) -> list[LogRange | UnboundedRange]:
        """Split into ranges of one slice each. Only the last part has no known end."""
        return _with_ends(split_between_slices(self))

    def bounded(self, *, fail_on_data_loss: bool) -> LogRange:
        """Find the end, and return the range with it. Log a warning if the end of the log is damaged.

        Args:
            fail_on_data_loss: whether to raise an error if the last segment was replaced or truncated.
                Otherwise log a warning, and read what is there now.

        Raises:
            LogTruncatedError: see `fail_on_data_loss`.
            OSError: a file cannot be read.
        """
        if not self.slices:
            return self._until(self.start_offset, 0)
        last = self.slices[-1]
        try:
            tail = self._tail()
        except (FileNotFoundError, LogTruncatedError) as error:
            return self._until(self._end_after_change(error, fail_on_data_loss), last.end_position)
        state = self.source.state(LogListing((last.segment,), self.snapshots), tail)
        report_missing_end(state)
        return self._until(state.log_end_offset, state.end_position(last.segment))

    def _tail(self) -> Tail:
        """Find the end of the last segment that has records."""
        segment = self.slices[-1].segment
        if self.end_of_empty_segment is not None:
            return Tail(segment.size_bytes, self.end_of_empty_segment)
        return tail_of(segment, self.source.checkpoints.clean_shutdown, self.max_batch_bytes)

    def _end_after_change(self, error: OSError | LogTruncatedError, fail_on_data_loss: bool) -> int:
        """Return the offset at which the last segment ended when it was listed."""
        listed = self.slices[-1].segment
        state = self.source.open()
        for segment in state.segments:
            if segment.base_offset == listed.base_offset and segment.size_bytes >= listed.size_bytes:
                end, limit = listed.size_bytes, self.max_batch_bytes
                with SegmentLookup(segment, end, Window(), max_batch_bytes=limit) as lookup:
                    return lookup.find_offset(MAX_OFFSET).next_offset
        message = f"expected {listed.log} as it was listed, or longer, found it replaced or truncated"
        if fail_on_data_loss:
            raise LogTruncatedError(
                f"{message}: where the log ended is not known any more; read again, or set "
                "fail_on_data_loss=False to read what is there now",
                path=listed.path,
            ) from error
        logger.warning("%s: %s; what is there now is read", listed.path, message)
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
    """Return the parts of a range with their ends, which only the last one does not have."""
    *others, last = parts
    return [*(each._until(each.end_offset, each.slices[-1].end_position) for each in others), last]
