"""The reader of records. It plans on the driver and reads in the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import OptionError, visibility_check
from kafkalog_spark.read.plan import plan_splits
from kafkalog_spark.read.report import log_plan
from kafkalog_spark.schema import RECORDS, Projection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from native_log.log import LogRange


SMALL_BYTES = 256 << 10
"""Arrow batches below this size are merged."""


@dataclass(frozen=True)
class Split(InputPartition):
    """The log ranges that one task reads."""

    ranges: tuple[LogRange, ...]


class KafkaLogReader(DataSourceReader):
    """Reads records, all or the newest of each key.

    Offsets are resolved once, in partitions(). A plan therefore returns the same rows each time it runs.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if not schema.fields and pyspark.__version__.startswith("4.0."):
            raise OptionError(
                "Spark 4.0 loses the rows of a read without columns; select a column such as offset"
            )
        self._options = options
        self._projection = Projection.of(schema, RECORDS)
        self._mode = options.mode
        self._check_crcs = options.check_crcs
        self._fail_on_data_loss = options.fail_on_data_loss
        self._latest = options.view == "latest"

    def partitions(self) -> Sequence[InputPartition]:
        splits = plan_splits(self._options)
        log_plan(self._options.paths, splits)
        return [Split(tuple(ranges)) for ranges in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there is nothing to read, Spark runs one task with a partition that is not a Split.
        ranges = partition.ranges if isinstance(partition, Split) else ()
        batches: Iterator[pa.RecordBatch] = (batch for r in ranges for batch in self._read(r))
        if self._projection.columns:
            batches = merge_small_batches(batches)
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
        # Spark sends the reader to each task. Without the options, which may name thousands of partitions.
        return {**self.__dict__, "_options": None}


def merge_small_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows, with consecutive small batches merged and empty ones dropped.

    Each batch costs Spark's JVM a good part of a millisecond, and small segments give small batches. The
    first batch is yielded at once, so that a query shows rows soon.
    """
    yield from islice(batches, 1)
    small: list[pa.RecordBatch] = []
    small_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        size_bytes = batch.get_total_buffer_size()  # `nbytes` takes as long as decoding a small batch
        is_small = size_bytes < SMALL_BYTES
        if is_small:
            small.append(batch)
            small_bytes += size_bytes
        if small and (not is_small or small_bytes >= SMALL_BYTES):
            yield _concatenate(small)
            small, small_bytes = [], 0
        if not is_small:
            yield batch
    if small:
        yield _concatenate(small)


def _concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return (
        batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    )
