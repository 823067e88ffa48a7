"""`kafkalog produce`: send the records in files and pipes to a log directory."""

from __future__ import annotations

import os
from itertools import count
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

import click

from native_log.cli.input_lines import LineTooLongError, read_lines
from native_log.cli.progress import show_progress
from native_log.cli.record_lines import MalformedLineError
from native_log.cli.runner import DATA_ERROR, exit_code_of, print_error
from native_log.errors import (
    InvalidBatchError,
    InvalidTopicError,
    KafkaLogError,
    NotALogDirError,
    RecordTooLargeError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
    error_message,
)
from native_log.logdir import LogDir
from native_log.logdir.create import check_topic
from native_log.logdir.discovery import find_partitions, local_paths
from native_log.producer.full_disk import is_full_disk
from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from native_log.cli.input_lines import Line
    from native_log.cli.stop_signals import StopSignals
    from native_log.producer import KafkaLogProducer, ProducerConfig, ProducerRecord, RecordFuture

STDIN = "-"
_LINE_BYTES_PER_BYTE = 6
"""The most bytes of a line for one byte of its record: JSON may escape each character."""
_LINE_OVERHEAD_BYTES = 64 * 1024
"""The bytes of a line beside key, value and headers, such as the names of JSON fields."""


class Format(Protocol):
    """A way to read lines: TextLines or JsonLines."""

    def parse(self, line: bytes) -> ProducerRecord | None:
        """Return the record of a line; None: the line is blank. Raises MalformedLineError."""


class LineError(KafkaLogError):
    """A line of the input was not written. The text names the file and the number of the line."""


class InputLine(NamedTuple):
    """The position of a line in the input. An earlier line compares as less.

    Attributes:
        file: the position of its file in the input, from 0 on.
        number: the number of the line, from 1 on.
        name: the name of the file.
    """

    file: int
    number: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}, line {self.number}"


class SentLine(NamedTuple):
    """A line whose record was sent.

    Attributes:
        line: where it is in the input.
        future: that of the record.
    """

    line: InputLine
    future: RecordFuture


class Tally:
    """Count records by their outcome.

    Args:
        skipped_errors: errors of a line that is reported and skipped. Others end the work.

    Attributes:
        written, failed, skipped: numbers of records.
        partitions: topics and partitions to which records were written.
        error: the error that ends the work, for the earliest line that has one; None: there is none.
        exit_code: that of the error.
        is_uncommitted: whether the records belong to a transaction that is not committed.
    """

    def __init__(self, skipped_errors: tuple[type[Exception], ...] = ()) -> None:
        self._skipped_errors = skipped_errors
        self.written = self.failed = self.skipped = 0
        self.partitions: set[tuple[str, int]] = set()
        self.error: LineError | None = None
        self._rank: tuple[int, InputLine] | None = None
        """The priority and the line of `error`. An error with a lower rank replaces it."""
        self.exit_code = 0
        self.is_uncommitted = False

    def complete(self, lines: Sequence[SentLine]) -> None:
        """Note the outcome of lines whose records were in one batch, which is done."""
        before = self.written
        for line, future in lines:
            error = future.exception
            if error is None:
                self.written += 1
            elif not isinstance(error, TransactionAbortedError):
                self.fail(line, error)
        if self.written > before:
            metadata = lines[0].future.metadata()
            self.partitions.add((metadata.topic, metadata.partition))

    def fail(self, line: InputLine, error: Exception, *, is_rejected: bool = False) -> None:
        """Note that a line was not written.

        Args:
            line: the line.
            error: the reason.
            is_rejected: whether the line was not accepted. Then the error belongs to it. In a transaction,
                earlier lines are aborted because of it and have the same error.
        """
        line_error = LineError(f"{line}: {error_message(error)}")
        exit_code = DATA_ERROR
        is_of_line = isinstance(error, _LINE_ERRORS) or is_full_disk(error)
        if isinstance(error, KafkaLogError | OSError) and not is_of_line:
            exit_code = exit_code_of(error)
        if isinstance(error, self._skipped_errors):
            self.skipped += 1
            print_error(line_error)
            return
        self.failed += 1
        # The invalid line of a batch says more than its valid lines.
        rank = 0 if is_rejected else 2 if isinstance(error, InvalidBatchError) else 1
        if self._rank is None or (rank, line) < self._rank:
            self.error, self.exit_code, self._rank = line_error, exit_code, (rank, line)

    def __str__(self) -> str:
        partitions = format_count(len(self.partitions), "partition")
        parts = [f"{format_count(self.written, 'record')} written to {partitions}"]
        if self.skipped:
            parts.append(f"{format_count(self.skipped, 'line')} skipped")
        if self.failed:
            parts.append(f"{format_count(self.failed, 'line')} failed")
        if self.is_uncommitted:
            parts.append("not committed")
        return ", ".join(parts)


