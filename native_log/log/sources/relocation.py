"""Locate records again after a broker has removed, replaced or truncated files while they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.log.log_state import Relocated
from native_log.log.offset_span import OffsetSpan
from native_log.segment.files import parse_file_name

if TYPE_CHECKING:
    from native_log.log.log_state import LogState
    from native_log.log.slices import Located


def relocate(
    state: LogState, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
) -> Relocated:
    """Return where the records of `span` are in the state of the log after `error`.

    The other arguments are those of LogSource.locate_again.
    """
    loss = _find_loss(state, located, span, error)
    held = span.intersection(OffsetSpan(state.local_log_start_offset, state.log_end_offset))
    if loss is None:
        held = span
    return Relocated(state.source, () if held.is_empty else state.locate(held).slices, loss)


def _find_loss(
    state: LogState, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
) -> OSError | LogTruncatedError | None:
    """Return the error for records that are gone; None if there are none."""
    start, end = span.start_offset, span.end_offset
    if end > state.log_end_offset:
        return LogTruncatedError(
            f"the log was truncated while it was read: it reached offset {end} and now ends at "
            f"{state.log_end_offset}. Plan the read again",
            path=state.path,
            offset=start,
        )
    if isinstance(error, LogTruncatedError) and _is_truncated(error, state, located):
        return LogTruncatedError(
            f"the file was truncated while it was read, and records from offset {start} on are lost. "
            "Plan the read again",
            path=error.path,
            offset=start,
        )
    if start < state.local_log_start_offset or _is_lost(error, state, located):
        return FileNotFoundError(
            f"{state.path}: a segment was removed while it was read, with the records from offset "
            f"{start} on (by retention, DeleteRecords or by hand). Plan the read again from the "
            "log's start"
        )
    return None


def _is_truncated(error: LogTruncatedError, state: LogState, located: Located) -> bool:
    """Return whether a file is shorter than it was when the read was planned.

    The inode shows whether it is the same file: a broker's cleaner replaces a file by another one.
    """
    name = str(error.path).rpartition("/")[2]
    planned = next((each.segment for each in located.slices if each.segment.log == name), None)
    current = next((segment for segment in state.segments if segment.log == name), None)
    if planned is None or current is None:
        return False
    return current.inode == planned.inode and current.size_bytes < planned.size_bytes


def _is_lost(error: Exception, state: LogState, located: Located) -> bool:
    """Return whether a segment was removed and not merged with others.

    A broker's cleaner merges segments into a new file with the name of the first of them. So if the
    offsets of the removed segment now belong to a segment whose file existed before, nothing was merged.
    Segments before that one are not evidence: a cleaner may rewrite a file with the same size and time.
    """
    if not isinstance(error, FileNotFoundError):
        return False
    removed = parse_file_name(str(error.filename).rpartition("/")[2])
    if removed is None:
        return False
    before = next((s for s in reversed(state.segments) if s.base_offset <= removed.offset), None)
    if before is None or before.base_offset == removed.offset:
        return False
    return before.id in {*located.earlier, *(each.segment.id for each in located.slices)}
