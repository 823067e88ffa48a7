"""Find the transactions whose outcome is unknown because their marker may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.log.producers.open_transactions import OpenTransactions, transactional_rows
from native_log.salvaging.report import Finding

if TYPE_CHECKING:
    import pyarrow as pa


class TransactionCheck:
    """The check of one log. Batches and losses are reported to it in order.

    Attributes:
        findings: the transactions that ended after a loss, although their own marker may be lost.
    """

    def __init__(self, path: str) -> None:
        """Begin the check of the log in the partition directory `path`."""
        self.findings: list[Finding] = []
        self._path = path
        self._open = OpenTransactions()
        self._last_offsets: dict[int, int] = {}
        self._offset_before_loss: dict[int, int] = {}

    def copy(self, batches: pa.RecordBatch) -> None:
        """Note that batches (BATCH_SCHEMA) were copied."""
        rows = transactional_rows(batches)
        if not rows:
            return
        for transaction in self._open.apply_rows(rows):
            producer_id = transaction.producer_id
            self._last_offsets.pop(producer_id, None)
            before_loss = self._offset_before_loss.pop(producer_id, None)
            if before_loss is not None:
                reason = (
                    f"the transaction was open at offset {before_loss}, and the bytes after it are lost. If "
                    "its marker was among them, its records up to there have the outcome of the producer's "
                    f"next transaction: {transaction.state} at offset {transaction.last_offset}"
                )
                self.findings.append(
                    self._finding("doubtful", producer_id, transaction.first_offset, before_loss, reason)
                )
        data = batches.filter(
            pc.and_(batches.column("isTransactional"), pc.invert(batches.column("isControl")))
        )
        last = zip(data.column("producerId").to_pylist(), data.column("lastOffset").to_pylist(), strict=True)
        self._last_offsets.update((id, offset) for id, offset in last if id in self._open.first_offsets)

    def lose(self) -> None:
        """Note that bytes, in which there may have been markers, are lost after the last batch."""
        for producer_id in self._open.first_offsets:
            self._offset_before_loss.setdefault(producer_id, self._last_offsets[producer_id])

    def open_transactions(self) -> list[Finding]:
        """Return the transactions that are open at the end of the log."""
        findings = []
        for producer_id, (first, epoch) in sorted(self._open.first_offsets.items(), key=lambda item: item[1]):
            is_lost = producer_id in self._offset_before_loss
            why = "its marker may be lost" if is_lost else "it was open when the log ended"
            reason = (
                f"the transaction (producer epoch {epoch}) has no marker: {why}. Consumers with "
                f"isolation.level=read_committed stop at offset {first} until it is ended, for example with "
                "kafka-transactions.sh abort"
            )
            findings.append(
                self._finding("open", producer_id, first, self._last_offsets[producer_id], reason)
            )
        return findings

    def _finding(self, kind: str, producer_id: int, first: int, last: int, reason: str) -> Finding:
        return Finding(
            "transaction",
            kind,
            self._path,
            reason=reason,
            first_offset=first,
            last_offset=last,
            producer_id=producer_id,
        )
