"""Find the offset from which a log was truncated and written again, after an unclean leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import end_offset_for_epoch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.checkpoints.leader_epochs import EpochEntry


def diverged(
    position: int,
    epoch_at_position: int | None,
    entries: Sequence[EpochEntry],
    log_end_offset: int,
    *,
    read_entries: Sequence[EpochEntry] = (),
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
        read_entries: the leader epochs when the records were read, if they are known.

    Returns:
        An offset below `position`. If the log has lost the epoch of the record altogether, and `read_entries`
        are not given, the records may be different from a lower offset on.
    """
    shorter = log_end_offset if log_end_offset < position else None
    if position == 0 or epoch_at_position is None:
        return shorter
    end = end_offset_for_epoch(entries, epoch_at_position, log_end_offset)
    if end is None or (end.end_offset >= position and end.epoch >= epoch_at_position):
        return shorter
    offsets = [end.end_offset, position - 1, log_end_offset]
    epoch = epoch_at_position
    while end is not None and end.epoch < epoch:
        # Both have the epoch `end.epoch`, but not the same part of it (KIP-279). Or only the log now has it:
        # then an earlier epoch is compared, as a follower asks its leader again.
        known = end_offset_for_epoch(read_entries, end.epoch, position)
        if known is None:
            break
        offsets.append(known.end_offset)
        if known.epoch == end.epoch:
            break
        epoch = known.epoch
        end = end_offset_for_epoch(entries, epoch, log_end_offset)
        if end is not None:
            offsets.append(end.end_offset)
    return min(offsets)
