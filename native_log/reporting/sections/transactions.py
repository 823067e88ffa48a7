"""Open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
            f"{count(len(open_transactions), 'transaction')} without a marker in the logs. Consumers with "
            "read_committed wait at the first offset of the oldest one."
        )
    ]
    if unexamined:
        paragraphs.append(
            f"{count(unexamined, 'partition was', 'partitions were')} not examined, because too much of "
            "the log follows the newest snapshot of its producers. Use --batches or --full."
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
        paragraphs.append("Transactional ids were not read: see below.")
    elif not ids:
        paragraphs.append("No transactional id in __transaction_state has a transaction that has not ended.")
    else:
        ranked = sorted(ids, key=lambda one: (one.started_ms or _LATEST, one.name))
        shown_ids, others_ids = split_top(ranked, MAX_ROWS)
        parts.append(
            Table(
                "Transactional ids whose transaction has not ended",
                ("Transactional id", "Producer", "State", "Started", "Timeout", "Partitions"),
                tuple(
                    (
                        one.name,
                        str(one.producer_id),
                        one.state,
                        time(one.started_ms),
                        duration(one.timeout_ms),
                        number(one.partitions),
                    )
                    for one in shown_ids
                ),
                frozenset({1, 4, 5}),
                left_out(others_ids, "transactional id"),
            )
        )
    return Section("transactions", "Open transactions", tuple(paragraphs), tuple(parts))
