"""Transactions of a log, from its markers: exact whether or not a `.txnindex` tells of them.

A `.txnindex` may be missing without a sign that it is: it is written after the log, and lost by a copy that
leaves it out. Markers cannot: the cleaner keeps each one as long as a batch of its transaction is left. So
the headers decide, which costs no decompression.
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
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from native_log.log.local_log import LocalLog
    from native_log.log.segment_slices import SlicedRange
    from native_log.segment.damage import DamagedRange

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
"""See Transaction. `lastOffset` and `lastStableOffset` are null while a transaction is open."""

_TRIPLE = struct.Struct("=qqq")
"""producerId, firstOffset, lastOffset."""
_NO_MARKER = 2**63 - 1


def all_transactions(log: LocalLog, on_damage: Callable[[DamagedRange], None]) -> list[Transaction]:
    """Every transaction that the log has data of: the ended ones by the offset of their markers, then the
    open ones."""
    open_transactions = OpenTransactions()
    found = []
    for _, scanned in log.headers(log.local_log_start_offset, on_damage):
        found += open_transactions.apply(scanned.batches)
    for producer_id, (first_offset, epoch) in sorted(
        open_transactions.first_offsets.items(), key=lambda item: item[1]
    ):
        found.append(Transaction(producer_id, epoch, first_offset, None, "open", None))
    return found


def transactions_table(transactions: list[Transaction]) -> pa.Table:
    """As a table of TRANSACTION_SCHEMA."""
    columns = zip(
        *(
            (t.producer_id, t.producer_epoch, t.first_offset, t.last_offset, t.state, t.last_stable_offset)
            for t in transactions
        ),
        strict=True,
    )
    arrays = [list(column) for column in columns] or [[] for _ in TRANSACTION_SCHEMA]
    return pa.table(arrays, schema=TRANSACTION_SCHEMA)


def last_stable_offset(log: LocalLog) -> int:
    """The high watermark, or below it the first offset of the oldest transaction that is open, or ends at or
    above it.
    """
    start, open_transactions = _state_to_begin_with(log)
    undecided = []
    for _, scanned in log.headers(start, lambda _: None):
        ended = open_transactions.apply(scanned.batches)
        undecided += [t.first_offset for t in ended if (t.last_offset or 0) >= log.high_watermark]
    undecided += [offset for offset, _ in open_transactions.first_offsets.values()]
    return max(log.local_log_start_offset, min([log.high_watermark, *undecided]))


def _state_to_begin_with(log: LocalLog) -> tuple[int, OpenTransactions]:
    """The newest snapshot that can be read, and the offset it tells of; else the log's start and nothing.

    None from above the high watermark: it has forgotten the transactions that ended between the two, and what
    ended there is not decided for a consumer.
    """
    for offset, name in log.snapshots:
        if log.local_log_start_offset < offset <= log.high_watermark:
            path = f"{log.path}/{name}"
            try:
                entries = parse_snapshot(read_file(path))
            except (CorruptIndexError, FileNotFoundError) as error:
                logger.warning("%s: not used, an older one or the log itself is: %s", path, error)
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
    range: SlicedRange, open_log: Callable[[], LocalLog], on_damage: Callable[[DamagedRange], None]
) -> bytes:
    """The aborted transactions that have data in `range`, as `records.decode` takes them.

    A pass over the range's own headers, and a look ahead at those behind it until every transaction open
    there met its marker: the next marker of a producer decides about all its batches before.

    Args:
        open_log: opens the log, if a look ahead is needed.
        on_damage: called with damage met while looking ahead, where a marker may have been lost.
    """
    open_transactions = OpenTransactions()
    window = Window()
    aborted: list[tuple[int, int, int]] = []
    for piece in range.slices:
        with SegmentLookup(
            piece.to_segment(range.path), piece.end_position, window, max_batch_bytes=range.max_batch_bytes
        ) as lookup:
            piece.check_file(lookup.file)
            # What is damaged here is the reader's to report.
            for scanned in lookup.batches(
                piece.start_position, lambda _: None, next_offset=piece.next_offset
            ):
                aborted += [
                    (t.producer_id, t.first_offset, t.last_offset or 0)
                    for t in open_transactions.apply(scanned.batches)
                    if t.state == "aborted"
                ]
    pending = {producer: first for producer, (first, _) in open_transactions.first_offsets.items()}
    if pending:
        for _, scanned in open_log().headers(range.end_offset, on_damage):
            for producer, _, offset, is_control, control_type in transactional_rows(scanned.batches):
                if is_control and control_type is not None and producer in pending:
                    first = pending.pop(producer)
                    if control_type == ABORT:
                        aborted.append((producer, first, offset))
            if not pending:
                break
        # No marker, so not committed.
        aborted += [(producer, first, _NO_MARKER) for producer, first in pending.items()]
    return pack_ranges(sorted(aborted))


def pack_ranges(aborted: Iterable[tuple[int, int, int]]) -> bytes:
    """Ranges of aborted transactions, sorted, as `records.decode` takes them."""
    return b"".join(_TRIPLE.pack(*one) for one in aborted)


def unpack_ranges(packed: bytes) -> list[tuple[int, int, int]]:
    """What was packed: (producer id, first offset, last offset)."""
    return list(_TRIPLE.iter_unpack(packed))
