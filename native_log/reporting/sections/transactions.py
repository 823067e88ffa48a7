"""Open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.names import TRANSACTIONS_TOPIC
from native_log.reporting.layout import Section
from native_log.reporting.sections.top_items import top_table
from native_log.reporting.text import count, duration, number, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import (
        OpenTransaction,
        PartitionFigures,
        ReportFigures,
        TransactionalId,
    )
    from native_log.reporting.layout import Table

_LATEST = 2**63


def transaction_section(figures: ReportFigures) -> Section:
    paragraphs: list[str] = []
    tables: list[Table] = []
    for text, table in (_in_logs(figures), _in_transaction_state(figures)):
        paragraphs += text
        tables += table
    return Section("transactions", "Open transactions", tuple(paragraphs), tuple(tables))


def _in_logs(figures: ReportFigures) -> tuple[list[str], list[Table]]:
    """Describe the transactions without a marker in the logs."""
    open_transactions = [
        (partition, transaction)
        for partition in figures.partitions
        for transaction in partition.open_transactions or ()
    ]
    paragraphs = [
        (
            f"{count(len(open_transactions), 'transaction has', 'transactions have')} neither been "
            "committed nor aborted in the logs. Consumers with read_committed wait at the first offset of "
            "the oldest one."
        )
        if open_transactions
        else "No open transaction was found in the logs."
    ]
    unexamined = sum(partition.open_transactions is None for partition in figures.partitions)
    if unexamined:
        paragraphs.append(
            f"{count(unexamined, 'partition was', 'partitions were')} not examined, because too many bytes "
            "follow the newest snapshot of the producers. Use --batches or --full."
        )
    return paragraphs, [_transaction_table(open_transactions)] if open_transactions else []


def _transaction_table(open_transactions: Sequence[tuple[PartitionFigures, OpenTransaction]]) -> Table:
    return top_table(
        "Open transactions, the oldest first",
        ("Partition", "Producer", "Epoch", "First offset", "Started"),
        sorted(open_transactions, key=lambda entry: entry[1].started_ms or _LATEST),
        lambda entry: _transaction_row(*entry),
        numbers={1, 2, 3},
        noun="transaction",
    )


def _transaction_row(partition: PartitionFigures, transaction: OpenTransaction) -> tuple[str, ...]:
    return (
        partition.name,
        str(transaction.producer_id),
        str(transaction.producer_epoch),
        number(transaction.first_offset),
        time(transaction.started_ms),
    )


def _in_transaction_state(figures: ReportFigures) -> tuple[list[str], list[Table]]:
    """Describe the transactional ids in __transaction_state whose transaction has not ended."""
    ids = figures.coordinators.transactional_ids
    if ids is None:
        return [figures.coordinators.unread[TRANSACTIONS_TOPIC]], []
    if not ids:
        return ["All transactions in __transaction_state have ended."], []
    return [], [_id_table(ids)]


def _id_table(ids: Sequence[TransactionalId]) -> Table:
    ranked = sorted(
        ids, key=lambda transactional_id: (transactional_id.started_ms or _LATEST, transactional_id.name)
    )
    return top_table(
        "Transactional ids whose transaction has not ended",
        ("Transactional id", "Producer", "State", "Started", "Timeout", "Partitions"),
        ranked,
        lambda transactional_id: (
            transactional_id.name,
            str(transactional_id.producer_id),
            transactional_id.state,
            time(transactional_id.started_ms),
            duration(transactional_id.timeout_ms),
            number(transactional_id.partitions),
        ),
        numbers={1, 4, 5},
        noun="transactional id",
    )
