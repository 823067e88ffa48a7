"""Maintain the last stable offset of a log that grows, from the batch headers that are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.producers.transactions import initial_state
from native_log.segment.scan import first_at_least

if TYPE_CHECKING:
    from native_log.log.log_state import LogState


class StableOffset:
    """The last stable offset, and the transactions that are open at the high watermark.

    A transaction whose marker lies above the high watermark is undecided. So headers are read up to the high
    watermark only, each of them once.

    Attributes:
        end_offset: the offset up to which (exclusive) headers were read.
    """

    def __init__(self, log: LogState) -> None:
        """Start at the newest producer state snapshot, or at the start of the log."""
        self.end_offset, self._open = initial_state(log)

    def advance(self, log: LogState) -> int:
        """Read the headers up to the high watermark, and return the last stable offset.

        Raises FileNotFoundError, LogTruncatedError if a file was removed or truncated meanwhile. The call can
        be repeated with the log's new state.
        """
        high_watermark = log.high_watermark
        if self.end_offset < log.local_log_start_offset:
            # The markers in the segments that were removed are unknown.
            self.end_offset, self._open = initial_state(log)
        if self.end_offset < high_watermark:
            self._read(log, high_watermark)
            self.end_offset = high_watermark
        undecided = (offset for offset, _ in self._open.first_offsets.values())
        return max(log.local_log_start_offset, min([high_watermark, *undecided]))

    def _read(self, log: LogState, end: int) -> None:
        for _, scanned in log.headers(self.end_offset, lambda _: None):
            batches = scanned.batches
            index = first_at_least(batches, "lastOffset", end)
            if index is None:
                self._open.apply(batches)
                continue
            # A batch that contains the high watermark is applied now, and again with the next headers.
            is_split = (batches.column("baseOffset")[index].as_py() or 0) < end
            self._open.apply(batches.slice(0, index + is_split))
            return
