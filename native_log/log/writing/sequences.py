"""Check the sequences of idempotent producers (Kafka: ProducerAppendInfo). The functions are pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import InvalidProducerEpochError, InvalidRecordError, OutOfOrderSequenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from native_log.log.producers.producer_state import ProducerStateEntry
    from native_log.log.producers.producer_states import ProducerStates

MAX_SEQUENCE = 2**31 - 1
_COLUMNS = (
    "producerId",
    "producerEpoch",
    "baseSequence",
    "lastSequence",
    "recordCount",
    "isControl",
    "isTransactional",
)


@dataclass(frozen=True, slots=True)
class NewBatches:
    """The batches of an append that are not duplicates.

    Attributes:
        indexes: the indexes of the batches that are not in the log yet.
        first_offset: the offset at which the log contains the first batch; None if it is not a duplicate.
    """

    indexes: Sequence[int]
    first_offset: int | None


def new_batches(batches: pa.RecordBatch, states: ProducerStates, path: object) -> NewBatches:
    """Find the batches (BATCH_SCHEMA) that are not duplicates of batches in the log.

    Raises InvalidProducerEpochError, OutOfOrderSequenceError, InvalidRecordError as check_next.
    """
    indexes: list[int] = []
    first_offset = None
    latest: dict[int, tuple[int, int, bool]] = {}
    for index, (producer, epoch, first, last, count, is_control, is_transactional) in enumerate(
        zip(*(batches.column(name).to_pylist() for name in _COLUMNS), strict=True)
    ):
        if producer is not None and producer >= 0 and not is_control:
            known = states.find_duplicate(producer, epoch, last, count - 1) if producer not in latest else -1
            if known >= 0:
                if index == 0:
                    first_offset = known - count + 1
                continue
            before = latest.get(producer) or _last_batch(states.entries.get(producer))
            check_next(before, producer, epoch, first, is_transactional, path)
            latest[producer] = epoch, last, is_transactional
        indexes.append(index)
    return NewBatches(indexes, first_offset)


def check_next(
    before: tuple[int, int, bool] | None,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    is_transactional: bool,
    path: object,
) -> None:
    """Check that a batch may follow the producer's last batch.

    Args:
        before: epoch and last sequence (-1: none) of the producer's last batch, and whether a transaction is
            open after it; None: the producer is unknown, and may begin with any sequence.
        producer_id, epoch, base_sequence, is_transactional: those of the batch.
        path: the log's path, for error messages.

    Raises:
        InvalidProducerEpochError: the log contains batches of a newer epoch.
        OutOfOrderSequenceError: batches between the two are missing, or the batch is an old one.
        InvalidRecordError: a transaction is open, and the batch is not transactional.
    """
    if before is None:
        return
    latest_epoch, last_sequence, is_open = before
    if epoch < latest_epoch:
        raise InvalidProducerEpochError(
            f"expected batches of producer {producer_id} with epoch {latest_epoch} or above, found {epoch}: "
            "a newer instance of the producer has written since",
            path=path,
        )
    expected = 0 if epoch > latest_epoch or last_sequence < 0 else (last_sequence + 1) % (MAX_SEQUENCE + 1)
    if base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"expected sequence {expected} of producer {producer_id}, epoch {epoch}, found {base_sequence}: "
            "batches before this one are missing, or it was written long ago",
            path=path,
        )
    if is_open and not is_transactional:
        raise InvalidRecordError(
            f"expected a transactional batch, because producer {producer_id} has a transaction open, found a "
            "batch that is not transactional",
            path=path,
        )


def _last_batch(entry: ProducerStateEntry | None) -> tuple[int, int, bool] | None:
    if entry is None or entry.producer_epoch < 0:  # the latter: see ProducerStates.apply
        return None
    return entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset >= 0


def check_producer(
    states: ProducerStates,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    is_transactional: bool,
    path: object,
) -> None:
    """Check the producer fields of records that are not encoded yet. Raises as check_next."""
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecordError(
            f"expected a sequence, because the records have producer {producer_id}, found {base_sequence}",
            path=path,
        )
    if producer_id < 0 and is_transactional:
        raise InvalidRecordError(
            "expected a producer id, because the records are transactional, found none", path=path
        )
    if producer_id >= 0:
        before = _last_batch(states.entries.get(producer_id))
        check_next(before, producer_id, epoch, base_sequence, is_transactional, path)
