"""Views of Kafka's internal topics.

A view is one value in INTERNAL_VIEWS. The option `view` takes its names from there. The decoders are imported
where they are used: the option parser imports this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.checkpoints.names import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from native_log.internal_topics import schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from native_log.internal_topics.offset_expiration import OffsetRetention
    from native_log.log import PartitionLog
    from native_log.log.reading.options import ReadOptions
    from native_log.storage import Folder


@dataclass(frozen=True, slots=True)
class InternalScan:
    """How to show partitions of an internal topic. The driver sends it to the tasks.

    Attributes:
        read_options: what to do about damage and data loss.
        history: show all records.
        retention: decides which offsets are expired.
        as_of_offset: the offset of __cluster_metadata to stop at, exclusive; None: its end.
        end_offsets: the high watermarks of partitions, by topic and partition, if the view needs them.
        topic_names: the names of topics by id, if the view needs them.
    """

    read_options: ReadOptions
    history: bool
    retention: OffsetRetention
    as_of_offset: int | None = None
    end_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    topic_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InternalView:
    """A view of an internal topic.

    Attributes:
        topic: the topic.
        schema: all columns.
        batches: returns the rows of one partition, as batches of `schema`.
        has_history: whether the view can show all records.
        has_as_of_offset: whether the view can show the state at an offset.
        formatted_batches: returns the rows of a log directory in which no broker has started yet, if the view
            can show it.
        needs_end_offsets: whether `batches` needs the ends of all logs.
        needs_topic_names: whether `batches` needs the names of topics by id.
    """

    topic: str
    schema: pa.Schema
    batches: Callable[[PartitionLog, InternalScan], Iterator[pa.RecordBatch]]
    has_history: bool = False
    has_as_of_offset: bool = False
    formatted_batches: Callable[[Folder], Iterator[pa.RecordBatch]] | None = None
    needs_end_offsets: bool = False
    needs_topic_names: bool = False


def _consumer_offsets(log: PartitionLog, scan: InternalScan) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.consumer_offsets(log, scan.read_options, scan.retention, history=scan.history)


def _lag(log: PartitionLog, scan: InternalScan) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.lag(log, scan.read_options, scan.retention, scan.end_offsets)


def _groups(log: PartitionLog, scan: InternalScan) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.groups(log, scan.read_options, scan.topic_names)


def _share_groups(log: PartitionLog, scan: InternalScan) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.share_groups(log, scan.read_options, scan.topic_names, scan.end_offsets)


def _transaction_state(log: PartitionLog, scan: InternalScan) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.transaction_state(log, scan.read_options, history=scan.history)


def _cluster_metadata(log: PartitionLog, scan: InternalScan) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.cluster_metadata(log, scan.read_options, scan.as_of_offset)


def _formatted_metadata(log_dir: Folder) -> Iterator[pa.RecordBatch]:
    from native_log.internal_topics import tables

    return tables.bootstrap_metadata(log_dir)


INTERNAL_VIEWS = {
    "consumer_offsets": InternalView(
        OFFSETS_TOPIC, schemas.CONSUMER_OFFSETS_SCHEMA, _consumer_offsets, has_history=True
    ),
    "lag": InternalView(OFFSETS_TOPIC, schemas.LAG_SCHEMA, _lag, needs_end_offsets=True),
    "groups": InternalView(OFFSETS_TOPIC, schemas.GROUPS_SCHEMA, _groups, needs_topic_names=True),
    "share_groups": InternalView(
        SHARE_STATE_TOPIC,
        schemas.SHARE_GROUPS_SCHEMA,
        _share_groups,
        needs_end_offsets=True,
        needs_topic_names=True,
    ),
    "transaction_state": InternalView(
        TRANSACTIONS_TOPIC, schemas.TRANSACTION_STATE_SCHEMA, _transaction_state, has_history=True
    ),
    "cluster_metadata": InternalView(
        METADATA_TOPIC,
        schemas.CLUSTER_METADATA_SCHEMA,
        _cluster_metadata,
        has_as_of_offset=True,
        formatted_batches=_formatted_metadata,
    ),
}
"""The views of internal topics by name."""
