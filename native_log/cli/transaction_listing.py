"""`kafkalog transactions`: list open transactions as a table or as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.names import TRANSACTIONS_TOPIC
from native_log.cli.escapes import safe_text
from native_log.cli.progress import report_progress
from native_log.cli.runner import exit_code_of, print_error
from native_log.cli.tables import format_table
from native_log.errors import CorruptRecordError, KafkaLogError
from native_log.log.changing_files import retry_changed
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.reporting.batches import last_time_ms
from native_log.reporting.transactions import all_open_transactions
from native_log.retention.decisions import duration
from native_log.sizes import format_count
from native_log.times import format_time_ms
from native_log.workers import map_logs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from native_log.logdir import LogDir, PartitionDir
    from native_log.reporting.figures import OpenTransaction

_HEAD = (
    *("TOPIC", "PARTITION", "FIRST OFFSET", "STARTED", "AGE", "PRODUCER", "EPOCH"),
    *("TRANSACTIONAL ID", "COORDINATOR", "TIMEOUT"),
)
_LATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """What __transaction_state says of a producer.

    Attributes:
        partitions: the partitions of its transaction that is not complete.
    """

    name: str
    state: str
    timeout_ms: int | None
    partitions: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """An open transaction in a partition.

    Attributes:
        age_ms: its age in ms; None: unknown.
        transactional_id: None: no transactional id of the producer is known.
    """

    topic: str
    partition: int
    transaction: OpenTransaction
    age_ms: int | None
    transactional_id: TransactionalId | None

    @property
    def is_in_coordinator(self) -> bool | None:
        """Whether the coordinator has the partition in the producer's transaction; None: unknown producer."""
        known = self.transactional_id
        return None if known is None else (self.topic, self.partition) in known.partitions


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """The open transactions, the oldest first.

    Attributes:
        partitions: the number of examined partitions.
        has_coordinator: whether __transaction_state is in the directories.
        failed: the exit code for each partition, or record of __transaction_state, that cannot be read.
    """

    transactions: tuple[TransactionRow, ...]
    partitions: int
    has_coordinator: bool
    failed: tuple[int, ...]


def list_transactions(
    log_dir: LogDir, topics: Collection[str], exclude_topics: Collection[str], now_ms: int
) -> TransactionListing:
    """Find the open transactions. Report partitions that cannot be read on stderr.

    Args:
        log_dir: the log directories.
        topics: the topics to examine; empty: all.
        exclude_topics: the topics to leave out.
        now_ms: the time from which ages are measured if a directory is in use. Otherwise they are measured
            from the newest record.

    Raises:
        UnknownTopicOrPartitionError: see select_partitions.
    """
    selection = PartitionSelection.of(topics or None, exclude_topics)
    partitions = select_partitions(log_dir, selection, required=True)
    found: list[tuple[str, int, OpenTransaction]] = []
    failed: list[int] = []
    newest_ms: int | None = None

    def examine(
        partition: PartitionDir,
    ) -> tuple[list[OpenTransaction], int | None] | KafkaLogError | OSError:
        def read() -> tuple[list[OpenTransaction], int | None]:
            log = log_dir.partition(*partition.key)
            return list(all_open_transactions(log)), last_time_ms(log)

        try:
            return retry_changed(read)
        except (KafkaLogError, OSError) as error:
            return ([], None) if partition.folder.was_removed() else error

    examined = map_logs(examine, partitions, log_dir.waiting_readers(partitions))
    with report_progress("examining") as report:
        for done, (partition, result) in enumerate(zip(partitions, examined, strict=True), 1):
            if isinstance(result, Exception):
                print_error(result)
                failed.append(exit_code_of(result))
            else:
                transactions, last_ms = result
                found += [(*partition.key, transaction) for transaction in transactions]
                newest_ms = max(filter(None, (newest_ms, last_ms)), default=None)
            report(done, len(partitions))
    if any(state.lock_holder is not None for state in log_dir.directories):
        newest_ms = now_ms
    producers = _read_coordinator(log_dir, failed)
    rows = [
        TransactionRow(topic, partition, each, _age_ms(each, newest_ms), producers.get(each.producer_id))
        for topic, partition, each in found
    ]
    rows.sort(key=lambda row: _LATEST if row.transaction.started_ms is None else row.transaction.started_ms)
    has_coordinator = TRANSACTIONS_TOPIC in log_dir.topics()
    return TransactionListing(tuple(rows), len(partitions), has_coordinator, tuple(failed))


