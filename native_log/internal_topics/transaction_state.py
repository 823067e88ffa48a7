"""Transactional ids, from records of __transaction_state (Kafka: TransactionMetadata)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.internal_topics.records import timestamp_us
from native_log.messages.coordinators import read_key, read_value
from native_log.messages.reading import MessageError
from native_log.messages.transaction_log import RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.internal_topics.records import Record

Row = dict[str, Any]

_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
"""The states by their number (Kafka: TransactionState)."""


def transactional_id_rows(records: Iterable[Record], partition: int, *, history: bool) -> Iterator[Row]:
    """Yield a row of TRANSACTION_STATE_SCHEMA for each record.

    Args:
        records: those of a partition of __transaction_state; without history the newest one of each key.
        partition: its number.
        history: yield tombstones, too.
    """
    for record in records:
        if record.value is None and not history:
            continue
        key: dict[str, Any] = {}
        try:
            kind, key = read_key(RECORDS, record.key)
            values = {"state": "tombstone"} if record.value is None else _values(kind, record.value)
            yield {**key, **values, **record.location(partition)}
        except MessageError as error:
            yield {**key, **record.undecodable(partition, error)}


def _values(kind: int, value: bytes) -> Row:
    _, state = read_value(RECORDS, kind, value)
    status = state["transactionStatus"]
    if not 0 <= status < len(_STATES):
        raise MessageError(f"expected a transactionStatus up to {len(_STATES) - 1}, found {status}")
    return {
        "producerId": state["producerId"],
        "producerEpoch": state["producerEpoch"],
        "state": _STATES[status],
        "partitions": [
            {"topic": entry["topic"], "partitions": entry["partitionIds"]}
            for entry in state["transactionPartitions"] or ()
        ],
        "transactionTimeoutMs": state["transactionTimeoutMs"],
        "startTimestamp": timestamp_us("transactionStartTimestampMs", state["transactionStartTimestampMs"]),
        "lastUpdateTimestamp": timestamp_us(
            "transactionLastUpdateTimestampMs", state["transactionLastUpdateTimestampMs"]
        ),
        "previousProducerId": state.get("previousProducerId"),
        "nextProducerId": state.get("nextProducerId"),
        "nextProducerEpoch": state.get("nextProducerEpoch"),
        "clientTransactionVersion": state.get("clientTransactionVersion"),
    }
