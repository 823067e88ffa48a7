"""Find the transactions of a log from its markers. Where bytes are damaged, `.txnindex` files help.

A `.txnindex` file can be missing without notice: it is written after the log, and a copy may leave it out.
Markers cannot be missing: compaction keeps each marker as long as a batch of its transaction is left. So the
batch headers are used, which needs no decompression.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import CorruptIndexError
from native_log.log.producers.open_transactions import (
    ABORT,
    OpenTransactions,
    Transaction,
    transactional_rows,
)
from native_log.log.producers.producer_state import parse_snapshot
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from native_log.log.log_state import LogState
    from native_log.log.sliced_range import SlicedRange
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

logger = logging.getLogger(__name__)

TRANSACTION_SCHEMA = pa.schema(
    [
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("firstOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("state", pa.string()),
        ("lastStableOffset", pa.int64()),
    ]
)
"""The attributes of Transaction. `lastOffset` and `lastStableOffset` are null while a transaction is open."""

_TRIPLE = struct.Struct("=qqq")
"""producerId, firstOffset, lastOffset."""
_NO_MARKER = 2**63 - 1


def all_transactions(log: LogState, on_damage: Callable[[DamagedRange], None]) -> list[Transaction]:
    """Return the transactions that have data in the log.

    Ended transactions come first, by the offset of their markers, then open ones, by their first offset.
    """
    open_transactions = OpenTransactions()
    transactions = []
    for _, scanned in log.headers(log.local_log_start_offset, on_damage):
        transactions += open_transactions.apply(scanned.batches)
    for producer_id, (first_offset, epoch) in sorted(
        open_transactions.first_offsets.items(), key=lambda item: item[1]
    ):
        transactions.append(Transaction(producer_id, epoch, first_offset, None, "open", None))
    return transactions


def transactions_table(transactions: list[Transaction]) -> pa.Table:
    """Return the transactions as a table of TRANSACTION_SCHEMA."""
    columns = zip(
        *(
            (t.producer_id, t.producer_epoch, t.first_offset, t.last_offset, t.state, t.last_stable_offset)
            for t in transactions
        ),
        strict=True,
    )
    arrays = [list(column) for column in columns] or [[] for _ in TRANSACTION_SCHEMA]
    return pa.table(arrays, schema=TRANSACTION_SCHEMA)


def last_stable_offset(log: LogState) -> int:
    """Return the last stable offset of the log.

    It is the first offset of the oldest transaction that is undecided below the high watermark: one that is
    open, or whose marker lies at or above the high watermark. If there is none, it is the high watermark.
    """
    start, open_transactions = initial_state(log)
    undecided = []
    for _, scanned in log.headers(start, lambda _: None):
        ended = open_transactions.apply(scanned.batches)
        undecided += [t.first_offset for t in ended if (t.last_offset or 0) >= log.high_watermark]
    undecided += [offset for offset, _ in open_transactions.first_offsets.values()]
    return max(log.local_log_start_offset, min([log.high_watermark, *undecided]))


def initial_state(log: LogState) -> tuple[int, OpenTransactions]:
    """Return the offset and the open transactions of the newest valid snapshot.

    If there is none, return the log start offset and no transactions. Snapshots above the high watermark are
    not used: they do not contain transactions that ended above it, which a consumer must see as undecided.
    """
    for offset, name in log.usable_snapshots:
        if log.local_log_start_offset <= offset <= log.high_watermark:
            try:
                entries = parse_snapshot(log.source.folder.read(name))
            except (CorruptIndexError, FileNotFoundError) as error:
                logger.warning(
                    "%s/%s: ignored, an older snapshot or the log itself is used: %s", log.path, name, error
                )
                continue
            return offset, OpenTransactions(
                {
                    e.producer_id: (e.current_txn_first_offset, e.producer_epoch)
                    for e in entries
                    if e.current_txn_first_offset >= 0
                }
            )
    return log.local_log_start_offset, OpenTransactions()


def aborted_ranges(
    range: SlicedRange, on_damage: Callable[[DamagedRange], None], *, only_valid: bool
) -> bytes:
    """Return the aborted transactions that have data in `range`, packed for `records.decode`.

    The headers in the range are read first, then those after the range, until each transaction that is open
    at the end of the range has its marker. The next marker of a producer decides about all its batches before
    it. If bytes are damaged, which may have held a marker, the `.txnindex` files decide, as in a broker. They
    also decide for markers after the range, because the reader of the range does not check those.

    Args:
        range: the range that is read.
        on_damage: called with each damaged range after `range`, where a marker may have been lost.
        only_valid: treat batches in the range with a wrong CRC as damaged.
    """
    open_transactions = OpenTransactions()
    window = Window()
    aborted: list[tuple[int, int, int]] = []
    segments: dict[str, LogSegment] = {}
    damaged_paths: set[str] = set()

    def note(damaged: DamagedRange) -> None:  # the reader of the range reports it
        damaged_paths.add(damaged.path)

    def note_after_range(damaged: DamagedRange) -> None:
        note(damaged)
        on_damage(damaged)

    for part in range.readable_slices():
        segments[str(part.segment.path)] = part.segment
        with part.lookup(window, range.max_batch_bytes) as lookup:
            for scanned in lookup.batches(
                part.start_position, note, next_offset=part.next_offset, only_valid=only_valid
            ):
                aborted += [
                    (t.producer_id, t.first_offset, t.last_offset or 0)
                    for t in open_transactions.apply(scanned.batches)
                    if t.state == "aborted"
                ]
    pending = {producer: first for producer, (first, _) in open_transactions.first_offsets.items()}
    if pending:
        log = range.source.open()
        aborted += _aborted_later(log, range.end_offset, pending, segments, note_after_range)
        if damaged_paths:  # a segment may have no batches, only damage
            segments |= {path: each for each in log.segments if (path := str(each.path)) in damaged_paths}
    if damaged_paths:
        aborted = _as_indexed(aborted, segments.values())
    return pack_ranges(without_overlaps(aborted))


def _aborted_later(
    log: LogState,
    start_offset: int,
    pending: dict[int, int],
    segments: dict[str, LogSegment],
    on_damage: Callable[[DamagedRange], None],
) -> list[tuple[int, int, int]]:
    """Return which transactions markers at or above an offset abort.

    Args:
        pending: the first offsets of the transactions, by producer id.
        segments: receives the segments that are read, by path.
    """
    left, aborted = dict(pending), []
    later: dict[str, LogSegment] = {}
    for segment, scanned in log.headers(start_offset, on_damage):
        later[str(segment.path)] = segment
        for producer, _, offset, is_control, control_type in transactional_rows(scanned.batches):
            if is_control and control_type is not None and producer in left:
                first = left.pop(producer)
                if control_type == ABORT:
                    aborted.append((producer, first, offset))
        if not left:
            break
    segments |= later
    indexed = [
        (producer, max(first, pending[producer]), last)
        for producer, first, last in _as_indexed(aborted, later.values())
        if producer in pending and last >= start_offset
    ]
    # Without a marker, a transaction is not committed.
    return indexed + [(producer, first, _NO_MARKER) for producer, first in left.items()]


def _as_indexed(
    aborted: Iterable[tuple[int, int, int]], segments: Iterable[LogSegment]
) -> list[tuple[int, int, int]]:
    """Return aborted transactions with those in the indexes of segments, and with the first offsets there."""
    firsts = {(producer, last): first for producer, first, last in aborted}
    for segment in segments:
        for txn in segment.load_transaction_index().entries:
            firsts[txn.producer_id, txn.last_offset] = txn.first_offset
    return [(producer, first, last) for (producer, last), first in firsts.items()]


def without_overlaps(aborted: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Sort (producer id, first offset, last offset), and join those of one producer that overlap."""
    joined: list[tuple[int, int, int]] = []
    for producer, first, last in sorted(aborted):
        if joined and joined[-1][0] == producer and first <= joined[-1][2]:
            last = max(last, joined[-1][2])
            first = joined.pop()[1]
        joined.append((producer, first, last))
    return joined


def pack_ranges(aborted: Iterable[tuple[int, int, int]]) -> bytes:
    """Pack sorted (producer id, first offset, last offset) of aborted transactions for `records.decode`."""
    return b"".join(_TRIPLE.pack(*transaction) for transaction in aborted)


def unpack_ranges(packed: bytes) -> list[tuple[int, int, int]]:
    """Return the (producer id, first offset, last offset) that `pack_ranges` packed."""
    return list(_TRIPLE.iter_unpack(packed))
