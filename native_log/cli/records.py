"""The records of one or several partitions, one partition after the other."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import click
import pyarrow as pa

from native_log.cli.progress import progress
from native_log.cli.record_filter import RecordFilter
from native_log.cli.rendering import Rendering
from native_log.cli.tail import tail_start
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from native_log.arguments import IsolationLevel, Mode
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of each partition. `end_offset` is exclusive; None means no bound."""

    offset: int | None = None
    end_offset: int | None = None
    tail: int | None = None
    filter: RecordFilter = field(default_factory=RecordFilter)
    isolation_level: IsolationLevel = "read_uncommitted"
    mode: Mode = "failFast"

    def read(
        self, log: PartitionLog, start: int, end: int, columns: Sequence[str], advance: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """The records from `start` to before `end` that meet the filter, with these columns.

        Args:
            advance: called with how many more offsets were passed.
        """
        if start >= end:
            return
        done = start
        read = list(dict.fromkeys([*columns, "offset", *self.filter.columns]))
        for batch in log.read(start, end, read, self.isolation_level, mode=self.mode):
            yield self.filter.apply(batch).select(columns)
            last = batch.column("offset")[-1].as_py() if batch.num_rows else None
            if last is not None and last >= done:
                advance(last + 1 - done)
                done = last + 1
        advance(end - done)


class OutsideLogError(click.UsageError):
    """Offsets that a log does not have."""


def bounds(log: PartitionLog, wanted: Wanted) -> tuple[int, int]:
    """First and exclusive end offset of what has to be read.

    Raises OutsideLogError.
    """
    whole = log.range(isolation_level=wanted.isolation_level)
    first, end = whole.start_offset, whole.end_offset
    has = f"{log.topic}-{log.partition} has offsets from {first} up to {end} (exclusive)"
    start, stop = first, end
    if wanted.offset is not None:
        if wanted.offset > end:
            raise OutsideLogError(f"{has}: --offset {wanted.offset} lies beyond")
        if wanted.offset < first:
            logger.warning("%s: offset %d is not among them", has, wanted.offset)
        start = max(wanted.offset, first)
    if wanted.end_offset is not None:
        if wanted.end_offset < first:
            raise OutsideLogError(f"{has}: --end-offset {wanted.end_offset} lies below")
        stop = min(wanted.end_offset, end)
    if wanted.filter.from_ms is not None:
        found = log.offset_for_timestamp(
            wanted.filter.from_ms, isolation_level=wanted.isolation_level, mode=wanted.mode
        )
        start = stop if found is None else max(start, found)
    if wanted.tail is not None and start < stop:
        start = tail_start(lambda low, high: _offsets(log, wanted, low, high), start, stop, wanted.tail)
    return start, max(start, stop)


def _offsets(log: PartitionLog, wanted: Wanted, start: int, end: int) -> Iterator[int]:
    for batch in wanted.read(log, start, end, ["offset"], lambda _: None):
        yield from (offset for offset in batch.column("offset").to_pylist() if offset is not None)


def print_records(
    log_dir: LogDir,
    partitions: Iterable[PartitionDir],
    wanted: Wanted,
    limit: int | None,
    rendering: Rendering | Sequence[str],
    output: BinaryIO,
) -> None:
    """Print what is wanted of each partition, one after the other, `limit` records in all.

    Args:
        rendering: or the columns of an Arrow IPC stream.

    Raises:
        OutsideLogError: no partition has the offsets wanted.
    """
    columns = list(rendering.columns if isinstance(rendering, Rendering) else rendering)
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
    if wanted.mode == "permissive":
        schema = schema.append(pa.field(CORRUPT_RECORD, pa.string()))
    spans = _spans([log_dir.partition(one.topic, one.partition) for one in partitions], wanted)
    total = sum(end - start for _, start, end in spans)
    with progress("reading", total, shown=not output.isatty()) as advance:
        batches = limited(
            (
                batch
                for log, start, end in spans
                for batch in wanted.read(log, start, end, schema.names, advance)
            ),
            limit,
        )
        if isinstance(rendering, Rendering):
            for batch in batches:
                for text in rendering.render(batch):
                    output.write(text)
        else:
            with pa.ipc.new_stream(output, schema) as stream:
                for batch in batches:
                    stream.write_batch(batch)


def _spans(logs: Iterable[PartitionLog], wanted: Wanted) -> list[tuple[PartitionLog, int, int]]:
    """The logs with what has to be read of each; those without the offsets wanted are reported."""
    spans, outside = [], []
    for log in logs:
        try:
            spans.append((log, *bounds(log, wanted)))
        except OutsideLogError as error:
            outside.append(error)
    if outside and not spans:
        raise outside[0]
    for one in outside:
        logger.warning("%s", one.message)
    return spans


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows; nothing is read behind them."""
    if limit is None:
        yield from batches
        return
    left = limit
    for batch in batches if left > 0 else ():
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows
        if left <= 0:
            return
