"""The streaming sink. Each micro-batch is written exactly once, even if Spark runs it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_spark.write.arrow_rows import StreamArrowWriter
from kafkalog_spark.write.batch import publish
from kafkalog_spark.write.task import TaskCommit, write_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from kafkalog_spark.write.plan import WritePlan


class KafkaLogStreamWriter(StreamArrowWriter):
    """Append the micro-batches of a stream.

    Spark plans a micro-batch with one instance and commits it with another. So the commit takes the job and
    the query id from the tasks' messages.
    """

    def __init__(self, plan: WritePlan, schema: StructType) -> None:
        super().__init__(schema)
        self._plan = plan

    def write_arrow(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self._plan, batches)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        try:
            publish(self._plan, messages, batchId)
        finally:
            self._plan.job.end()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        for message in messages:
            if isinstance(message, TaskCommit):
                message.job.abort()
        self._plan.job.abort()
