"""What the headers of a log tell a round of cleaning: who wrote it, and which transactions it has.

A survey grows with producers and transactions, not with batches. Parts of a log can be surveyed apart and
put together in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.compaction.header_checks import check_crcs
from native_log.compaction.verdicts import ProducerEnds
from native_log.log.producers.open_transactions import (
    ABORT,
    COMMIT,
    OpenTransactions,
    TransactionalRow,
    has_transactions,
    transactional_rows,
)
from native_log.segment.damage import DamagedRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from native_log.log import PartitionLog
    from native_log.log.producers.open_transactions import Transaction
    from native_log.segment.segment import LogSegment


@dataclass(slots=True)
class Survey:
    """What consecutive segments tell.

    Attributes:
        turns: of the transactional batches those that change what is open: each transaction's first one (of
            this part of the log) and the markers.
    """

    producers: ProducerEnds = field(default_factory=ProducerEnds)
    turns: list[TransactionalRow] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)

    def apply(self, batches: pa.RecordBatch) -> None:
        """Takes the batches (BATCH_SCHEMA) that follow."""
        greatest_id = pc.max(batches.column("producerId")).as_py()
        if greatest_id is None or greatest_id < 0:
            return
        self.producers.apply(batches)
        for turn in transactional_rows(batches):
            producer_id, _, _, is_control, control_type = turn
            if is_control:
                if control_type in (ABORT, COMMIT):
                    self._open.discard(producer_id)
                    self.turns.append(turn)
            elif producer_id not in self._open:
                self._open.add(producer_id)
                self.turns.append(turn)

    def add(self, following: Survey) -> None:
        """Takes what is known of the segments that follow."""
        self.producers.add(following.producers)
        self.turns += following.turns
        self._open = following._open

    def transactions(self) -> list[Transaction]:
        """Those that ended, in the order of their markers."""
        return OpenTransactions().apply_rows(self.turns)

    def open_at(self, offsets: list[int]) -> Iterator[frozenset[int]]:
        """The producers with a transaction open at each of these (ascending) offsets."""
        open_transactions = OpenTransactions()
        start = 0
        for offset in offsets:
            end = start
            while end < len(self.turns) and self.turns[end][2] < offset:
                end += 1
            open_transactions.apply_rows(self.turns[start:end])
            start = end
            yield frozenset(open_transactions.first_offsets)


class TransactionMetError(Exception):
    """Headers were looked at as those of a log without transactions, which it is not."""


class PlainSurvey:
    """A survey of a log that is taken to have no transactions, made while its keys are gathered.

    Attributes:
        survey: what was told so far.
    """

    def __init__(self) -> None:
        self.survey = Survey()

    def __call__(self, batches: pa.RecordBatch) -> None:
        """Takes the batches (BATCH_SCHEMA) that follow. Raises TransactionMetError."""
        if has_transactions(batches):
            raise TransactionMetError
        self.survey.apply(batches)


def survey(log: PartitionLog, first: int = 0, end: int | None = None) -> Survey:
    """Passes over the headers of `log.segments[first:end]`.

    Raises:
        CorruptRecordError: they cannot be believed. Where there are transactions these are judged by headers
            alone, so that then every CRC is looked at.
    """
    found = Survey()
    for _, batches in _headers(log, first, end, False):
        found.apply(batches)
    if found.turns:
        for segment, batches in _headers(log, first, end, True):
            check_crcs(batches, segment.path)
    return found


def _headers(
    log: PartitionLog, first: int, end: int | None, with_crcs: bool
) -> Iterator[tuple[LogSegment, pa.RecordBatch]]:
    chosen = {segment.base_offset for segment in log.segments[first:end]}
    for segment, scanned in log.headers(min(chosen, default=None), DamagedRange.refuse, check_crcs=with_crcs):
        if segment.base_offset not in chosen:
            break
        yield segment, scanned.batches
