"""The state of transactional producers (Kafka: TransactionMetadata).

It says for each transactional.id which producer id and epoch were used last, and which partitions may contain
data of a transaction that has not ended.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.json_fields import MAX_INT, integer, text
from native_log.checkpoints.names import is_legal_topic
from native_log.producer.batch import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_EPOCH = 2**15 - 2
"""The last epoch before a new producer id is needed. 2^15 - 1 is left to abort the last transaction."""

_MAX_EPOCH = 2**15 - 1
_EXPIRATION_MS = 7 * 24 * 3_600_000
"""An id that was not used for this long is forgotten (Kafka: transactional.id.expiration.ms)."""


class TransactionState(StrEnum):
    """The state of a transaction."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


UNFINISHED = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class TransactionEntry:
    """The state of one transactional.id.

    Attributes:
        producer_id, producer_epoch: those of the newest producer.
        state: of its last transaction.
        partitions: where an unfinished transaction may have data.
        updated_ms: when this was written, in epoch ms.
    """

    producer_id: int
    producer_epoch: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    updated_ms: int = 0


def next_producer(entry: TransactionEntry | None, new_id: Callable[[], int]) -> TransactionEntry:
    """Return the entry of a new producer: the next epoch of the same id, which fences the previous producer.

    Args:
        entry: the entry of the previous producer, without an unfinished transaction; None: there was none.
        new_id: returns a producer id that was never used.
    """
    if entry is None or entry.producer_epoch >= MAX_EPOCH:
        return TransactionEntry(new_id(), 0)
    return TransactionEntry(entry.producer_id, entry.producer_epoch + 1)


def with_partitions(entry: TransactionEntry, partitions: tuple[TopicPartition, ...]) -> TransactionEntry:
    """Return the entry after data are about to be written to more partitions."""
    known = entry.partitions if entry.state == TransactionState.ONGOING else ()
    added = tuple(dict.fromkeys((*known, *partitions)))
    return replace(entry, state=TransactionState.ONGOING, partitions=added)


def is_expired(entry: TransactionEntry, now_ms: int) -> bool:
    """Return whether an id is forgotten. An unfinished transaction never is."""
    return entry.state not in UNFINISHED and now_ms - entry.updated_ms >= _EXPIRATION_MS


def format_entry(entry: TransactionEntry) -> bytes:
    """Return the entry as JSON in one line."""
    return json.dumps(asdict(entry), separators=(",", ":")).encode()


def parse_entry(data: bytes) -> TransactionEntry:
    """Return the entry that `format_entry` has written. Raises ValueError, KeyError, TypeError."""
    return _parse(json.loads(data))


def _parse(fields: dict[str, Any]) -> TransactionEntry:
    return TransactionEntry(
        integer(fields["producer_id"]),
        integer(fields["producer_epoch"], greatest=_MAX_EPOCH),
        TransactionState(fields["state"]),
        tuple(_partition(topic, number) for topic, number in fields["partitions"]),
        integer(fields["updated_ms"]),
    )


def _partition(topic: object, number: object) -> TopicPartition:
    if not is_legal_topic(text(topic)):
        raise ValueError(f"expected the name of a topic, found {topic!r:.80}")
    return TopicPartition(text(topic), integer(number, greatest=MAX_INT))
