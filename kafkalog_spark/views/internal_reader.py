"""The reader of views of internal topics. Each task decodes whole partitions of the topic.

All records of a group are in one partition, so the tasks need not exchange anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import visibility_check
from kafkalog_spark.read.plan import plan_with_log_dir
from kafkalog_spark.read.splits import FILE_COST_BYTES, PACK_BYTES, pack
from kafkalog_spark.read.tasks import merge_small_batches
from kafkalog_spark.read.where import Where
from kafkalog_spark.schema import Projection
from kafkalog_spark.views.internal import INTERNAL_VIEWS, InternalScan
from kafkalog_spark.views.reader import read_logs, reject_limits
from native_log.internal_topics.tables import read_options_of
from native_log.log import PartitionLog
from native_log.logdir.internal_tables import (
    end_offsets,
    formatted_directory,
    internal_logs,
    offset_retention,
    topic_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from native_log.log.log_state import LogSource
    from native_log.logdir import LogDir
    from native_log.storage import Folder


@dataclass(frozen=True)
class InternalTask(InputPartition):
    """The logs that one task shows, and how.

    Attributes:
        are_local: whether all files of the logs are on local disks.
        formatted: a log directory to show in which no broker has started yet.
    """

    logs: tuple[LogSource, ...]
    scan: InternalScan
    are_local: bool
    formatted: Folder | None = None


class InternalViewReader(DataSourceReader):
    """Reads one of INTERNAL_VIEWS. Raises OptionError if the options restrict the offsets."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        reject_limits(options)
        self._options = options
        self._view = INTERNAL_VIEWS[options.view]
        self._projection = Projection.of(schema, self._view.schema)
        self._where = Where.of(options)
        self._secrets = options.storage_options.carried()

    def partitions(self) -> Sequence[InputPartition]:
        return plan_with_log_dir(self._options, self._plan, allow_empty=self._shows_formatted)

    @property
    def _shows_formatted(self) -> bool:
        return self._view.formatted_batches is not None and self._options.as_of_offset is None

    def _plan(self, log_dir: LogDir) -> list[InternalTask]:
        options = self._options
        scan = InternalScan(
            read_options_of(
                options.mode,
                check_crcs=options.check_crcs,
                fail_on_data_loss=options.fail_on_data_loss,
            ),
            options.history,
            offset_retention(None, options.offsets_retention_minutes),
            options.as_of_offset,
            end_offsets(log_dir, options.mode) if self._view.needs_end_offsets else {},
            topic_names(log_dir) if self._view.needs_topic_names else {},
        )
        formatted = formatted_directory(log_dir) if self._shows_formatted else None
        if formatted is not None:
            return [InternalTask((), scan, log_dir.is_local, formatted)]
        tasks = pack(
            internal_logs(log_dir, self._view.topic),
            lambda log: log.size_bytes + FILE_COST_BYTES * len(log.segments),
            PACK_BYTES,
        )
        return [
            InternalTask(tuple(log.state.source for log in task), scan, log_dir.is_local) for task in tasks
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there is nothing to read, Spark runs one task with a partition that is not an InternalTask.
        batches = self._batches(partition) if isinstance(partition, InternalTask) else iter(())
        columns = self._projection.columns
        filter = self._where.in_task()
        selected = ((batch if filter is None else filter.apply(batch)).select(columns) for batch in batches)
        return map(self._projection.apply, merge_small_batches(selected) if columns else selected)

    def _batches(self, task: InternalTask) -> Iterator[pa.RecordBatch]:
        if task.formatted is not None and self._view.formatted_batches is not None:
            yield from self._view.formatted_batches(task.formatted)

        def read(source: LogSource) -> Iterator[pa.RecordBatch]:
            with visibility_check(source.path):
                yield from self._view.batches(PartitionLog(source.open()), task.scan)

        yield from read_logs(read, task.logs, are_local=task.are_local)
