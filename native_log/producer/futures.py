"""The results of sent records (Kafka: RecordMetadata, ProduceRequestResult, FutureRecordMetadata)."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from native_log.errors import InvalidBatchError, InvalidRecordError, KafkaTimeoutError
from native_log.records import AppendedRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

logger = logging.getLogger(__name__)

NO_OFFSET = NO_TIMESTAMP = -1
_guard = threading.Lock()
"""Protects what is created on demand. It is held for a few instructions only."""


class RecordMetadata(NamedTuple):
    """Where a record was written.

    Attributes:
        topic, partition: the log.
        offset: the record's offset; -1 with acks=0, or if the record was not written.
        timestamp: epoch ms; the record's own, or that of the log if message.timestamp.type is LogAppendTime.
        serialized_key_size, serialized_value_size: in bytes; -1: null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class BatchResult:
    """The result of a batch, which all of its records share.

    Attributes:
        topic, partition: the log.
        base_offset: the offset of the first record; -1: unknown.
        log_append_time_ms: the timestamp of all records; -1: they keep their own.
        error: why the batch was not written; None if it was.
        is_done: whether the other attributes are final.
        parts: the results of the batches into which this one was split, with the index of the first record.
    """

    __slots__ = (
        "_event",
        "base_offset",
        "error",
        "is_done",
        "log_append_time_ms",
        "partition",
        "parts",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.error: Exception | None = None
        self.is_done = False
        self.parts: Sequence[tuple[int, BatchResult]] = ()
        self._event: threading.Event | None = None

    def set(self, base_offset: int, log_append_time_ms: int, error: Exception | None) -> None:
        """Set the result and wake the threads that wait for it."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.error = error
        with _guard:
            self.is_done = True
            event = self._event
        if event is not None:
            event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the result is set, for at most `timeout` seconds. Return whether it is set."""
        if self.is_done:
            return True
        with _guard:
            if self._event is None:
                self._event = threading.Event()
                if self.is_done:
                    self._event.set()
        return self._event.wait(timeout)

    def error_of(self, index: int) -> Exception | None:
        """Return why a record was not written (Kafka: Sender.failBatch, KIP-467).

        If the log has named the invalid records of the batch, the others get an error that says so.
        """
        error = self.error
        if not isinstance(error, InvalidRecordError) or not error.record_errors:
            return error
        problem = error.record_errors.get(index)
        if problem is None:
            return InvalidBatchError(
                "Failed to append record because it was part of a batch which had one more more invalid "
                "records",
                path=error.path,
            )
        kind = type(error) if len(error.record_errors) == 1 else InvalidRecordError
        return kind(problem, path=error.path)

    def after_splits(self, record_count: int) -> Iterator[tuple[BatchResult, int]]:
        """Yield the results that apply to the records of a batch, in order, with their numbers of records."""
        if not self.parts:
            yield self, record_count
            return
        ends = [*(first for first, _ in self.parts[1:]), record_count]
        for (first, part), end in zip(self.parts, ends, strict=True):
            yield from part.after_splits(end - first)

    def of_record(self, index: int) -> tuple[BatchResult, int]:
        """Return the result that applies to a record, and the index of the record there."""
        for first, part in reversed(self.parts):
            if index >= first:
                return part.of_record(index - first)
        return self, index


class Batch(Protocol):
    """What a future needs of its batch."""

    result: BatchResult

    def add_callback(self, callback: Callable[..., object], future: RecordFuture, /) -> bool:
        """Call `callback` when the batch is done. Return False if it is done already."""


class RecordFuture(AppendedRecord):
    """The future metadata of one record. `get` returns it.

    A callback runs on the thread that completes the record, in the order of the records of a batch. An
    exception in a callback is logged and has no other effect. (Kafka: FutureRecordMetadata)
    """

    __slots__ = ()

    batch: Batch

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record to be written, and return its metadata.

        Args:
            timeout: in seconds; None: no timeout.

        Raises:
            KafkaTimeoutError: the record was not written in time. It may be written later.
            KafkaLogError, OSError: why the record was not written.
        """
        if not self.batch.result.is_done and not self.batch.result.wait(timeout):
            raise KafkaTimeoutError(f"Timeout after waiting for {timeout} s.")
        error = self.exception
        if error is not None:
            raise error
        return self.metadata()

    def metadata(self) -> RecordMetadata:
        """Return the metadata as far as it is known. The offset is -1 until the record is written."""
        result, index = self.batch.result, self.index
        if result.parts:
            result, index = result.of_record(index)
        offset = result.base_offset + index if result.base_offset >= 0 else NO_OFFSET
        append_time = result.log_append_time_ms
        return RecordMetadata(
            result.topic,
            result.partition,
            offset,
            self.timestamp if append_time == NO_TIMESTAMP else append_time,
            self.key_size,
            self.value_size,
        )

    @property
    def is_done(self) -> bool:
        """Whether the record was written or failed."""
        return self.batch.result.is_done

    @property
    def is_rejected(self) -> bool:
        """Whether `send` did not accept the record, for the reason in `exception`."""
        return isinstance(self.batch, _FailedBatch)

    @property
    def exception(self) -> Exception | None:
        """Why the record was not written; None if it was, or may still be."""
        result = self.batch.result
        if result.error is None and not result.parts:
            return None
        result, index = result.of_record(self.index)
        return result.error_of(index)

    @property
    def value(self) -> RecordMetadata | None:
        """The metadata of the record if it was written; else None."""
        return self.metadata() if self.succeeded() else None

    def succeeded(self) -> bool:
        """Return whether the record was written."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Return whether the record will not be written."""
        return self.is_done and self.exception is not None

    def add_callback(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> RecordFuture:
        """Call `function(*args, metadata, **kwargs)` when the record is written. Return this future."""

        def on_completion(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if error is None:
                function(*args, metadata, **kwargs)

        return self._add(on_completion)

    def add_errback(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> RecordFuture:
        """Call `function(*args, error, **kwargs)` if the record cannot be written. Return this future."""

        def on_completion(_: RecordMetadata | None, error: Exception | None) -> None:
            if error is not None:
                function(*args, error, **kwargs)

        return self._add(on_completion)

    def _add(self, callback: Callable[[RecordMetadata | None, Exception | None], object]) -> RecordFuture:
        if not self.batch.add_callback(callback, self):
            run_callback(callback, self)
        return self

    def __repr__(self) -> str:
        result = self.batch.result
        state = "pending" if not self.is_done else "failed" if self.exception else "written"
        return f"RecordFuture({result.topic}-{result.partition}, {state})"


def run_callback(
    callback: Callable[[RecordMetadata | None, Exception | None], object], future: RecordFuture
) -> None:
    """Call `callback` with the result of a finished record. An exception is logged."""
    error = future.exception
    try:
        callback(None if error is not None else future.metadata(), error)
    except Exception:
        logger.exception("an exception was raised by a callback of a record of %r", future)


class _FailedBatch:
    """The batch of a record that was not accepted."""

    def __init__(self, result: BatchResult) -> None:
        self.result = result

    def add_callback(self, _callback: Callable[..., object], _future: RecordFuture) -> bool:
        """Return False, because the record is done."""
        return False


def failed_future(topic: str, partition: int, error: Exception) -> RecordFuture:
    """Return the future of a record that was not accepted (Kafka: KafkaProducer.FutureFailure)."""
    result = BatchResult(topic, partition)
    result.set(NO_OFFSET, NO_TIMESTAMP, error)
    return RecordFuture(_FailedBatch(result))


def _reset_in_child() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_reset_in_child)