def _age_ms(transaction: OpenTransaction, newest_ms: int | None) -> int | None:
    if transaction.started_ms is None or newest_ms is None:
        return None
    return max(0, newest_ms - transaction.started_ms)


def _read_coordinator(log_dir: LogDir, failed: list[int]) -> Mapping[int, TransactionalId]:
    """Return the transactional ids by producer id, if __transaction_state is there."""
    if TRANSACTIONS_TOPIC not in log_dir.topics():
        return {}
    ids: dict[int, TransactionalId] = {}
    for batch in log_dir.transaction_state(mode="dropMalformed"):
        wanted = ["transactionalId", "producerId", "state", "transactionTimeoutMs", "partitions"]
        for row in batch.select([*wanted, "error", "recordPartition", "recordOffset"]).to_pylist():
            if row["error"] is not None:
                place = f"{TRANSACTIONS_TOPIC}-{row['recordPartition']}"
                error = CorruptRecordError(row["error"], path=place, offset=row["recordOffset"])
                print_error(error)
                failed.append(exit_code_of(error))
                continue
            ids[row["producerId"]] = TransactionalId(
                row["transactionalId"],
                row["state"],
                row["transactionTimeoutMs"],
                frozenset(
                    (entry["topic"], partition)
                    for entry in row["partitions"] or ()
                    for partition in entry["partitions"]
                ),
            )
    return ids


def format_text(listing: TransactionListing) -> str:
    """Format a table, and the totals."""
    rows = listing.transactions
    totals = (
        f"{format_count(len(rows), 'open transaction')} in {format_count(listing.partitions, 'partition')}"
    )
    if rows and not listing.has_coordinator:
        totals += f"; {TRANSACTIONS_TOPIC} is not in these directories"
    return "\n".join([*(format_table(_HEAD, list(map(_cells, rows))) if rows else ()), totals])


def format_json(listing: TransactionListing) -> str:
    """Format one JSON document. Times are in epoch ms, unknown values null."""
    document = {
        "transactions": [_transaction_json(row) for row in listing.transactions],
        "partitions": listing.partitions,
        "failed": len(listing.failed),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _cells(row: TransactionRow) -> tuple[str | int, ...]:
    transaction, known = row.transaction, row.transactional_id
    coordinator = "–"
    if known is not None:
        coordinator = known.state if row.is_in_coordinator else f"{known.state}, not here"
    return (
        row.topic,
        row.partition,
        transaction.first_offset,
        format_time_ms(transaction.started_ms),
        "–" if row.age_ms is None else duration(row.age_ms),
        transaction.producer_id,
        transaction.producer_epoch,
        "–" if known is None else safe_text(known.name),
        coordinator,
        "–" if known is None or known.timeout_ms is None else duration(known.timeout_ms),
    )


def _transaction_json(row: TransactionRow) -> dict[str, Any]:
    transaction, known = row.transaction, row.transactional_id
    return {
        "topic": row.topic,
        "partition": row.partition,
        "firstOffset": transaction.first_offset,
        "startTimestamp": transaction.started_ms,
        "ageMs": row.age_ms,
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionalId": known and known.name,
        "coordinatorState": known and known.state,
        "transactionTimeoutMs": known and known.timeout_ms,
        "isInCoordinator": row.is_in_coordinator,
    }
