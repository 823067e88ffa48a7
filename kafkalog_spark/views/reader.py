"""The reader of metadata views. The driver only finds the partitions; the tasks open them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import OptionError, visibility_check
from kafkalog_spark.read.offsets import Earliest, Latest
from kafkalog_spark.read.plan import partitions_to_read, plan_with_log_dir
from kafkalog_spark.read.splits import FILE_COST_BYTES, PACK_BYTES, pack
from kafkalog_spark.read.tasks import merge_small_batches
from kafkalog_spark.read.where import Where
from kafkalog_spark.schema import Projection
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.rows import PartitionScan
from kafkalog_spark.views.schemas import POLICY_COLUMNS
from native_log.log import PartitionLog
from native_log.log.reading.small_parts import THREADS
from native_log.prefetch import look_up_together
from native_log.workers import map_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from native_log.filters import RecordFilter
    from native_log.log.log_state import LogSource
    from native_log.logdir import LogDir
    from native_log.policies import TopicFacts


T = TypeVar("T")


@dataclass(frozen=True)
class ViewTask(InputPartition):
    """The logs that one task shows.

    Attributes:
        logs: the logs, and what is known about their topics' settings; None: not asked.
        are_local: whether all their files are on local disks.
    """

    logs: tuple[tuple[LogSource, TopicFacts | None], ...]
    are_local: bool


def reject_limits(options: ReadOptions) -> None:
    """Raise OptionError if the options restrict the offsets."""
    if options.start != Earliest() or options.end != Latest():
        raise OptionError(
            f"view={options.view} shows whole partitions; remove the starting and ending options"
        )


def read_logs(
    read: Callable[[T], Iterator[pa.RecordBatch]], logs: Sequence[T], *, are_local: bool
) -> Iterator[pa.RecordBatch]:
    """Yield what `read` yields for each log of a task. Several logs in a bucket are read at the same time.

    Their files together have at most PACK_BYTES.
    """
    readers = None if are_local or len(logs) == 1 else THREADS
    return chain.from_iterable(map_tables(read, logs, readers))


class ViewReader(DataSourceReader):
    """Reads one of VIEWS. Raises OptionError if the options restrict the offsets."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        reject_limits(options)
        self._options = options
        self._projection = Projection.of(schema, VIEWS[options.view].schema)
        self._where = Where.of(options)
        self._secrets = options.storage_options.carried()

    def partitions(self) -> Sequence[InputPartition]:
        return plan_with_log_dir(self._options, self._plan)

    def _plan(self, log_dir: LogDir) -> list[ViewTask]:
        partitions = partitions_to_read(self._options, log_dir)
        filter = self._where.plan()
        if filter is not None:
            partitions = filter.possible_partitions(partitions)
        logs = list(log_dir.open_logs(partitions).values())
        needs_facts = not POLICY_COLUMNS.isdisjoint(self._columns(filter))
        directories = log_dir.partitions() if needs_facts else []
        found = look_up_together(log_dir.topic_facts, directories, are_local=log_dir.is_local)
        facts = {directory.key: known for directory, known in found.items()}
        tasks = pack(logs, lambda log: log.size_bytes + FILE_COST_BYTES * len(log.segments), PACK_BYTES)
        return [
            ViewTask(
                tuple((log.state.source, facts.get((log.topic, log.partition))) for log in task),
                log_dir.is_local,
            )
            for task in tasks
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there is nothing to read, Spark runs one task with a partition that is not a ViewTask.
        if not isinstance(partition, ViewTask):
            return
        columns, filter = self._projection.columns, self._where.in_task()
        read = partial(self._rows, columns=self._columns(filter))
        rows = read_logs(read, partition.logs, are_local=partition.are_local)
        batches = ((batch if filter is None else filter.apply(batch)).select(columns) for batch in rows)
        yield from map(self._projection.apply, merge_small_batches(batches) if columns else batches)

    def _columns(self, filter: RecordFilter | None) -> tuple[str, ...]:
        """Return the columns that are needed."""
        return (*self._projection.columns, *(() if filter is None else filter.columns))

    def _rows(
        self, log: tuple[LogSource, TopicFacts | None], columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        options, (source, facts) = self._options, log
        with visibility_check(source.path):
            scan = PartitionScan(
                PartitionLog(source.open()),
                facts,
                columns,
                options.mode,
                options.check_crcs,
            )
            yield from VIEWS[options.view].rows(scan)
