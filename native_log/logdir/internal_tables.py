"""The tables of Kafka's internal topics in log directories."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from native_log.arguments import integer, optional_integer
from native_log.checkpoints.names import (
    BOOTSTRAP_FILE,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from native_log.errors import KafkaLogError, error_message
from native_log.prefetch import look_up_together
from native_log.system import current_ms
from native_log.workers import map_tables, waiting_readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import Mode
    from native_log.internal_topics.offset_expiration import OffsetRetention
    from native_log.log import PartitionLog
    from native_log.logdir.catalog import PartitionKey
    from native_log.logdir.directory_state import DirectoryState
    from native_log.storage import Folder

logger = logging.getLogger(__name__)

Key = TypeVar("Key", bound="PartitionKey")

# The decoders are imported on first use: few programs need them.


class InternalTables(ABC):
    """Methods of LogDir that return Kafka's internal topics as tables.

    The tables contain what the log directories contain: a broker has only some partitions of an internal
    topic, and so only some groups. Give the directories of all brokers for all of them.

    A record that cannot be decoded, because it is damaged or a newer Kafka wrote it, is a row with `error`.
    """

    @abstractmethod
    def topics(self) -> dict[str, list[int]]: ...

    @abstractmethod
    def partition(self, topic: str, partition: int) -> PartitionLog: ...

    @abstractmethod
    def open_logs(self, keys: Iterable[Key]) -> dict[Key, PartitionLog]: ...

    @abstractmethod
    def lag_end_offset(self, log: PartitionLog) -> int: ...

    @property
    @abstractmethod
    def topic_ids(self) -> dict[str, str]: ...

    @property
    @abstractmethod
    def is_local(self) -> bool: ...

    @property
    @abstractmethod
    def directories(self) -> tuple[DirectoryState, ...]: ...

    def consumer_offsets(
        self,
        *,
        history: bool = False,
        now_ms: int | None = None,
        offsets_retention_minutes: int | None = None,
        mode: Mode = "failFast",
    ) -> pa.RecordBatchReader:
        """Return the offsets that groups committed, as CONSUMER_OFFSETS_SCHEMA, from __consumer_offsets.

        Commits of transactions count when they are committed (Kafka: OffsetMetadataManager).

        Args:
            history: all commits and tombstones in the log, in the order of records. By default only the
                latest commit of each group and partition, without those that were deleted.
            now_ms: the time in epoch ms that decides which offsets are expired; by default the current time.
            offsets_retention_minutes: offsets.retention.minutes of the brokers; by default 10080 (a week).
            mode: what to do about damaged bytes. "failFast": raise CorruptRecordError; "dropMalformed": skip
                them with a warning.

        Raises:
            UnknownTopicOrPartitionError: the log directories do not contain the topic.
            CorruptRecordError: raised while batches are read, see `mode`.
            ValueError: another mode.
        """
        from native_log.internal_topics import schemas, tables

        retention = offset_retention(now_ms, offsets_retention_minutes)
        read_options = tables.read_options_of(mode)
        return self._table(
            OFFSETS_TOPIC,
            schemas.CONSUMER_OFFSETS_SCHEMA,
            lambda log: tables.consumer_offsets(log, read_options, retention, history=history),
            is_large=history,
        )

    def lag(
        self,
        *,
        now_ms: int | None = None,
        offsets_retention_minutes: int | None = None,
        mode: Mode = "failFast",
    ) -> pa.RecordBatchReader:
        """Return the latest `consumer_offsets`, with the ends of the logs and the lag, as LAG_SCHEMA.

        The lag is counted up to the checkpointed high watermarks: see `lag_end_offset`.

        Args:
            now_ms, offsets_retention_minutes: see `consumer_offsets`.
            mode: see `consumer_offsets`. With "dropMalformed" the end of a log that cannot be opened is null.

        Raises:
            KafkaLogError: a log cannot be opened (with mode "failFast"); and as `consumer_offsets`.
        """
        from native_log.internal_topics import schemas, tables

        retention = offset_retention(now_ms, offsets_retention_minutes)
        read_options = tables.read_options_of(mode)
        ends = end_offsets(self, mode)
        return self._table(
            OFFSETS_TOPIC,
            schemas.LAG_SCHEMA,
            lambda log: tables.lag(log, read_options, retention, ends),
        )

    def groups(self, *, mode: Mode = "failFast") -> pa.RecordBatchReader:
        """Return the groups and their members, as GROUPS_SCHEMA, from __consumer_offsets.

        Args:
            mode: see `consumer_offsets`.

        Raises: as `consumer_offsets`.
        """
        from native_log.internal_topics import schemas, tables

        read_options, names = tables.read_options_of(mode), topic_names(self)
        return self._table(
            OFFSETS_TOPIC, schemas.GROUPS_SCHEMA, lambda log: tables.groups(log, read_options, names)
        )

    def share_groups(self, *, mode: Mode = "failFast") -> pa.RecordBatchReader:
        """Return what share groups have consumed, with the lag, as SHARE_GROUPS_SCHEMA.

        It is in __share_group_state.

        Args:
            mode: see `lag`.

        Raises: as `lag`.
        """
        from native_log.internal_topics import schemas, tables

        read_options, names = tables.read_options_of(mode), topic_names(self)
        ends = end_offsets(self, mode)
        return self._table(
            SHARE_STATE_TOPIC,
            schemas.SHARE_GROUPS_SCHEMA,
            lambda log: tables.share_groups(log, read_options, names, ends),
        )

    def transaction_state(self, *, history: bool = False, mode: Mode = "failFast") -> pa.RecordBatchReader:
        """Return the transactional ids, as TRANSACTION_STATE_SCHEMA, from __transaction_state.

        Args:
            history: all records in the log, in their order. By default only the newest one of each
                transactional id, without those that were deleted.
            mode: see `consumer_offsets`.

        Raises: as `consumer_offsets`.
        """
        from native_log.internal_topics import schemas, tables

        read_options = tables.read_options_of(mode)
        return self._table(
            TRANSACTIONS_TOPIC,
            schemas.TRANSACTION_STATE_SCHEMA,
            lambda log: tables.transaction_state(log, read_options, history=history),
            is_large=history,
        )

    def cluster_metadata(
        self, *, as_of_offset: int | None = None, mode: Mode = "failFast"
    ) -> pa.RecordBatchReader:
        """Return the metadata of the cluster, as CLUSTER_METADATA_SCHEMA, from __cluster_metadata.

        The last snapshot (`.checkpoint` file) is read, and the log after it. The log is read to its end,
        because it is not stored up to which offset the quorum has committed it.

        Of a log directory that kafka-storage has formatted, and in which no broker has started yet,
        bootstrap.checkpoint is read: `LogDir(path, allow_empty=True)`.

        Args:
            as_of_offset: the state before this offset, as a snapshot up to this offset would have it. By
                default the end of the log.
            mode: see `consumer_offsets`. A damaged snapshot is an error with any mode.

        Raises:
            OffsetOutOfRangeError: `as_of_offset` is outside the log.
            KafkaLogError: a part of the log is missing; and as `consumer_offsets`.
        """
        from native_log.internal_topics import schemas, tables

        read_options = tables.read_options_of(mode)
        end_offset = optional_integer("as_of_offset", as_of_offset)
        formatted = formatted_directory(self)
        if formatted is not None and end_offset is None:
            import pyarrow as pa

            return pa.RecordBatchReader.from_batches(
                schemas.CLUSTER_METADATA_SCHEMA, tables.bootstrap_metadata(formatted)
            )
        return self._table(
            METADATA_TOPIC,
            schemas.CLUSTER_METADATA_SCHEMA,
            lambda log: tables.cluster_metadata(log, read_options, end_offset),
        )

    def _table(
        self,
        topic: str,
        schema: pa.Schema,
        batches: Callable[[PartitionLog], Iterator[pa.RecordBatch]],
        *,
        is_large: bool = False,
    ) -> pa.RecordBatchReader:
        """Return the table of an internal topic.

        Args:
            topic: the topic.
            schema: of the table.
            batches: returns the rows of a partition.
            is_large: whether these may be too many for memory. They are otherwise collected, so that several
                partitions at a URL can be read at a time.
        """
        import pyarrow as pa

        logs = internal_logs(self, topic)
        tables = map(batches, logs) if is_large else read_tables(self, logs, batches)
        return pa.RecordBatchReader.from_batches(schema, chain.from_iterable(tables))


def read_tables(
    log_dir: InternalTables,
    logs: Sequence[PartitionLog],
    batches: Callable[[PartitionLog], Iterator[pa.RecordBatch]],
) -> Iterator[Iterable[pa.RecordBatch]]:
    """Yield the table of each log, in order. Tables in a bucket are collected by several threads.

    Args:
        log_dir: contains the logs.
        logs: partitions of an internal topic.
        batches: returns the rows of a partition.
    """
    readers = None if log_dir.is_local else waiting_readers(log.size_bytes for log in logs)
    return map_tables(batches, logs, readers)


def end_offsets(log_dir: InternalTables, mode: Mode = "failFast") -> dict[tuple[str, int], int]:
    """Return the offsets up to which lag is counted, by topic and partition: see LogDir.lag_end_offset.

    Args:
        log_dir: contains the partitions.
        mode: "failFast", or another one to leave out logs that cannot be opened, with a warning.

    Raises:
        KafkaLogError: a log cannot be opened (with mode "failFast").
    """

    def end_offset(key: PartitionKey) -> int | KafkaLogError | FileNotFoundError:
        try:
            return log_dir.lag_end_offset(log_dir.partition(*key))
        except FileNotFoundError as error:  # a broker has just deleted the partition
            return error
        except KafkaLogError as error:
            if mode == "failFast":
                raise
            return error

    keys = [(topic, partition) for topic, partitions in log_dir.topics().items() for partition in partitions]
    offsets = {}
    for key, found in look_up_together(end_offset, keys, are_local=log_dir.is_local).items():
        if isinstance(found, (KafkaLogError, FileNotFoundError)):
            logger.warning("the end of a log is unknown: %s", error_message(found))
        else:
            offsets[key] = found
    return offsets


def topic_names(log_dir: InternalTables) -> dict[str, str]:
    """Return the names of topics by id."""
    return {topic_id: topic for topic, topic_id in log_dir.topic_ids.items()}


def formatted_directory(log_dir: InternalTables) -> Folder | None:
    """Return the first directory with bootstrap.checkpoint, if there are no partitions; otherwise None.

    A broker with partitions has the metadata in __cluster_metadata, maybe in another directory.
    """
    if log_dir.topics():
        return None
    return next((state.folder for state in log_dir.directories if state.folder.has(BOOTSTRAP_FILE)), None)


def internal_logs(log_dir: InternalTables, topic: str) -> list[PartitionLog]:
    """Return the logs of an internal topic.

    Raises:
        UnknownTopicOrPartitionError: the topic is not there.
    """
    keys = [(topic, partition) for partition in log_dir.topics().get(topic) or [0]]
    return list(log_dir.open_logs(keys).values())


def offset_retention(now_ms: int | None, minutes: int | None) -> OffsetRetention:
    """Return the retention of offsets. None stands for the current time and for Kafka's default.

    Raises TypeError.
    """
    from native_log.internal_topics.offset_expiration import DEFAULT_RETENTION_MINUTES, OffsetRetention

    now_ms = optional_integer("now_ms", now_ms)
    return OffsetRetention(
        current_ms() if now_ms is None else now_ms,
        DEFAULT_RETENTION_MINUTES if minutes is None else integer("offsets_retention_minutes", minutes),
    )
