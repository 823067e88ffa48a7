"""The state of transactional producers, in a file of the log directory (Kafka: TransactionMetadata).

A broker keeps this state in the topic __transaction_state. An embedded producer cannot: a broker that loads
the directory would take such a partition for a stray of an unknown topic. So the state is in a plain file,
which brokers ignore. It says for each transactional.id which producer id and epoch were used last, and which
partitions may contain data of a transaction that has not ended.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from native_log.errors import KafkaLogError
from native_log.producer.batch import TopicPartition
from native_log.storage import read_file
from native_log.storage.writing import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

TRANSACTION_STATE = ".kafkalog-transactions"
"""The name of the file in the log directory."""

MAX_EPOCH = 2**15 - 2
"""The last epoch before a new producer id is needed. 2^15 - 1 is left to abort the last transaction."""

_VERSION = 0
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


def load_entries(log_dir: Path) -> dict[str, TransactionEntry]:
    """Return the entries of all transactional ids. Raises KafkaLogError if the file is damaged."""
    path = log_dir / TRANSACTION_STATE
    try:
        data = read_file(str(path))
    except FileNotFoundError:
        return {}
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        return {name: _parse(fields) for name, fields in content["transactional_ids"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaLogError(
            f"expected the state of transactional producers as JSON, found {error!r}; restore the file, or "
            "remove it and abort the transactions that are still open",
            path=path,
        ) from None


def save_entries(log_dir: Path, entries: Mapping[str, TransactionEntry], now_ms: int) -> None:
    """Replace the file and flush it to disk. Ids that expired are left out. Raises OSError."""
    kept = {
        name: asdict(entry)
        for name, entry in entries.items()
        if entry.state in UNFINISHED or now_ms - entry.updated_ms < _EXPIRATION_MS
    }
    content = json.dumps({"version": _VERSION, "transactional_ids": kept}, indent=1)
    replace_file(log_dir / TRANSACTION_STATE, content.encode())


def _parse(fields: dict[str, Any]) -> TransactionEntry:
    return TransactionEntry(
        int(fields["producer_id"]),
        int(fields["producer_epoch"]),
        TransactionState(fields["state"]),
        tuple(TopicPartition(str(topic), int(number)) for topic, number in fields["partitions"]),
        int(fields["updated_ms"]),
    )
