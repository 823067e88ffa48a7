"""A pass over the batch headers of a log that collects its producers and transactions.

The size of a survey grows with the number of producers and transactions, not with the number of batches.
Parts of a log can be surveyed separately and joined in offset order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.compaction.verdicts import ProducerTable
from native_log.errors import CorruptRecordError
from native_log.log.producers.open_transactions import (
    ABORT,
    COMMIT,
    OpenTransactions,
    TransactionalRow,
    has_transactions,
    transactional_rows,
)
from native_log.segment.damage import PARTITION_UNCHANGED, DamagedRange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from native_log.log import PartitionLog
    from native_log.log.producers.open_transactions import Transaction
    from native_log.segment.segment import LogSegment


@dataclass(slots=True)
class Survey:
    """The producers and transactions of consecutive segments.

    Attributes:
        producers: the last record of each producer.
        boundaries: the transactional batches that begin or end a transaction: its first batch in these
            segments, and its marker. In offset order.
    """

    producers: ProducerTable = field(default_factory=ProducerTable)
    boundaries: list[TransactionalRow] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)

    def add_batches(self, batches: pa.RecordBatch) -> None:
        """Add the headers of the batches (BATCH_SCHEMA) that follow in the log."""
        greatest_id = pc.max(batches.column("producerId")).as_py()
        if greatest_id is None or greatest_id < 0:
            return
        self.producers.add_batches(batches)
        for row in transactional_rows(batches):
            producer_id, _, _, is_control, control_type = row
            if is_control:
                if control_type in (ABORT, COMMIT):
                    self._open.discard(producer_id)
                    self.boundaries.append(row)
            elif producer_id not in self._open:
                self._open.add(producer_id)
                self.boundaries.append(row)

    def extend(self, following: Survey) -> None:
        """Append the survey of the segments that follow."""
        self.producers.extend(following.producers)
        self.boundaries += following.boundaries
        self._open = following._open

    def transactions(self) -> list[Transaction]:
        """Return the transactions that ended, in the order of their markers."""
        return OpenTransactions().apply_rows(self.boundaries)

    def open_producers(self, offsets: list[int]) -> Iterator[frozenset[int]]:
        """Yield the ids of the producers with an open transaction at each of these ascending offsets."""
        open_transactions = OpenTransactions()
        start = 0
        for offset in offsets:
            end = start
            while end < len(self.boundaries) and self.boundaries[end][2] < offset:
                end += 1
            open_transactions.apply_rows(self.boundaries[start:end])
            start = end
            yield frozenset(open_transactions.first_offsets)


class UnexpectedTransactionError(Exception):
    """A log that was assumed to have no transactions has one."""


class OptimisticSurvey:
    """A survey that assumes that the log has no transactions.

    Without transactions the headers can be surveyed in the same pass that reads the keys.

    Attributes:
        survey: the headers added so far.
    """

    def __init__(self) -> None:
        self.survey = Survey()

    def __call__(self, batches: pa.RecordBatch) -> None:
        """Add the headers of the batches (BATCH_SCHEMA) that follow. Raises UnexpectedTransactionError."""
        if has_transactions(batches):
            raise UnexpectedTransactionError
        self.survey.add_batches(batches)


def survey_log(log: PartitionLog, first: int = 0, end: int | None = None) -> Survey:
    """Survey the headers of `log.segments[first:end]`.

    If the segments contain transactions, verify every CRC: compaction then decides on whole batches by their
    headers alone.

    Raises:
        CorruptRecordError: a batch is damaged.
    """
    survey = Survey()
    for _, batches in _headers(log, first, end, False):
        survey.add_batches(batches)
    if survey.boundaries:
        for segment, batches in _headers(log, first, end, True):
            _check_crcs(batches, segment.path)
    return survey


def _headers(
    log: PartitionLog, first: int, end: int | None, check_crcs: bool
) -> Iterator[tuple[LogSegment, pa.RecordBatch]]:
    base_offsets = {segment.base_offset for segment in log.segments[first:end]}
    start = min(base_offsets, default=None)
    for segment, scanned in log.state.headers(start, DamagedRange.reject, check_crcs=check_crcs):
        if segment.base_offset not in base_offsets:
            break
        yield segment, scanned.batches


def _check_crcs(batches: pa.RecordBatch, path: Path) -> None:
    """Raise CorruptRecordError if one of the batches, scanned with check_crcs, has a wrong CRC."""
    wrong = pc.index(batches.column("isValid"), False).as_py()
    if wrong >= 0:
        raise CorruptRecordError(
            f"expected a batch that matches its CRC, found one that does not. {PARTITION_UNCHANGED}",
            path=path,
            position=batches.column("position")[wrong].as_py(),
            offset=batches.column("baseOffset")[wrong].as_py(),
        )
