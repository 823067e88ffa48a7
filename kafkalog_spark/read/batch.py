"""The batch reader: plans on the driver, reads in the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import OptionError, visibility_check
from kafkalog_spark.read.plan import plan_records
from kafkalog_spark.read.report import report
from kafkalog_spark.schema import RECORDS, Projection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from native_log.log import LogRange


SMALL_BYTES = 256 << 10


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
        self._fail_on_data_loss = options.fail_on_data_loss
        self._latest = options.view == "latest"

    def partitions(self) -> Sequence[InputPartition]:
        tasks = plan_records(self._options)
        report(self._options.paths, tasks)
        return [LogRanges(tuple(ranges)) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark runs one task without a partition of ours.
        ranges = partition.ranges if isinstance(partition, LogRanges) else ()
        batches: Iterator[pa.RecordBatch] = (batch for r in ranges for batch in self._read(r))
        if self._projection.columns:
            batches = joined(batches)
        return map(self._projection.apply, batches)

    def _read(self, range: LogRange) -> Iterator[pa.RecordBatch]:
        with visibility_check(range.path):
            yield from (range.latest if self._latest else range.read)(
                self._projection.columns,
                mode=self._mode,
                check_crcs=self._check_crcs,
                fail_on_data_loss=self._fail_on_data_loss,
            )

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends the reader along with every task; options that name thousands of partitions stay here.
        return {**self.__dict__, "_options": None}


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with small batches put together, such as small segments give.

    A batch costs Spark's JVM a good part of a millisecond, however few its rows. The first is not held back.
    """
    yield from islice(batches, 1)
    small: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        size_bytes = batch.get_total_buffer_size()  # `nbytes` takes as long as a small batch's decoding
        is_small = size_bytes < SMALL_BYTES
        if is_small:
            small.append(batch)
            held_bytes += size_bytes
        if small and (not is_small or held_bytes >= SMALL_BYTES):
            yield _one(small)
            small, held_bytes = [], 0
        if not is_small:
            yield batch
    if small:
        yield _one(small)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return (
        batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    )
