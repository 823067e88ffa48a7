"""Find the open transactions of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.producers.transactions import initial_state
from native_log.reporting.batches import headers, time_of_offset
from native_log.reporting.figures import OpenTransaction

if TYPE_CHECKING:
    from native_log.log import PartitionLog
    from native_log.log.producers.open_transactions import OpenTransactions


def find_open_transactions(log: PartitionLog, max_bytes: int) -> tuple[OpenTransaction, ...] | None:
    """Return the transactions that are open at the end of the log, if that takes little time.

    The newest snapshot of the producers' state contains those that were open when it was written. The batches
    after it must be read. A broker writes a snapshot when it rolls a segment and when it shuts down cleanly.

    Args:
        log: the log.
        max_bytes: the size of the active segment up to which it is read.

    Returns:
        The transactions, by first offset; None if more than that follows the snapshot.
    """
    start, undecided = initial_state(log.state)
    if start < log.log_end_offset:
        active = log.segments[-1]
        if active.size_bytes > max_bytes or start < max(active.base_offset, log.local_log_start_offset):
            return None
    return _apply_rest(log, start, undecided)


def all_open_transactions(log: PartitionLog) -> tuple[OpenTransaction, ...]:
    """Return the transactions that are open at the end of the log, however many batches must be read."""
    return _apply_rest(log, *initial_state(log.state))


def _apply_rest(log: PartitionLog, start: int, undecided: OpenTransactions) -> tuple[OpenTransaction, ...]:
    """Apply the batches from offset `start` on, and describe the transactions that are still open."""
    if start < log.log_end_offset:
        for batches in headers(log, start):
            undecided.apply(batches)
    return describe_open_transactions(log, undecided)


def describe_open_transactions(log: PartitionLog, undecided: OpenTransactions) -> tuple[OpenTransaction, ...]:
    """Return the open transactions with the times of their first batches."""
    return tuple(
        OpenTransaction(producer_id, epoch, first_offset, time_of_offset(log, first_offset))
        for producer_id, (first_offset, epoch) in sorted(
            undecided.first_offsets.items(), key=lambda item: item[1]
        )
    )
