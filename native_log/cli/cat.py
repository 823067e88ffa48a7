"""`kafkalog cat`: the records of one or several partitions, one partition after the other."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from native_log.cli.formats import CORRUPT_RECORD, json_line, rows, text_line
from native_log.cli.progress import progress
from native_log.cli.tail import tail_start
from native_log.errors import UnknownTopicOrPartitionError
from native_log.logdir import INTERNAL_TOPICS
from native_log.records import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of each partition. Times are epoch ms; ends are exclusive; None means no bound."""

    offset: int | None = None
    from_ms: int | None = None
    end_offset: int | None = None
    until_ms: int | None = None
    tail: int | None = None
    isolation_level: str = "read_uncommitted"
    mode: str = "failFast"


def chosen(log_dir: LogDir, topics: Iterable[str], partitions: Iterable[int]) -> list[PartitionDir]:
    """The partitions to read: those of the topics named, else of all but internal topics.

    A partition directory that was given by its own path counts as named. Raises UnknownTopicOrPartitionError.
    """
    named, numbers = set(topics), set(partitions)
    for topic in sorted(named - log_dir.topics().keys()):
        log_dir.partition(topic, 0)  # raises, saying what is there
    found = [
        one
        for one in log_dir.partitions()
        if (one.topic in named if named else one.topic not in INTERNAL_TOPICS or one.path in log_dir.paths)
    ]
    if not found:
        internal = ", ".join(log_dir.topics())
        raise UnknownTopicOrPartitionError(
            f"there are internal topics only ({internal}): name one with --topic"
        )
    there = {one.partition for one in found}
    if not numbers <= there:
        raise UnknownTopicOrPartitionError(
            f"no partition {min(numbers - there)} of {', '.join(sorted({one.topic for one in found}))}; "
            f"there are {', '.join(map(str, sorted(there)))}"
        )
    return [one for one in found if not numbers or one.partition in numbers]


def bounds(log: PartitionLog, wanted: Wanted) -> tuple[int, int]:
    """First and exclusive end offset of what is wanted. Offsets outside of the log are taken to its ends."""
    whole = log.range(isolation_level=wanted.isolation_level)
    first, end = whole.start_offset, whole.end_offset

    def within(offset: int | None) -> int:
        return end if offset is None else min(max(offset, first), end)

    def at_time(time_ms: int) -> int:
        return within(
            log.offset_for_timestamp(time_ms, isolation_level=wanted.isolation_level, mode=wanted.mode)
        )

    start, stop = first, end
    if wanted.offset is not None:
        start = within(wanted.offset)
        if start != wanted.offset:
            logger.warning(
                "%s-%d has offsets from %d up to %d (exclusive): offset %d is not among them",
                *(log.topic, log.partition, first, end, wanted.offset),
            )
    elif wanted.from_ms is not None:
        start = at_time(wanted.from_ms)
    if wanted.end_offset is not None:
        stop = within(wanted.end_offset)
    elif wanted.until_ms is not None:
        stop = at_time(wanted.until_ms)
    if wanted.tail is not None and start < stop:
        start = tail_start(
            log, start, stop, wanted.tail, isolation_level=wanted.isolation_level, mode=wanted.mode
        )
    return start, max(start, stop)


@dataclass(frozen=True, slots=True)
class Output:
    """How records are printed, and where. `form` is text, json or arrow."""

    form: str
    file: BinaryIO
    include_headers: bool = False
    always_base64: bool = False
    color: bool = False


def print_records(
    log_dir: LogDir, partitions: Iterable[PartitionDir], wanted: Wanted, limit: int | None, output: Output
) -> None:
    """Print what is wanted of each partition, one after the other, `limit` records in all."""
    columns = [*COLUMNS, *(["headers"] if output.include_headers else [])]
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
    if wanted.mode == "permissive":
        schema = schema.append(pa.field(CORRUPT_RECORD, pa.string()))
    logs = [log_dir.partition(one.topic, one.partition) for one in partitions]
    spans = [bounds(log, wanted) for log in logs]
    total = sum(end - start for start, end in spans)
    with progress("reading", total, shown=not output.file.isatty()) as advance:
        batches = (
            batch
            for log, (start, end) in zip(logs, spans, strict=True)
            for batch in _advancing(_records(log, start, end, wanted, schema.names), start, end, advance)
        )
        _write(limited(batches, limit), schema, output)


def _records(
    log: PartitionLog, start: int, end: int, wanted: Wanted, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    if start < end:
        yield from log.read(start, end, columns, wanted.isolation_level, mode=wanted.mode)


def _advancing(
    batches: Iterable[pa.RecordBatch], start: int, end: int, advance: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The batches, telling the progress bar after each how many offsets were passed."""
    done = start
    for batch in batches:
        yield batch
        offset = batch.column("offset")[-1].as_py() if batch.num_rows else None
        if offset is not None and offset >= done:
            advance(offset + 1 - done)
            done = offset + 1
    advance(end - done)


def _write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, output: Output) -> None:
    if output.form == "arrow":
        with pa.ipc.new_stream(output.file, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        return
    for batch in batches:
        if output.form == "json":
            lines = [json_line(row, always_base64=output.always_base64) for row in rows(batch)]
        else:
            lines = [text_line(row, color=output.color) for row in rows(batch)]
        output.file.write("".join(f"{line}\n" for line in lines).encode())


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows; nothing is read behind them."""
    if limit is None:
        yield from batches
        return
    left = limit
    for batch in batches if left > 0 else ():
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
