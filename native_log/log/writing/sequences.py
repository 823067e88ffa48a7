"""Which batch of an idempotent producer may come next (Kafka: ProducerAppendInfo). Decisions only."""

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
    """What of some batches is to be written.

    Attributes:
        indexes: of those that the log does not have yet.
        first_offset: where the log has the first of all; None if that is to be written.
    """

    indexes: Sequence[int]
    first_offset: int | None


def new_batches(batches: pa.RecordBatch, states: ProducerStates, path: object) -> NewBatches:
    """Tell batches (BATCH_SCHEMA) that a producer sent again from new ones.

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
            before = latest.get(producer) or _before(states.entries.get(producer))
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
    """Whether a batch may come next.

    Args:
        before: epoch and last sequence (-1: none) of the producer's batch before, and whether it left a
            transaction open; None: nothing is known of the producer, which may begin anywhere.

    Raises:
        InvalidProducerEpochError: a newer epoch was there. OutOfOrderSequenceError: batches are missing
        between, or it is an old one. InvalidRecordError: a transaction is open, and it is not of one.
    """
    if before is None:
        return
    latest_epoch, last_sequence, is_open = before
    if epoch < latest_epoch:
        raise InvalidProducerEpochError(
            f"expected batches of producer {producer_id} with epoch {latest_epoch} or above, found {epoch}: "
            "a newer instance of it has written since",
            path=path,
        )
    expected = 0 if epoch > latest_epoch or last_sequence < 0 else (last_sequence + 1) % (MAX_SEQUENCE + 1)
    if base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"expected sequence {expected} of producer {producer_id}, epoch {epoch}, found {base_sequence}: "
            "batches are missing between, or this one was written long ago",
            path=path,
        )
    if is_open and not is_transactional:
        raise InvalidRecordError(
            f"expected a transactional batch, for producer {producer_id} has a transaction open, found one "
            "that is not",
            path=path,
        )


def _before(entry: ProducerStateEntry | None) -> tuple[int, int, bool] | None:
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
    """The same for records that are still to be encoded. Raises as check_next."""
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecordError(
            f"expected a sequence, for the records have producer {producer_id}, found {base_sequence}",
            path=path,
        )
    if producer_id < 0 and is_transactional:
        raise InvalidRecordError(
            "expected a producer id, for the records are transactional, found none", path=path
        )
    if producer_id >= 0:
        before = _before(states.entries.get(producer_id))
        check_next(before, producer_id, epoch, base_sequence, is_transactional, path)
