"""Find the offset from which a log was truncated and written again, after an unclean leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import end_offset_for_epoch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.checkpoints.leader_epochs import EpochEntry


def diverged(
    position: int, epoch_at_position: int | None, entries: Sequence[EpochEntry], log_end_offset: int
) -> int | None:
    """Return the first offset that is no longer the one that was read; None if all are the same.

    Two logs that have the same epoch at an offset are equal up to it. So a log that was truncated has another
    epoch at the offsets that were written again, even if it has grown beyond them since. Kafka's consumers
    check their positions in the same way (KIP-320: OffsetsForLeaderEpochUtils, Fetcher.validateOffsets).

    Args:
        position: the offset after the last record that was read.
        epoch_at_position: the leader epoch of that record; None or -1: unknown, as before Kafka 0.11. Then
            only a log that ends before `position` is noticed.
        entries: the leader epochs of the log now, read after its end was found.
        log_end_offset: the end of the log now.

    Returns:
        An offset below `position`. If the log has nothing of the epoch of the record, it may be too high: the
        records before `position` are then different from an unknown offset on.
    """
    found = None
    if position > 0 and epoch_at_position is not None:
        end = end_offset_for_epoch(entries, epoch_at_position, log_end_offset)
        if end is not None and (end.end_offset < position or end.epoch < epoch_at_position):
            found = min(end.end_offset, position - 1)
    if log_end_offset < position:
        found = log_end_offset if found is None else min(found, log_end_offset)
    return found
