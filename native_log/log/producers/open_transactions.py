"""Which transactions are open, and how others ended, from the headers of batches alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

ABORT, COMMIT = 0, 1
"""Types of a transaction's marker (Kafka: ControlRecordType)."""

TransactionalRow = tuple[int, int, int, bool, int | None]
"""(producerId, producerEpoch, baseOffset, isControl, controlType) of a transactional batch."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, as far as the log has data of it.

    Attributes:
        producer_id: markers are matched by it alone: since KIP-890 a marker has a higher epoch than its data.
        producer_epoch: of the data.
        first_offset: base offset of its first batch, or of the first that is left of it.
        last_offset: offset of its marker; None while it is open.
        state: "committed", "aborted" or "open".
        last_stable_offset: what it was right after the marker: first offset of the oldest other transaction
            open then, or the marker's offset + 1. None while it is open.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int | None
    state: str
    last_stable_offset: int | None


@dataclass(slots=True)
class OpenTransactions:
    """The transactions open at a point of the log, moved along it header by header.

    `first_offsets` maps producer id to (first offset, producer epoch).
    """

    first_offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def apply(self, batches: pa.RecordBatch) -> list[Transaction]:
        """Take the batches (BATCH_SCHEMA) that follow; what ended with them, in order of the markers."""
        return self.apply_rows(transactional_rows(batches))

    def apply_rows(self, rows: Iterable[TransactionalRow]) -> list[Transaction]:
        """The same from their `transactional_rows`."""
        ended = []
        for producer_id, epoch, base_offset, is_control, control_type in rows:
            if not is_control:
                self.first_offsets.setdefault(producer_id, (base_offset, epoch))
            elif control_type in (ABORT, COMMIT):  # a control batch that compaction emptied says nothing
                first = self.first_offsets.pop(producer_id, None)
                if first is not None:
                    oldest = min(
                        (offset for offset, _ in self.first_offsets.values()), default=base_offset + 1
                    )
                    state = "aborted" if control_type == ABORT else "committed"
                    ended.append(Transaction(producer_id, first[1], first[0], base_offset, state, oldest))
        return ended


def has_transactions(batches: pa.RecordBatch) -> bool:
    """Whether any of these batches (BATCH_SCHEMA) is of a transaction, or a marker."""
    return bool(batches.column("isTransactional").true_count or batches.column("isControl").true_count)


def transactional_rows(batches: pa.RecordBatch) -> list[TransactionalRow]:
    """What a TransactionalRow tells of each transactional batch."""
    if not (transactional := batches.column("isTransactional")).true_count:
        return []
    chosen = batches.filter(transactional)
    names = ("producerId", "producerEpoch", "baseOffset", "isControl", "controlType")
    return list(zip(*(chosen.column(name).to_pylist() for name in names), strict=True))