_LINE_ERRORS = (
    *(MalformedLineError, LineTooLongError, RecordTooLargeError),
    *(InvalidTopicError, UnknownTopicOrPartitionError),
)
"""Errors whose reason is a line. Other lines can be written nevertheless."""


def skipped_errors(mode: str, config: ProducerConfig) -> tuple[type[Exception], ...]:
    """Return the errors of lines to skip. A record that is too large aborts a transaction in any mode."""
    if mode == "failFast":
        return ()
    return tuple(
        error for error in _LINE_ERRORS if config.transactional_id is None or error is not RecordTooLargeError
    )


class Production:
    """Send the records of all lines, up to an error or a signal.

    If transactional.id is set, the records are one transaction. An error or a signal aborts it.

    Args:
        producer: receives the records. `run` closes it.
        config: the settings of the producer.
        line_format: how to read a line.
        partition_counts: the number of partitions of each topic that exists.
        tally: counts the records.
        signals: end the work early.
    """

    def __init__(
        self,
        producer: KafkaLogProducer,
        config: ProducerConfig,
        line_format: Format,
        partition_counts: Mapping[str, int],
        tally: Tally,
        signals: StopSignals,
    ) -> None:
        self._producer = producer
        self._parse = line_format.parse
        self._partition_counts = partition_counts
        self._new_partitions = config.num_partitions
        self._is_transactional = config.transactional_id is not None
        self._max_line_bytes = config.max_request_size * _LINE_BYTES_PER_BYTE + _LINE_OVERHEAD_BYTES
        self._tally = tally
        self._signals = signals
        self._sent: dict[object, list[SentLine]] = {}
        """The lines whose outcome is not known, by the batch of their records."""
        self.last_line: InputLine | None = None
        """The last line that was sent; None: there was none."""

    def run(self, paths: Sequence[str]) -> None:
        """Send the lines of files. Write what was sent, and close the producer.

        Raises:
            KeyboardInterrupt: there was a second signal. Records that were not written by then have failed.
            KafkaLogError: a transaction cannot begin or end.
            OSError: a file cannot be read.
        """
        try:
            try:
                if self._is_transactional:
                    self._run_transaction(paths)
                else:
                    self._send_until_signal(paths)
            finally:
                self._producer.close()
        except KeyboardInterrupt:
            self._producer.close(0)
            raise
        except OSError as error:
            self._complete_lines()
            # The error of the line has the same cause, and the producer has logged this one.
            if self._tally.error is None or not is_full_disk(error):
                raise
        finally:
            self._complete_lines()

    def _run_transaction(self, paths: Sequence[str]) -> None:
        self._tally.is_uncommitted = True
        self._producer.init_transactions()
        self._producer.begin_transaction()
        try:
            self._send_until_signal(paths)
            self._producer.flush()
            self._complete_lines()
        except Exception:
            self._producer.abort_transaction()
            raise
        if self._tally.error is not None or self._signals.received:
            self._producer.abort_transaction()
        else:
            self._producer.commit_transaction()
            self._tally.is_uncommitted = False

    def _send_until_signal(self, paths: Sequence[str]) -> None:
        try:
            self._send_files(paths)
        except KeyboardInterrupt:
            if len(self._signals.received) > 1:
                raise

    def _send_files(self, paths: Sequence[str]) -> None:
        sizes = [size_bytes(path) for path in paths]
        total = sum(size for size in sizes if size is not None)
        with show_progress("writing", total, shown=None not in sizes) as advance:
            for position, path in enumerate(paths):
                with click.open_file(path, "rb") as file:
                    name = "stdin" if path == STDIN else path
                    if not self._send_lines(position, name, cast("BinaryIO", file), advance):
                        return

    def _send_lines(self, position: int, name: str, file: BinaryIO, advance: Callable[[int], None]) -> bool:
        """Send the lines of a file. Return False if no more lines may follow."""
        numbers = count(1)
        for lines, read_bytes in read_lines(file, self._max_line_bytes, self._read):
            for text in lines:
                line = self.last_line = InputLine(position, next(numbers), name)
                try:
                    self._send(line, text)
                except (KafkaLogError, OSError, ValueError, TypeError) as error:
                    self._tally.fail(line, error, is_rejected=True)
                if self._tally.error is not None or self._signals.received:
                    return False
            self._complete_lines()
            advance(read_bytes)
        return self._tally.error is None

    def _read(self, file: BinaryIO, max_bytes: int) -> bytes:
        with self._signals.interruptible():
            return file.read1(max_bytes)  # type: ignore[attr-defined, no-any-return]

    def _send(self, line: InputLine, text: Line) -> None:
        if isinstance(text, LineTooLongError):
            raise text
        record = self._parse(text)
        if record is None:
            return
        if record.partition is not None:
            self._check_partition(record.topic, record.partition)
        future = self._producer.send(*record)
        if future.is_rejected and future.exception is not None:
            raise future.exception
        self._sent.setdefault(future.batch, []).append(SentLine(line, future))

    def _complete_lines(self) -> None:
        """Count the lines whose records are written or have failed."""
        done = [batch for batch, lines in self._sent.items() if lines[0].future.is_done]
        for batch in done:
            self._tally.complete(self._sent.pop(batch))

    def _check_partition(self, topic: str, partition: int) -> None:
        # The producer would create the topic first, or wait for the partition for max.block.ms.
        partitions, hint = self._partition_counts.get(topic), ""
        if partitions is None:
            partitions, hint = self._new_partitions, "; set --partitions for topics that do not exist yet"
        if partition >= partitions:
            raise MalformedLineError(
                f"partition: expected one below {partitions} for topic {topic}, found {partition}{hint}"
            )


