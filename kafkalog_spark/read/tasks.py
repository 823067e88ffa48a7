"""Divide located log ranges among Spark tasks, and read one task's ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kafkalog_spark.errors import visibility_check
from kafkalog_spark.read.map_function import MappedRead
from kafkalog_spark.read.offsets import OffsetRange
from kafkalog_spark.read.splits import (
    FILE_COST_BYTES,
    PACK_BYTES,
    cut,
    divide_ranges,
    needs_division,
    pack,
    target_bytes,
)
from kafkalog_spark.read.where import Where
from kafkalog_spark.schema import default_schema, record_projection
from native_log.log import LogRange
from native_log.log.reading.options import ReadOptions as LogReadOptions
from native_log.log.reading.reader import read_rows
from native_log.log.reading.small_parts import read_small_parts, small_parts
from native_log.log.unbounded_range import UnboundedRange
from native_log.prefetch import map_together
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.options.read import ReadOptions
    from kafkalog_spark.schema import Projection

AnyRange = LogRange | UnboundedRange

SMALL_BYTES = 256 << 10
"""Arrow batches below this size are merged."""


@dataclass(frozen=True)
class Split(InputPartition):
    """The log ranges that one task reads."""

    ranges: tuple[AnyRange, ...]


def plan_tasks(
    options: ReadOptions, requested: Sequence[OffsetRange], located: Mapping[TopicPartition, LogRange]
) -> list[list[AnyRange]]:
    """Return the log ranges that each task reads.

    Args:
        options: the read options.
        requested: the offsets to read, at most one range for each partition. They are needed only if an
            option limits the number of records or of tasks.
        located: for each partition the part of its range that the log holds; partitions without such a part
            are missing.
    """
    if options.min_partitions is None and options.max_records_per_partition is None:
        return pack_ranges(options, located.values())
    divided = _divide(options, located.values(), _target_bytes(options, located.values()))
    cuts = {tp: [part.start_offset for part in parts[1:]] for tp, parts in zip(located, divided, strict=True)}
    ranges = [part for r in requested for part in cut(r, cuts.get(r.topic_partition, ()))]
    if needs_division(ranges, options.min_partitions, options.max_records_per_partition):
        ranges = divide_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return _locate_ranges(located, ranges)


def pack_ranges(options: ReadOptions, ranges: Collection[AnyRange]) -> list[list[AnyRange]]:
    """Return the ranges that each task reads: parts of large ones, and several small ones."""
    max_bytes = _target_bytes(options, ranges)
    return pack(
        (part for parts in _divide(options, ranges, max_bytes) for part in parts),
        lambda part: part.size_bytes + FILE_COST_BYTES * len(part.slices),
        min(max_bytes, PACK_BYTES),
    )


def _target_bytes(options: ReadOptions, ranges: Iterable[AnyRange]) -> int:
    return target_bytes((r.size_bytes for r in ranges), options.max_bytes_per_partition, available_cores())


def _divide(options: ReadOptions, ranges: Collection[AnyRange], max_bytes: int) -> list[Sequence[AnyRange]]:
    """Divide each range into parts of about `max_bytes` at most."""
    if options.view == "latest":  # the newest record of a key is known only after the whole range was read
        return [[r] for r in ranges]

    def parts(range: AnyRange) -> Sequence[AnyRange]:
        return range.split(max_bytes) if range.size_bytes > max_bytes else [range]

    # Cutting a range means looking for batch boundaries in its files.
    return list(map_together(parts, ranges, are_local=all(r.is_local for r in ranges)))


def _locate_ranges(
    located: Mapping[TopicPartition, LogRange], ranges: Iterable[OffsetRange]
) -> list[list[AnyRange]]:
    """Return a task for each range: one log range, or none if the log has no such offsets."""

    def tasks(group: tuple[TopicPartition, list[OffsetRange]]) -> list[list[AnyRange]]:
        tp, members = group
        whole = located.get(tp)
        if whole is None:
            return [[] for _ in members]
        available = OffsetRange(tp.topic, tp.partition, whole.start_offset, whole.end_offset)
        parts = [r.intersection(available) for r in members]
        splits = whole.split_at([part.start for part in parts if part.size > 0])
        by_start = {split.start_offset: split for split in splits}
        return [[by_start[part.start]] if part.size > 0 else [] for part in parts]

    groups = ((tp, list(group)) for tp, group in groupby(ranges, key=lambda r: r.topic_partition))
    are_local = all(each.is_local for each in located.values())
    return list(chain.from_iterable(map_together(tasks, groups, are_local=are_local)))


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Reads the records of a task. Spark sends it to each task.

    Attributes:
        projection: what becomes of the records.
        columns: the columns of records to read.
        options: how the records are read.
        latest: whether only the newest record of each key is read.
        where: selects records.
    """

    projection: Projection | MappedRead
    columns: tuple[str, ...]
    options: LogReadOptions
    latest: bool
    where: Where

    @classmethod
    def of(cls, options: ReadOptions, schema: StructType) -> TaskReader:
        """Return the reader for Spark's schema of the query. Raises OptionError."""
        read = LogReadOptions(options.mode, options.check_crcs, options.fail_on_data_loss)
        is_latest, where = options.view == "latest", Where.of(options)
        if options.map_function is not None:
            columns = tuple(default_schema(options).names)
            return cls(MappedRead.of(options.map_function, schema), columns, read, is_latest, where)
        projection = record_projection(schema)
        return cls(projection, projection.columns, read, is_latest, where)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of a split, in the schema of the query."""
        # If there is nothing to read, Spark runs one task with a partition that is not a Split.
        ranges = partition.ranges if isinstance(partition, Split) else ()
        options = replace(self.options, filter=self.where.in_task())
        if isinstance(self.projection, MappedRead):
            yield from self.projection.apply(self._all_bounded(ranges), lambda r: self._read(r, options))
            return
        batches: Iterator[pa.RecordBatch]
        # The newest record of a key is known only after the whole range was read.
        parts = small_parts(ranges, undivided=self.latest)
        if parts is not None:
            batches = read_small_parts(parts, partial(self._read, options=options))
        else:
            batches = (batch for r in ranges for batch in self._read(r, options))
        if self.projection.columns:
            batches = merge_small_batches(batches)
        yield from map(self.projection.apply, batches)

    def _all_bounded(self, ranges: Iterable[AnyRange]) -> Iterator[LogRange]:
        for each in ranges:
            with visibility_check(each.path):
                bounded = self._bounded(each)
            yield bounded

    def _bounded(self, range: AnyRange) -> LogRange:
        if isinstance(range, LogRange):
            return range
        return range.bounded(fail_on_data_loss=self.options.fail_on_data_loss)

    def _read(self, range: AnyRange, options: LogReadOptions) -> Iterator[pa.RecordBatch]:
        with visibility_check(range.path):
            yield from self._rows(self._bounded(range), options)

    def _rows(self, range: LogRange, options: LogReadOptions) -> Iterator[pa.RecordBatch]:
        if not self.latest:
            return read_rows(range, self.columns, options)
        from native_log.log.reading.latest import latest_rows  # imports pyarrow.compute, which is slow

        return latest_rows(range, self.columns, options)


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
