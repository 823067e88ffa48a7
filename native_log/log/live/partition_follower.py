"""Read a log as it grows: what is new since the last read, and what was lost before it could be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, LogTruncatedError, LostOffsetsError, OffsetOutOfRangeError
from native_log.log.changing_files import MOVED
from native_log.log.outdated_segment import missing_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import IsolationLevel
    from native_log.log.live.any_live_log import AnyLiveLog
    from native_log.log.live.live_files import LogChange
    from native_log.log.reading.log_range import LogRange
    from native_log.log.reading.options import ReadArguments

logger = logging.getLogger(__name__)

_ADVICE = "follow again from {}, or set fail_on_data_loss=False to continue there with a warning"


class PartitionFollower:
    """A position in a log that is kept up to date.

    Attributes:
        log: the log.
        position: the offset of the next record to read.
        is_behind: whether the log has to be refreshed before its new records can be read.
    """

    @classmethod
    def begin(
        cls,
        log: AnyLiveLog,
        start_offset: int | None,
        isolation_level: IsolationLevel,
        options: ReadArguments,
    ) -> PartitionFollower:
        """Begin at `start_offset`, or at the current end if it is None.

        Raises OffsetOutOfRangeError; ValueError for an unknown isolation level.
        """
        end = log.log.end_offset(isolation_level)
        if start_offset is not None:
            log.log.state.check_offset(start_offset)
        return cls(log, end if start_offset is None else start_offset, isolation_level, options)

    def __init__(
        self,
        log: AnyLiveLog,
        position: int,
        isolation_level: IsolationLevel,
        options: ReadArguments,
    ) -> None:
        """Begin at `position`. `options`: see LogRange.read."""
        self.log = log
        self.position = position
        self.is_behind = False
        self._isolation_level = isolation_level
        self._options = options

    def apply(self, change: LogChange) -> None:
        """Take note of what a refresh of the log found.

        Raises LogTruncatedError if records that were read are gone or different (with `fail_on_data_loss`).
        """
        start = self.log.log.local_log_start_offset
        if change.is_recreated:
            self._lose(
                LogTruncatedError,
                f"the topic was deleted and created again after its records up to offset {self.position} "
                "(exclusive) were read; later records of the deleted topic are lost",
                start,
            )
        elif change.truncated_to is not None and change.truncated_to < self.position:
            self._lose(
                LogTruncatedError,
                f"the log was truncated to offset {change.truncated_to} after its records up to offset "
                f"{self.position} (exclusive) were read, as after an unclean leader election; other records "
                "have these offsets now, or will have them",
                max(start, change.truncated_to),
            )

    def take(self) -> LogRange | None:
        """Return the records that are new, and go on to the position after them; None if there are none.

        If files have changed since the last refresh, return None, and set `is_behind`. If that happens twice
        in a row, raise the error.

        Raises:
            OffsetOutOfRangeError: records were deleted before they were read (with `fail_on_data_loss`).
            LostOffsetsError: records are missing, as in an incomplete copy (with `fail_on_data_loss`).
            FileNotFoundError, LogTruncatedError: see ReadableLog.range.
        """
        was_behind, self.is_behind = self.is_behind, False
        start = self.log.log.local_log_start_offset
        if self.position < start:
            self._lose(
                OffsetOutOfRangeError,
                f"the records from offset {self.position} to {start} (exclusive) were deleted before they "
                "were read, by retention or DeleteRecords",
                start,
            )
        end = self.log.log.end_offset(self._isolation_level)
        if self.position >= end:
            return None
        try:
            taken = self.log.log.range(self.position, end, isolation_level=self._isolation_level)
            missing = missing_start(self.log.log.state, taken)
        except MOVED:
            if was_behind:
                raise
            self.is_behind = True  # the next refresh shows what is lost
            return None
        if missing is not None:
            self._lose(LostOffsetsError, missing, taken.slices[0].first_offset if taken.slices else end)
        self.position = end
        return taken

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the records that are new. Raises as `take`, and as LogRange.read."""
        taken = self.take()
        if taken is not None:
            yield from taken.read(columns, **self._options)

    def _lose(self, error: type[KafkaLogError], message: str, continue_at: int) -> None:
        message = f"{self.log.log.topic}-{self.log.log.partition}: {message}"
        if self._options.get("fail_on_data_loss", True):
            advice = _ADVICE.format(f"offset {continue_at}")
            raise error(f"{message}; {advice}", path=self.log.path, offset=self.position)
        logger.warning("%s: %s; continued at offset %d", self.log.path, message, continue_at)
        self.position = continue_at
