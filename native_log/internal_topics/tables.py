"""The tables of one partition of an internal topic, as record batches."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.internal_topics.cluster_metadata import metadata_rows
from native_log.internal_topics.consumer_offsets import all_commits, latest_commits
from native_log.internal_topics.group import collect_groups
from native_log.internal_topics.groups import group_rows
from native_log.internal_topics.lag import add_lag
from native_log.internal_topics.metadata_log import SNAPSHOT_SUFFIX, bootstrap_records, metadata_records
from native_log.internal_topics.records import (
    all_batches,
    all_records,
    latest_batches,
    latest_records,
    to_batches,
)
from native_log.internal_topics.schemas import (
    CLUSTER_METADATA_SCHEMA,
    GROUPS_SCHEMA,
    SHARE_GROUPS_SCHEMA,
    TRANSACTION_STATE_SCHEMA,
)
from native_log.internal_topics.share_groups import share_state_rows
from native_log.internal_topics.transaction_state import transactional_id_rows
from native_log.internal_topics.transactions import TransactionStates
from native_log.log.changing_files import retry_changed
from native_log.log.reading.columns import check_mode
from native_log.log.reading.options import ReadOptions
from native_log.messages.groups import OFFSET_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    import pyarrow as pa

    from native_log.arguments import Mode
    from native_log.internal_topics.offset_expiration import OffsetRetention
    from native_log.log import PartitionLog
    from native_log.storage import Folder


def read_options_of(mode: Mode, *, check_crcs: bool = True, fail_on_data_loss: bool = True) -> ReadOptions:
    """Return what to do about damage and data loss.

    Raises:
        ValueError: `mode` is not "failFast" or "dropMalformed".
    """
    check_mode(mode)
    if mode == "permissive":
        raise ValueError("mode: expected failFast or dropMalformed, found 'permissive'")
    return ReadOptions(mode, check_crcs, fail_on_data_loss)


def consumer_offsets(
    log: PartitionLog, read_options: ReadOptions, retention: OffsetRetention, *, history: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the committed offsets in a partition of __consumer_offsets, as CONSUMER_OFFSETS_SCHEMA.

    Args:
        log: the partition.
        read_options: what to do about damage and data loss.
        retention: decides which offsets are expired.
        history: yield all commits and tombstones, instead of the latest commits.
    """
    if not history:
        return _read_newest(log, read_options, lambda log, options: _latest(log, options, retention))
    expired = array("q")
    for batch in _latest(log, read_options, retention):
        is_expired = pc.equal(batch.column("state"), "expired")
        expired.extend(batch.column("recordOffset").filter(is_expired).to_pylist())
    transactions = TransactionStates(log.transactions(mode=read_options.mode))
    return all_commits(
        all_batches(log, read_options), log.partition, transactions, array("q", sorted(expired))
    )


