"""The batch reader: plans on the driver, reads in the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import OptionError
from kafkalog_spark.read.plan import plan_records
from kafkalog_spark.schema import RECORDS, Projection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_spark.options import ReadOptions
    from native_log.log import LogRange


@dataclass(frozen=True)
class LogRanges(InputPartition):
    """What one task reads."""

    ranges: tuple[LogRange, ...]


class KafkaLogReader(DataSourceReader):
    """Offsets are resolved once, in partitions(): a plan gives the same rows however often it runs."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if not schema.fields and pyspark.__version__.startswith("4.0."):
            raise OptionError("Spark 4.0 loses the rows of a read without columns: read one, such as offset")
        self._options = options
        self._projection = Projection.of(schema, RECORDS)
        self._mode = options.mode
        self._check_crcs = options.check_crcs

    def partitions(self) -> Sequence[InputPartition]:
        return [LogRanges(tuple(ranges)) for ranges in plan_records(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark runs one task without a partition of ours.
        if isinstance(partition, LogRanges):
            for r in partition.ranges:
                for batch in r.read(self._projection.columns, mode=self._mode, check_crcs=self._check_crcs):
                    yield self._projection.apply(batch)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends the reader along with every task; options that name thousands of partitions stay here.
        return {**self.__dict__, "_options": None}
