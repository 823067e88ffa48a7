"""The reader of view=counts: how many records each partition has, from the headers of batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import visibility_check
from kafkalog_spark.read.plan import locate, plan_with_log_dir
from kafkalog_spark.read.splits import FILE_COST_BYTES, PACK_BYTES, pack
from kafkalog_spark.read.where import Where
from kafkalog_spark.schema import Projection
from kafkalog_spark.views.schemas import COUNTS
from native_log.log.reading.options import ReadOptions as LogReadOptions
from native_log.log.reading.small_parts import THREADS, small_parts
from native_log.prefetch import map_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from native_log.log import LogRange

_HEADER_SHARE = 16
"""Headers take less time than records: one task counts this many times the bytes of a pack."""


@dataclass(frozen=True)
class CountTask(InputPartition):
    """The ranges that one task counts, and the partitions from which nothing is selected."""

    ranges: tuple[LogRange, ...]
    empty: tuple[tuple[str, int], ...] = ()


class CountsReader(DataSourceReader):
    """Reads view=counts."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._where = Where.of(options)
        self._projection = Projection.of(schema, COUNTS)
        self._read = LogReadOptions(options.mode, options.check_crcs, options.fail_on_data_loss)
        self._secrets = options.storage_options.carried()

    def partitions(self) -> Sequence[InputPartition]:
        filter = self._where.plan()
        requested, located = plan_with_log_dir(
            self._options, lambda log_dir: locate(self._options, log_dir, filter)
        )
        tasks = pack(
            located.values(),
            lambda each: each.size_bytes // _HEADER_SHARE + FILE_COST_BYTES * len(each.slices),
            PACK_BYTES,
        )
        partitions = [(r.topic, r.partition) for r in requested]
        if filter is not None:
            partitions = filter.possible_partitions(partitions)  # those excluded by name have no row
        empty = tuple(sorted(set(partitions) - {(tp.topic, tp.partition) for tp in located}))
        return [*(CountTask(tuple(task)) for task in tasks), *([CountTask((), empty)] if empty else [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from native_log.log.reading.counting import count_range  # imports pyarrow.compute, which is slow

        # If there is nothing to read, Spark runs one task with a partition that is not a CountTask.
        if not isinstance(partition, CountTask):
            return
        options = replace(self._read, filter=self._where.in_task())
        rows: list[dict[str, Any]] = [
            {"topic": topic, "partition": number, "count": 0} for topic, number in partition.empty
        ]

        def count(each: LogRange) -> dict[str, Any]:
            with visibility_check(each.path):
                rows = count_range(each, options)
            return {"topic": each.topic, "partition": each.partition, "count": rows}

        ranges = partition.ranges
        are_small = small_parts(ranges, undivided=True) is not None
        rows += map_ahead(count, ranges, THREADS) if are_small else map(count, ranges)
        batch = pa.RecordBatch.from_pylist(rows, schema=COUNTS)
        yield self._projection.apply(batch.select(self._projection.columns))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_options": None}