def lag(
    log: PartitionLog,
    read_options: ReadOptions,
    retention: OffsetRetention,
    end_offsets: Mapping[tuple[str, int], int],
) -> Iterator[pa.RecordBatch]:
    """Yield the committed offsets in a partition of __consumer_offsets and the lag, as LAG_SCHEMA.

    Args:
        log: the partition.
        read_options: what to do about damage and data loss.
        retention: decides which offsets are expired.
        end_offsets: the high watermarks of partitions, by topic and partition.
    """

    def read(log: PartitionLog, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        return add_lag(_latest(log, options, retention), end_offsets)

    return _read_newest(log, read_options, read)


def groups(
    log: PartitionLog, read_options: ReadOptions, topic_names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the groups in a partition of __consumer_offsets, as GROUPS_SCHEMA.

    Args:
        log: the partition.
        read_options: what to do about damage and data loss.
        topic_names: names of topics by id.
    """

    def read(log: PartitionLog, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        rows = group_rows(latest_records(log, options), log.partition, topic_names)
        return to_batches(rows, GROUPS_SCHEMA)

    return _read_newest(log, read_options, read)


def transaction_state(
    log: PartitionLog, read_options: ReadOptions, *, history: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the transactional ids in a partition of __transaction_state, as TRANSACTION_STATE_SCHEMA.

    Args:
        log: the partition.
        read_options: what to do about damage and data loss.
        history: yield all records, instead of the newest ones.
    """

    def read(log: PartitionLog, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        records = all_records(log, options) if history else latest_records(log, options)
        rows = transactional_id_rows(records, log.partition, history=history)
        return to_batches(rows, TRANSACTION_STATE_SCHEMA)

    return read(log, read_options) if history else _read_newest(log, read_options, read)


def share_groups(
    log: PartitionLog,
    read_options: ReadOptions,
    topic_names: Mapping[str, str],
    end_offsets: Mapping[tuple[str, int], int],
) -> Iterator[pa.RecordBatch]:
    """Yield the states of share groups in a partition of __share_group_state, as SHARE_GROUPS_SCHEMA.

    Args:
        log: the partition.
        read_options: what to do about damage and data loss.
        topic_names: names of topics by id.
        end_offsets: the high watermarks of partitions, by topic and partition.
    """

    def read(log: PartitionLog, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        rows = share_state_rows(all_records(log, options), log.partition, topic_names, end_offsets)
        return to_batches(rows, SHARE_GROUPS_SCHEMA)

    return _read_newest(log, read_options, read)


def cluster_metadata(
    log: PartitionLog, read_options: ReadOptions, as_of_offset: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the metadata of the cluster in the partition of __cluster_metadata, as CLUSTER_METADATA_SCHEMA.

    Args:
        log: the partition.
        read_options: what to do about damage.
        as_of_offset: ignore records from this offset on. None: the end of the log.
    """

    def read(log: PartitionLog) -> list[dict[str, Any]]:
        return _metadata_rows(log, read_options, as_of_offset)

    # A running controller writes snapshots, and removes older ones and the segments before them.
    rows = retry_changed(lambda: read(log.reopen()), first=lambda: read(log))
    return to_batches(rows, CLUSTER_METADATA_SCHEMA)


def bootstrap_metadata(log_dir: Folder) -> Iterator[pa.RecordBatch]:
    """Yield the first metadata of a cluster, before any broker has started, as CLUSTER_METADATA_SCHEMA.

    Args:
        log_dir: contains bootstrap.checkpoint.
    """
    records = ((True, record) for _, record in bootstrap_records(log_dir))
    return to_batches(metadata_rows(records, 0), CLUSTER_METADATA_SCHEMA)


def _metadata_rows(
    log: PartitionLog, read_options: ReadOptions, as_of_offset: int | None
) -> list[dict[str, Any]]:
    records_by_file = metadata_records(log, as_of_offset, read_options.mode)
    records = ((path.name.endswith(SNAPSHOT_SUFFIX), record) for path, record in records_by_file)
    return list(metadata_rows(records, log.partition))


def _read_newest(
    log: PartitionLog,
    read_options: ReadOptions,
    read: Callable[[PartitionLog, ReadOptions], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Yield what `read` yields. Read everything again if a broker removed or replaced segments meanwhile.

    A broker removes a record if a closed segment has a newer one with its key. That segment may be newer than
    the log that was opened, so that the rest of the log would have neither.
    """
    options = replace(read_options, relocate=False)
    return iter(
        retry_changed(lambda: list(read(log.reopen(), options)), first=lambda: list(read(log, options)))
    )


def _latest(
    log: PartitionLog, read_options: ReadOptions, retention: OffsetRetention
) -> Iterator[pa.RecordBatch]:
    # Two passes, because the groups decide which offsets are expired: only groups are kept in memory.
    # The table of groups reports groups that cannot be decoded.
    groups = collect_groups(
        latest_records(log, read_options, except_types=OFFSET_TYPES), on_error=lambda *_: None
    )
    return latest_commits(latest_batches(log, read_options), log.partition, groups, retention)
