"""The batch sink: tasks stage, the driver publishes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter

from kafkalog_spark.write.task import TaskCommit, write_task
from native_log.publish.commit import commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

    from kafkalog_spark.write.plan import WritePlan

logger = logging.getLogger(__name__)


class KafkaLogWriter(DataSourceArrowWriter):
    """Appends a DataFrame to the logs of a log directory: all of its rows, or none.

    A topic named by the option is there afterwards, even if there was no row to write, as the files of
    Spark's own sinks are. Where the rows name their topics and there is no row, nothing is made. (Spark's
    kafka sink makes a topic when a row is sent to it, if the brokers make topics at all.)
    """

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        publish(self._plan, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Attempts that still run come to nothing.
        self._plan.job.abort()


def publish(
    plan: WritePlan, messages: Sequence[WriterCommitMessage | None], batch_id: int | None = None
) -> None:
    """Put what the tasks of a job have staged into the logs."""
    done = [one for one in messages if isinstance(one, TaskCommit)]
    query_id = next((one.query_id for one in done), None)
    job = plan.job if batch_id is None or not done else done[0].job
    staged = [file for one in done for file in one.staged]
    topic = plan.options.topic
    if not staged and topic is None:
        job.abort()
        return
    published = commit(
        job,
        staged,
        plan.options.config,
        plan.options.partitions,
        topics=[] if topic is None else [topic],
        stream=None if batch_id is None or query_id is None else (query_id, batch_id),
        now_ms=plan.now_ms,
    )
    for one in published:
        logger.info("%s-%d: offsets %d to %d", one.topic, one.partition, one.start_offset, one.end_offset - 1)
