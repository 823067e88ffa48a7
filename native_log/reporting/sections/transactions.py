"""Open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.names import TRANSACTIONS_TOPIC
from native_log.reporting.layout import Section, Table
from native_log.reporting.sections.limits import MAX_ROWS, left_out
from native_log.reporting.summaries import split_top
from native_log.reporting.text import count, duration, number, time

if TYPE_CHECKING:
    from native_log.reporting.figures import ReportFigures

_LATEST = 2**63


def transaction_section(figures: ReportFigures) -> Section:
    unexamined = sum(partition.open_transactions is None for partition in figures.partitions)
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
    if unexamined:
        paragraphs.append(
            f"{count(unexamined, 'partition was', 'partitions were')} not examined, because too many bytes "
            "follow the newest snapshot of the producers. Use --batches or --full."
        )
    parts = []
    if open_transactions:
        open_transactions.sort(key=lambda entry: entry[1].started_ms or _LATEST)
        shown, others = split_top(open_transactions, MAX_ROWS)
        parts.append(
            Table(
                "Open transactions, the oldest first",
                ("Partition", "Producer", "Epoch", "First offset", "Started"),
                tuple(
                    (
                        partition.name,
                        str(transaction.producer_id),
                        str(transaction.producer_epoch),
                        number(transaction.first_offset),
                        time(transaction.started_ms),
                    )
                    for partition, transaction in shown
                ),
                frozenset({1, 2, 3}),
                left_out(others, "transaction"),
            )
        )
    ids = figures.coordinators.transactional_ids
    if ids is None:
        paragraphs.append(figures.coordinators.unread[TRANSACTIONS_TOPIC])
    elif not ids:
        paragraphs.append("All transactions in __transaction_state have ended.")
    else:
        ranked = sorted(
            ids, key=lambda transactional_id: (transactional_id.started_ms or _LATEST, transactional_id.name)
        )
        shown_ids, others_ids = split_top(ranked, MAX_ROWS)
        parts.append(
            Table(
                "Transactional ids whose transaction has not ended",
                ("Transactional id", "Producer", "State", "Started", "Timeout", "Partitions"),
                tuple(
                    (
                        transactional_id.name,
                        str(transactional_id.producer_id),
                        transactional_id.state,
                        time(transactional_id.started_ms),
                        duration(transactional_id.timeout_ms),
                        number(transactional_id.partitions),
                    )
                    for transactional_id in shown_ids
                ),
                frozenset({1, 4, 5}),
                left_out(others_ids, "transactional id"),
            )
        )
    return Section("transactions", "Open transactions", tuple(paragraphs), tuple(parts))
