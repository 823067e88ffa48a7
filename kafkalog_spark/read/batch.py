"""The batch reader of records. It plans on the driver and reads in the tasks."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from kafkalog_spark.read.plan import plan_splits
from kafkalog_spark.read.report import log_plan
from kafkalog_spark.read.tasks import Split, TaskReader
from kafkalog_spark.read.where import translate_pushed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions


class KafkaLogReader(DataSourceReader):
    """Reads records, all or the newest of each key.

    Offsets are resolved once, in partitions(). A plan therefore returns the same rows each time it runs.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._tasks = TaskReader.of(options, schema)
        self._secrets = options.storage_options.carried()

    def partitions(self) -> Sequence[InputPartition]:
        splits = plan_splits(self._options, self._tasks.where.plan())
        log_plan(self._options.paths or [str(self._options.remote["remote"])], splits)
        return [Split(tuple(ranges)) for ranges in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends the reader to each task. Without the options, which may name thousands of partitions.
        return {**self.__dict__, "_options": None}


class PushingReader(KafkaLogReader):
    """A reader that applies conditions of Spark's query (Spark 4.1 and later, with pushFilters=true).

    Spark looks for `pushFilters` in the class, and fails every read by a class that has it unless
    spark.sql.python.filterPushdown.enabled is set.
    """

    def pushFilters(self, filters: Iterable[object]) -> Iterator[Any]:  # noqa: N802
        """Yield the filters that Spark must apply, because they have no translation."""
        pushed = []
        for each in filters:
            expression = translate_pushed(each)
            if expression is None:
                yield each
            else:
                pushed.append(expression)
        if pushed:
            where = replace(self._tasks.where, pushed=reduce(operator.and_, pushed))
            self._tasks = replace(self._tasks, where=where)
