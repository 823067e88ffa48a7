"""Write the rows of a task to staged files."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kafkalog_spark.write.time_zone import session_time_zone
from native_log.errors import InvalidRecordError
from native_log.prefetch import prefetch
from native_log.publish.staging import StagedFile, StagingWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.write.columns import SinkColumns
    from kafkalog_spark.write.plan import WritePlan
    from native_log.publish.job import WriteJob
    from native_log.publish.partitioning import Partitioner


@dataclass
class TaskCommit(WriterCommitMessage):
    """A task's message to the driver. Contains plain values only.

    Attributes:
        job: the job of the task.
        staged: the files that the task staged.
        query_id: id of the streaming query; None in a batch query.
        unknown_columns: names of columns that were not written, because the sink does not know them.
    """

    job: WriteJob
    staged: tuple[StagedFile, ...]
    query_id: str | None
    unknown_columns: tuple[str, ...] = ()


def write_task(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> TaskCommit:
    """Stage all rows of a task. If the task fails, its files are removed; if it is killed, they remain."""
    plan.check_visible()
    context = TaskContext.get()
    columns = plan.columns.resolve(_is_case_sensitive(context))
    # Task attempt ids are unique within a Spark application only, hence the pid and the random part.
    number = f"{context.partitionId():06d}-{context.taskAttemptId()}-" if context is not None else ""
    writer = StagingWriter(plan.attempt(f"{number}{os.getpid()}{uuid.uuid4().hex[:8]}"))
    try:
        rows = _RowWriter(plan, columns, writer, session_time_zone(context))
        # Fetch the next batch early: Spark's JVM produces rows only while this side reads them.
        for batch in prefetch(batches):
            rows.write(batch)
        staged = writer.close()
    except BaseException:
        writer.abort()
        raise
    query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    return TaskCommit(plan.job, tuple(staged), query_id, columns.unknown)


def _is_case_sensitive(context: TaskContext | None) -> bool:
    """Return the session's spark.sql.caseSensitive. Spark sends it to tasks only if it is set."""
    setting = context.getLocalProperty("spark.sql.caseSensitive") if context is not None else None
    return setting is not None and setting.lower() == "true"


class _RowWriter:
    """Distribute rows over the partitions of their topics."""

    def __init__(self, plan: WritePlan, columns: SinkColumns, writer: StagingWriter, time_zone: str) -> None:
        self._plan = plan
        self._columns = columns
        self._time_zone = time_zone
        self._writer = writer
        self._partitioners: dict[str, Partitioner] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        columns = self._columns
        records = columns.select(batch, self._time_zone)
        self._plan.options.producer.check(records)
        explicit = None if columns.partition is None else batch.column(columns.partition)
        if columns.topic is None:
            assert self._plan.options.topic is not None
            self._write_topic(self._plan.options.topic, records, explicit)
            return
        topics = batch.column(columns.topic)
        if topics.null_count:
            raise InvalidRecordError(  # Spark's text
                "KAFKA_NULL_TOPIC_IN_DATA: The Kafka message data sent to the producer contains a null "
                "topic. Use the `topic` option for setting a default topic."
            )
        distinct = pc.unique(topics).to_pylist()
        for topic in distinct:
            if len(distinct) == 1:
                self._write_topic(topic, records, explicit)
            else:
                mask = pc.equal(topics, topic)
                self._write_topic(
                    topic, records.filter(mask), None if explicit is None else explicit.filter(mask)
                )

    def _write_topic(self, topic: str, records: pa.RecordBatch, explicit: pa.Array | None) -> None:
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            partitioner = self._plan.options.partitioner(topic, self._plan.partition_count(topic))
            self._partitioners[topic] = partitioner
        for partition, (part, rows) in partitioner.split(records, explicit):
            self._writer.append(topic, partition, self._plan.partition_dir(topic, partition), part, rows)
