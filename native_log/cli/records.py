"""Print the records of partitions, one partition after another."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

import click
import pyarrow as pa
import pyarrow.compute as pc

from native_log.cli.hidden_records import warn_of_hidden_records
from native_log.cli.progress import show_progress
from native_log.cli.record_filter import RecordFilter
from native_log.cli.rendering import Rendering
from native_log.cli.tail import tail_start
from native_log.prefetch import map_together
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from native_log.arguments import IsolationLevel, Mode
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Selects records of each partition.

    Attributes:
        offset: inclusive; None: from the log start offset on.
        end_offset: exclusive; None: up to the end.
        tail: the number of records before the end; None: all.
    """

    offset: int | None = None
    end_offset: int | None = None
    tail: int | None = None
    filter: RecordFilter = field(default_factory=RecordFilter)
    isolation_level: IsolationLevel = "read_uncommitted"
    mode: Mode = "failFast"

    def read(
        self, log: PartitionLog, start: int, end: int, columns: Sequence[str], advance: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Read the records with offsets in [start, end) that meet the filter.

        Args:
            columns: the columns of the result.
            advance: called with the number of offsets processed since the last call.
        """
        if start >= end:
            return
        done = start
        needed = list(dict.fromkeys([*columns, "offset", *self.filter.columns]))
        filter = self.filter.when_reading(self.mode)
        batches = log.read(
            start,
            end,
            needed,
            self.isolation_level,
            mode=self.mode,
            fail_on_data_loss=self.mode == "failFast",
            filter=filter,
        )
        for batch in batches:
            yield self.filter.apply(batch).select(columns)
            last = batch.column("offset")[-1].as_py() if batch.num_rows else None
            if last is not None and last >= done:
                advance(last + 1 - done)
                done = last + 1
        advance(end - done)


class OutsideLogError(click.UsageError):
    """The requested offsets are not in a log."""


def find_range(log: PartitionLog, query: RecordQuery) -> tuple[int, int]:
    """Return the offsets to read: the first, and the end (exclusive).

    Raises:
        OutsideLogError: the log has none of the requested offsets.
    """
    whole = log.range(isolation_level=query.isolation_level)
    first, end = whole.start_offset, whole.end_offset
    has = f"{log.topic}-{log.partition} has offsets from {first} up to {end} (exclusive)"
    start, stop = first, end
    if query.offset is not None:
        if query.offset > end:
            raise OutsideLogError(f"{has}: --offset {query.offset} is after them")
        if query.offset < first:
            logger.warning("%s: offset %d is before them", has, query.offset)
        start = max(query.offset, first)
    if query.end_offset is not None:
        if query.end_offset < first:
            raise OutsideLogError(f"{has}: --end-offset {query.end_offset} is before them")
        stop = min(query.end_offset, end)
    if query.filter.from_ms is not None:
        first_in_time = log.offset_for_time_ms(query.filter.from_ms, query.isolation_level, query.mode)
        start = stop if first_in_time is None else max(start, first_in_time)
    if query.tail is not None and start < stop:
        start = tail_start(lambda low, high: _offsets(log, query, low, high), start, stop, query.tail)
    return start, max(start, stop)


def _offsets(log: PartitionLog, query: RecordQuery, start: int, end: int) -> Iterator[int]:
    for batch in query.read(log, start, end, ["offset"], lambda _: None):
        yield from (offset for offset in batch.column("offset").to_pylist() if offset is not None)


def print_records(
    log_dir: LogDir,
    partitions: Iterable[PartitionDir],
    query: RecordQuery,
    limit: int | None,
    rendering: Rendering | Sequence[str],
    output: BinaryIO,
    *,
    followed: Callable[[str, int], bool] | None = None,
) -> None:
    """Print the selected records of each partition, at most `limit` records in total.

    Args:
        log_dir: the log directories.
        partitions: the partitions to print.
        query: selects records.
        limit: the maximum number of records; None: no limit.
        rendering: how to print a record; a list of columns: print an Arrow IPC stream.
        output: where to print.
        followed: print records that arrive later, too, also those of new partitions for which this returns
            true. None: end after the records that are there.

    Raises:
        OutsideLogError: no partition has the requested offsets.
    """
    columns = list(rendering.columns if isinstance(rendering, Rendering) else rendering)
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
    if query.mode == "permissive":
        schema = schema.append(pa.field(CORRUPT_RECORD, pa.string()))
    logs = list(log_dir.open_logs(partition.key for partition in partitions).values())
    ranges = _find_ranges(logs, query, are_local=log_dir.is_local)
    batches = _read_ranges(ranges, query, schema.names, output)
    if followed is not None:
        batches = chain(batches, _follow(log_dir, ranges, query, schema.names, followed))
    batches = limit_rows(batches, limit)
    if followed is None and limit != 0:
        batches = _warn_if_empty(batches, log_dir, logs)
    write_batches(batches, schema, rendering, output, flushes=followed is not None)


def write_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    rendering: Rendering | Sequence[str],
    output: BinaryIO,
    *,
    flushes: bool,
) -> None:
    """Write records to a file or pipe.

    Args:
        schema: of the batches.
        rendering: how to print a record; a list of columns: write an Arrow IPC stream.
        flushes: whether each batch is visible at once.
    """
    if isinstance(rendering, Rendering):
        for batch in batches:
            for text in rendering.render(batch):
                output.write(text)
            if flushes:
                output.flush()
    else:
        with pa.ipc.new_stream(output, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
                if flushes:
                    output.flush()


def _warn_if_empty(
    batches: Iterable[pa.RecordBatch], log_dir: LogDir, logs: Sequence[PartitionLog]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches. If they have no rows, warn of records that are not read yet."""
    is_empty = True
    for batch in batches:
        is_empty = is_empty and batch.num_rows == 0
        yield batch
    if is_empty:
        warn_of_hidden_records(log_dir, logs)


_Range = tuple["PartitionLog", int, int]
"""A log, and the offsets to read: the first, and the end (exclusive)."""


def _read_ranges(
    ranges: Sequence[_Range], query: RecordQuery, columns: Sequence[str], output: BinaryIO
) -> Iterator[pa.RecordBatch]:
    total = sum(end - start for _, start, end in ranges)
    with show_progress("reading", total, shown=not output.isatty()) as advance:
        for log, start, end in ranges:
            yield from query.read(log, start, end, columns, advance)


def _follow(
    log_dir: LogDir,
    ranges: Sequence[_Range],
    query: RecordQuery,
    columns: Sequence[str],
    followed: Callable[[str, int], bool],
) -> Iterator[pa.RecordBatch]:
    """Yield the selected records after these ranges, as they arrive."""
    starts = {(log.topic, log.partition): end for log, _, end in ranges}
    needed = list(dict.fromkeys([*columns, "offset", *query.filter.columns]))
    filter = query.filter.when_reading(query.mode)
    with log_dir.follow(
        followed,
        starts,
        needed,
        query.isolation_level,
        mode=query.mode,
        fail_on_data_loss=False,
        filter=filter,
    ) as batches:
        for batch in batches:
            if query.offset is not None:
                is_wanted = pc.greater_equal(batch.column("offset"), query.offset)
                batch = batch.filter(is_wanted.fill_null(True))
            yield query.filter.apply(batch).select(columns)


def _find_ranges(logs: Sequence[PartitionLog], query: RecordQuery, *, are_local: bool) -> list[_Range]:
    """Return each log with the offsets to read. Warn about logs that do not have the requested offsets."""

    def find(log: PartitionLog) -> _Range | OutsideLogError:
        try:
            return (log, *find_range(log, query))
        except OutsideLogError as error:
            return error

    found = list(map_together(find, logs, are_local=are_local))
    ranges = [each for each in found if not isinstance(each, OutsideLogError)]
    outside = [each for each in found if isinstance(each, OutsideLogError)]
    if outside and not ranges:
        raise outside[0]
    for outside_error in outside:
        logger.warning("%s", outside_error.message)
    return ranges


def limit_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows. Read no batch after them."""
    if limit is None:
        yield from batches
        return
    left = limit
    for batch in batches if left > 0 else ():
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows
        if left <= 0:
            return