def size_bytes(path: str) -> int | None:
    """Return the size of a file; None: it is a pipe or a terminal."""
    if path == STDIN:
        return None
    status = os.stat(path)  # noqa: PTH116
    return status.st_size if S_ISREG(status.st_mode) else None


def open_or_create(
    paths: Sequence[str], topic: str | None, new_partitions: int, cluster_id: str | None, node_id: int
) -> LogDir:
    """Open log directories. If none of them exists, create them.

    Args:
        paths: the log directories of one broker.
        topic: the topic to which records are written; None: it is not known.
        new_partitions: the number of partitions of a topic that does not exist.
        cluster_id, node_id: ids of new log directories; see LogDir.create.

    Raises:
        NotALogDirError: a path is a partition directory, or not of Kafka.
        InvalidTopicError: the topic cannot be created.
        ValueError: an invalid id.
        OSError: a path cannot be read or created.
    """
    if topic is not None:
        check_topic(topic, new_partitions)
    locations = local_paths(paths, ())
    if not any(map(_has_content, locations)):
        return LogDir.create(paths, cluster_id=cluster_id, node_id=node_id)
    for location in locations:
        if find_partitions(location).is_partition:
            raise NotALogDirError(
                "expected a log directory to write to, found a partition directory; write to its parent",
                path=location,
            )
    return LogDir(paths, allow_empty=True)


def _has_content(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))
