"""Track open and ended transactions from batch headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

ABORT, COMMIT = 0, 1
"""Types of transaction markers (Kafka: ControlRecordType)."""

TransactionalRow = tuple[int, int, int, bool, int | None]
"""(producerId, producerEpoch, baseOffset, isControl, controlType) of a transactional batch."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that has data in the log.

    Attributes:
        producer_id: the producer. A marker is matched with its data by this id alone, because since KIP-890 a
            marker has a higher producer epoch than its data.
        producer_epoch: the producer epoch of the data.
        first_offset: the base offset of its first batch that is in the log.
        last_offset: the offset of its marker; None while it is open.
        state: "committed", "aborted" or "open".
        last_stable_offset: the last stable offset right after the marker: the first offset of the oldest
            other transaction that was open then, or the marker's offset + 1. None while it is open.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int | None
    state: str
    last_stable_offset: int | None


@dataclass(slots=True)
class OpenTransactions:
    """The transactions that are open at a point of the log. `apply` moves that point forward.

    Attributes:
        first_offsets: (first offset, producer epoch) of the open transaction, by producer id.
    """

    first_offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def apply(self, batches: pa.RecordBatch) -> list[Transaction]:
        """Apply the next batches (BATCH_SCHEMA). Return the transactions that end, by marker offset."""
        return self.apply_rows(transactional_rows(batches))

    def apply_rows(self, rows: Iterable[TransactionalRow]) -> list[Transaction]:
        """Apply the next batches, given as `transactional_rows`. Return the transactions that they end."""
        ended = []
        for producer_id, epoch, base_offset, is_control, control_type in rows:
            if not is_control:
                self.first_offsets.setdefault(producer_id, (base_offset, epoch))
            elif control_type in (
                ABORT,
                COMMIT,
            ):  # None: compaction removed the marker
                first = self.first_offsets.pop(producer_id, None)
                if first is not None:
                    oldest = min(
                        (offset for offset, _ in self.first_offsets.values()), default=base_offset + 1
                    )
                    state = "aborted" if control_type == ABORT else "committed"
                    ended.append(Transaction(producer_id, first[1], first[0], base_offset, state, oldest))
        return ended


def has_transactions(batches: pa.RecordBatch) -> bool:
    """Return whether any batch (BATCH_SCHEMA) is transactional or a control batch."""
    return bool(batches.column("isTransactional").true_count or batches.column("isControl").true_count)


def transactional_rows(batches: pa.RecordBatch) -> list[TransactionalRow]:
    """Return a TransactionalRow for each transactional batch (BATCH_SCHEMA)."""
    if not (is_transactional := batches.column("isTransactional")).true_count:
        return []
    transactional = batches.filter(is_transactional)
    names = ("producerId", "producerEpoch", "baseOffset", "isControl", "controlType")
    return list(zip(*(transactional.column(name).to_pylist() for name in names), strict=True))
