"""The batch sink: tasks stage files, the driver commits them."""

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
    """Append a DataFrame to the logs of a log directory: all rows or none.

    The topic of the option `topic` is created even if the DataFrame is empty, as Spark's file sinks create
    their directory. If the rows name their topics, an empty DataFrame creates nothing. (Spark's kafka sink
    creates a topic when it sends the first row, if the brokers create topics automatically.)
    """

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        publish(self._plan, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        # Task attempts that still run fail once the job has ended.
        self._plan.job.abort()


def publish(
    plan: WritePlan, messages: Sequence[WriterCommitMessage | None], batch_id: int | None = None
) -> None:
    """Commit the files that the tasks of a job staged.

    Args:
        messages: the tasks' TaskCommit messages.
        batch_id: the batch of a stream. Its job is that of the messages: `plan` may be a later one.
    """
    commits = [message for message in messages if isinstance(message, TaskCommit)]
    job = plan.job if batch_id is None or not commits else commits[0].job
    staged = [file for message in commits for file in message.staged]
    topic = plan.options.topic
    if not staged and topic is None:
        job.abort()
        return
    _warn_of_unused_settings(plan, commits)
    transaction = plan.options.transaction
    published = commit(
        job,
        staged,
        plan.options.config,
        plan.options.new_topic_partitions,
        topics=[] if topic is None else [topic],
        version=_version(plan, commits, batch_id),
        now_ms=plan.now_ms,
    )
    if transaction is not None and staged and not published:
        logger.warning(
            "%s: skipped version %d of txnAppId %s: this version or a later one is already written",
            *(job.log_dir, transaction.version, transaction.app_id),
        )
    for added in published:
        logger.info(
            "%s-%d: wrote offsets %d up to %d (exclusive)",
            *(added.topic, added.partition, added.start_offset, added.end_offset),
        )


def _version(plan: WritePlan, commits: Sequence[TaskCommit], batch_id: int | None) -> tuple[str, int] | None:
    """Return the id and version by which a write that is repeated is recognized; None: it is not."""
    if batch_id is None:
        transaction = plan.options.transaction
        return None if transaction is None else (transaction.record_id, transaction.version)
    query_id = next((message.query_id for message in commits), None)
    return None if query_id is None else (query_id, batch_id)


def _warn_of_unused_settings(plan: WritePlan, commits: Sequence[TaskCommit]) -> None:
    """Name columns that no record has, and topics for which the option `partitions` came too late."""
    unknown_columns = next((message.unknown_columns for message in commits), ())
    if unknown_columns:
        logger.warning(
            "%s: the DataFrame has columns that are not written, because no record has them: %s (expected: "
            "value, key, headers, timestamp, topic, partition)",
            *(plan.job.log_dir, ", ".join(unknown_columns)),
        )
    written = {file.topic for message in commits for file in message.staged}
    for topic in sorted(written & plan.topics.keys()):
        count = plan.partition_count(topic)
        if plan.options.partitions not in (None, count):
            logger.warning(
                "%s: topic %s exists with %d partitions, so the option partitions=%d has no effect on it",
                *(plan.job.log_dir, topic, count, plan.options.partitions),
            )
