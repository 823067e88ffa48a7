"""Ranges of logs as a source that can be read more than once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.log.changing_files import CHANGED
from native_log.log.reading.columns import record_schema
from native_log.log.reading.options import read_options, with_parsed_filter
from native_log.log.reading.parallel import PART_BYTES, read_parts
from native_log.log.reading.row_selection import RowSelection
from native_log.log.reading.small_parts import read_small_parts, small_parts
from native_log.prefetch import map_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.filters.forms import FilterLike
    from native_log.log.reading.log_range import LogRange
    from native_log.log.reading.options import ReadArguments


@dataclass(frozen=True, slots=True)
class LogScan:
    """Columns of the records of ranges. Each call of a method reads the ranges again.

    All reads return the same offsets, even if records are appended in between. Ranges are read one after the
    other, each in the order of offsets. Libraries that know Arrow's PyCapsule interface accept a scan more
    than once: DuckDB, `polars.DataFrame(scan)`, `pyarrow.table(scan)`. They read all its columns.
    `to_dataset` returns a source from which they read only the columns and rows that a query needs.

    Attributes:
        ranges: the ranges of offsets.
        columns: names of RECORD_SCHEMA, and `_corrupt_record`.
        arguments: keyword arguments of LogRange.read.
        threads: how many threads decode records. More threads read small segments that are not on a local
            disk, because they mostly wait for requests.
    """

    ranges: tuple[LogRange, ...]
    columns: tuple[str, ...]
    arguments: ReadArguments
    threads: int = 1

    def __post_init__(self) -> None:
        """Check the columns and the arguments. Raises ValueError, FilterError, TypeError."""
        record_schema(self.columns)
        self.arguments.update(with_parsed_filter(self.arguments))

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the columns, with their types in RECORD_SCHEMA."""
        return record_schema(self.columns)

    @property
    def size_bytes(self) -> int:
        """The number of bytes in .log files from which the records are read, before any filter."""
        return sum(each.size_bytes for each in self.ranges)

    def batches(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[pa.RecordBatch]:
        """Yield the records in batches of a few megabytes. Raises as LogRange.read.

        Args:
            advance: called with the number of bytes of .log files that were read since the last call.
        """
        small = small_parts(self.ranges)
        if small is not None:
            return read_small_parts(small, self._read, advance)
        if self.threads == 1:
            return self._read_all(advance)
        are_local = all(each.is_local for each in self.ranges)
        parts = chain.from_iterable(map_together(self._parts, self.ranges, are_local=are_local))
        return read_parts(parts, self._read, self.threads, advance)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the records as a stream of record batches, which can be read once.

        Reading raises as LogRange.read does. After that it has no rows, and pyarrow
        raises no error.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_table(self) -> pa.Table:
        """Read all records into memory. Raises as LogRange.read."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """Read all records into a pandas DataFrame. Raises as LogRange.read."""
        return self.to_table().to_pandas()

    def count_rows(self) -> int:
        """Return the number of records that a read returns.

        Only headers of batches are read where they suffice: without a filter, or with one of offsets, topics
        and partitions. Damage that only a checksum reveals is then not found.

        Raises: as LogRange.read.
        """
        from native_log.log.reading.counting import count_rows

        return count_rows(self.ranges, read_options(self.arguments), self.threads)

    def to_dataset(self) -> Any:
        """Return a pyarrow.dataset.Dataset. DuckDB, DataFusion and Polars read only what a query needs."""
        from native_log.log.reading.dataset import LogDataset

        return LogDataset(self.schema, self.select)

    def select(self, columns: Sequence[str] | None = None, filter: FilterLike = None) -> LogScan:
        """Return a scan of other columns (None: the same), with a further filter.

        Raises ValueError for an unknown column, FilterError for an invalid filter.
        """
        from native_log.filters import RecordFilter, to_filter  # takes long to import

        added, known = to_filter(filter), self.arguments.get("filter")
        if added is not None and isinstance(known, RecordFilter):
            added = known.combined_with(added)
        arguments: ReadArguments = {**self.arguments, "filter": added or known}
        return replace(self, columns=self.columns if columns is None else tuple(columns), arguments=arguments)

    def _read_all(self, advance: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        for each in self.ranges:
            yield from self._read(each)
            advance(each.size_bytes)

    def _parts(self, range: LogRange) -> list[LogRange]:
        """Split a range into parts, without what lies before the first time that the filter selects."""
        try:
            return self._from_first_time(range).split(PART_BYTES)
        except CHANGED:
            return [range]  # a broker removed a segment; the reader continues with what took its place

    def _from_first_time(self, range: LogRange) -> LogRange:
        selection = RowSelection.of((), read_options(self.arguments), (range.topic, range.partition))
        if selection.min_timestamp_ms is None:
            return range
        for index, part in enumerate(range.slices):
            rest = selection.rest_of(part, range.max_batch_bytes)
            if rest.size_bytes:
                first = min(max(range.start_offset, rest.first_offset), range.end_offset)
                return replace(range, start_offset=first, slices=(rest, *range.slices[index + 1 :]))
        return replace(range, start_offset=range.end_offset, slices=())

    def _read(self, range: LogRange) -> Iterator[pa.RecordBatch]:
        return range.read(self.columns, **self.arguments)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream of all records (Arrow's PyCapsule interface)."""
        return self.to_reader().__arrow_c_stream__(requested_schema)
