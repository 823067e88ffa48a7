"""The sequences of an idempotent producer (Kafka: TransactionManager, TxnPartitionEntry)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.producer.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from native_log.producer.batch import ProducerBatch, TopicPartition

_SEQUENCES = 2**31


@dataclass(slots=True)
class _PartitionSequences:
    next_sequence: int = 0
    in_flight: list[ProducerBatch] = field(default_factory=list)
    """Batches with a sequence whose outcome is not known, by ascending sequence."""


class ProducerSequences:
    """Assign sequences to batches, and keep them without gaps when batches fail.

    An append to a log either happens completely or not at all. So there are no batches about which it stays
    unknown whether the log contains them: a failed batch gives its sequences to the batches after it.

    Attributes:
        producer_id, producer_epoch: those of new batches; -1: the producer is not idempotent.
        is_transactional: whether new batches are transactional.
    """

    def __init__(self, producer_id: int = -1, producer_epoch: int = -1) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.is_transactional = False
        self._partitions: dict[TopicPartition, _PartitionSequences] = {}

    @property
    def is_idempotent(self) -> bool:
        """Whether batches get sequences."""
        return self.producer_id >= 0

    def begin_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Continue with another producer id or epoch. Sequences begin at 0 again."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._partitions.clear()

    def assign(self, batch: ProducerBatch) -> None:
        """Give the next sequences to a batch that has none."""
        if not self.is_idempotent or batch.has_sequence:
            return
        entry = self._partitions.get(batch.target)
        if entry is None:
            entry = self._partitions[batch.target] = _PartitionSequences()
        batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
        batch.is_transactional = self.is_transactional
        batch.base_sequence = entry.next_sequence
        entry.next_sequence = (entry.next_sequence + batch.record_count) % _SEQUENCES
        entry.in_flight.append(batch)

    def first_in_flight(self, target: TopicPartition) -> int:
        """Return the lowest sequence whose outcome is not known; -1 if there is none."""
        entry = self._partitions.get(target)
        return entry.in_flight[0].base_sequence if entry is not None and entry.in_flight else NO_SEQUENCE

    def is_next(self, batch: ProducerBatch) -> bool:
        """Return whether all batches before this one are known to be written or failed."""
        return self.first_in_flight(batch.target) == batch.base_sequence

    def remove(self, batch: ProducerBatch) -> None:
        """Note that a batch was written."""
        entry = self._partitions.get(batch.target)
        if entry is not None and batch in entry.in_flight:
            entry.in_flight.remove(batch)

    def give_up(self, batch: ProducerBatch) -> None:
        """Note that a batch failed. The batches after it get its sequences.

        Kafka: TransactionManager.adjustSequencesDueToFailedBatch.
        """
        entry = self._partitions.get(batch.target)
        if entry is None or batch not in entry.in_flight:
            return
        index = entry.in_flight.index(batch)
        del entry.in_flight[index]
        for later in entry.in_flight[index:]:
            later.base_sequence = (later.base_sequence - batch.record_count) % _SEQUENCES
        entry.next_sequence = (entry.next_sequence - batch.record_count) % _SEQUENCES

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Track the parts of a batch that was split, which have its sequences."""
        entry = self._partitions.get(batch.target)
        if entry is not None and batch in entry.in_flight:
            index = entry.in_flight.index(batch)
            entry.in_flight[index : index + 1] = parts
