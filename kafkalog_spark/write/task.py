"""What a task does with its rows."""

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
from native_log.log.writing.ahead import one_ahead
from native_log.publish.staging import StagedFile, StagingWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.write.plan import WritePlan
    from native_log.publish.job import WriteJob
    from native_log.publish.partitioning import Partitioner


@dataclass
class TaskCommit(WriterCommitMessage):
    """What a task tells the driver. Plain values.

    Attributes:
        query_id: of the stream that it is a task of, if it is.
    """

    job: WriteJob
    staged: tuple[StagedFile, ...]
    query_id: str | None


def write_task(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> TaskCommit:
    """Stage the rows, wherever they go. A task that fails leaves nothing behind, one that is killed does."""
    plan.check_visible()
    context = TaskContext.get()
    # Spark numbers attempts within an application only.
    number = f"{context.partitionId():06d}-{context.taskAttemptId()}-" if context is not None else ""
    writer = StagingWriter(plan.attempt(f"{number}{os.getpid()}{uuid.uuid4().hex[:8]}"))
    try:
        rows = _Rows(plan, writer, session_time_zone(context))
        # Spark's JVM makes the next rows only while someone takes those it has made.
        for batch in one_ahead(batches):
            rows.write(batch)
        staged = writer.close()
    except BaseException:
        writer.abort()
        raise
    query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    return TaskCommit(plan.job, tuple(staged), query_id)


class _Rows:
    """Deals out rows to the partitions of their topics."""

    def __init__(self, plan: WritePlan, writer: StagingWriter, time_zone: str) -> None:
        self._plan = plan
        self._time_zone = time_zone
        self._writer = writer
        self._partitioners: dict[str, Partitioner] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        columns = self._plan.columns
        records = columns.select(batch, self._time_zone)
        self._plan.options.producer.check(records)
        chosen = None if columns.partition is None else batch.column(columns.partition)
        if columns.topic is None:
            assert self._plan.options.topic is not None
            self._write(self._plan.options.topic, records, chosen)
            return
        topics = batch.column(columns.topic)
        if topics.null_count:
            raise InvalidRecordError(
                "KAFKA_NULL_TOPIC_IN_DATA: The Kafka message data sent to the producer contains a null "
                "topic. Use the `topic` option for setting a default topic."
            )
        distinct = pc.unique(topics).to_pylist()
        for topic in distinct:
            if len(distinct) == 1:
                self._write(topic, records, chosen)
            else:
                is_it = pc.equal(topics, topic)
                self._write(topic, records.filter(is_it), None if chosen is None else chosen.filter(is_it))

    def _write(self, topic: str, records: pa.RecordBatch, chosen: pa.Array | None) -> None:
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            partitioner = self._plan.options.partitioner(topic, self._plan.partitions(topic))
            self._partitioners[topic] = partitioner
        for partition, (some, rows) in partitioner.split(records, chosen):
            self._writer.append(topic, partition, self._plan.partition_dir(topic, partition), some, rows)
