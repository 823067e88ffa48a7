"""A batch of records on its way to a log (Kafka: ProducerBatch)."""

from __future__ import annotations

import os
import threading
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from native_log.errors import RecordTooLargeError
from native_log.log.writing.built_batches import decode_built
from native_log.producer.block import RecordBlock
from native_log.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    BatchResult,
    RecordFuture,
    run_callback,
)
from native_log.producer.record_size import max_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.producer.backoff import ExponentialBackoff
    from native_log.producer.futures import RecordMetadata
    from native_log.records import BatchBuilder

NO_SEQUENCE = -1
_guard = threading.Lock()
"""Protects the callbacks of all batches. It is held for a few instructions only."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerBatch:
    """A batch, from its first record until the result is known.

    Attributes:
        target: the partition.
        builder: contains the records; a RecordBlock if they are Arrow records.
        result: shared by the futures of all records.
        created_ms, last_attempt_ms: times.
        attempts: how often the batch was put back into its queue.
        backoff_ms: how long it waits there before the next attempt.
        last_error: why the last attempt failed; None if none did.
        producer_id, producer_epoch, base_sequence, is_transactional: set when the batch is drained.
        buffer_bytes, extra_bytes: taken from the buffer pool when the batch was created and closed.
        is_split: whether the batch is a part of a batch that was too large.
        callbacks: callbacks with the futures of their records, in the order of the records.
    """

    __slots__ = (
        "attempts",
        "backoff_ms",
        "base_sequence",
        "buffer_bytes",
        "builder",
        "callbacks",
        "created_ms",
        "extra_bytes",
        "is_split",
        "is_transactional",
        "last_attempt_ms",
        "last_error",
        "producer_epoch",
        "producer_id",
        "result",
        "target",
    )

    def __init__(
        self,
        target: TopicPartition,
        builder: BatchBuilder | RecordBlock,
        created_ms: int,
        buffer_bytes: int = 0,
        *,
        is_split: bool = False,
    ) -> None:
        self.target = target
        self.builder = builder
        self.result = BatchResult(target.topic, target.partition)
        self.created_ms = self.last_attempt_ms = created_ms
        self.attempts = self.backoff_ms = 0
        self.last_error: Exception | None = None
        self.producer_id = self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.buffer_bytes = buffer_bytes
        self.extra_bytes = 0
        self.is_split = is_split
        self.callbacks: list[tuple[Callable[..., object], RecordFuture]] = []

    @property
    def record_count(self) -> int:
        """The number of records."""
        return self.builder.record_count

    @property
    def is_done(self) -> bool:
        """Whether the result is known."""
        return self.result.is_done

    @property
    def is_full(self) -> bool:
        """Whether the batch takes no more records."""
        return self.builder.is_closed or self.builder.is_full

    def must_be_split(self, error: Exception) -> bool:
        """Return whether the batch could not be written only because it has too many records."""
        return isinstance(error, RecordTooLargeError) and self.record_count > 1

    @property
    def has_sequence(self) -> bool:
        """Whether the batch has a sequence of an idempotent producer."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def estimated_bytes(self) -> int:
        """The estimated size of the batch as written."""
        return self.builder.estimated_bytes

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None,
        timestamp_ms: int,
        callback: Callable[[RecordMetadata | None, Exception | None], object] | None,
    ) -> RecordFuture | None:
        """Append a record. Return its future, or None if there is no room."""
        count = self.builder.append(value, key, headers, timestamp_ms)
        if not count:
            return None
        key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
        future = RecordFuture(self, abs(count) - 1, timestamp_ms, key_size, value_size)
        if callback is not None:
            self.callbacks.append((callback, future))
        return future

    def add_callback(
        self, callback: Callable[[RecordMetadata | None, Exception | None], object], future: RecordFuture, /
    ) -> bool:
        """Call `callback` when the batch is done. Return False if it is done already."""
        with _guard:
            if self.result.is_done:
                return False
            self.callbacks.append((callback, future))
            return True

    def complete(self, base_offset: int, log_append_time_ms: int, error: Exception | None) -> bool:
        """Set the result, then run the callbacks. Return False if the batch was done before.

        The futures of the batch can be read in the callbacks.
        """
        with _guard:
            if self.result.is_done:
                return False
            self.result.set(base_offset, log_append_time_ms, error)
            callbacks, self.callbacks = self.callbacks, []
        for callback, future in callbacks:
            run_callback(callback, future)
        return True

    def fail(self, error: Exception) -> bool:
        """Complete the batch with an error. Return False if it was done before."""
        return self.complete(NO_OFFSET, NO_TIMESTAMP, error)

    def put_back(self, now_ms: int, backoff: ExponentialBackoff) -> None:
        """Note that the batch is put back into its queue after a failed attempt."""
        self.attempts += 1
        # Draw the random delay once per attempt, so that `ready` and `drain` agree on whether it has passed.
        self.backoff_ms = backoff.delay_ms(self.attempts)
        self.last_attempt_ms = max(self.last_attempt_ms, now_ms)

    def waited_ms(self, now_ms: int) -> int:
        """Return how long the batch has been in its queue."""
        return max(0, now_ms - self.last_attempt_ms)

    def backoff_left_ms(self, now_ms: int) -> int:
        """Return how long the batch must still wait before its next attempt; 0 or less: it may be sent."""
        return self.backoff_ms - self.waited_ms(now_ms)

    def is_expired(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        """Return whether the batch has waited for delivery.timeout.ms since its creation."""
        return delivery_timeout_ms <= now_ms - self.created_ms

    def split(self, new_builder: Callable[[int], BatchBuilder], batch_size: int) -> list[ProducerBatch]:
        """Divide the records into batches of about `batch_size` bytes (Kafka: ProducerBatch.split).

        If this batch is itself a part, the parts have at most half of its records: the log accepts less than
        `batch_size`, so that a division by size would not make the parts smaller (KAFKA-8350). So it is with
        Arrow records, which were encoded as batches of `batch_size`.

        The result of this batch is set when those of all parts are set.

        Args:
            new_builder: returns a builder with a limit in bytes.
            batch_size: the limit, unless a single record needs more.
        """
        builders: Sequence[BatchBuilder | RecordBlock]
        if isinstance(self.builder, RecordBlock):
            builders = self.builder.halve()
        else:
            max_records = (self.record_count + 1) // 2 if self.is_split else self.record_count
            builders = _divide(self.builder, new_builder, batch_size, max_records)
        parts = [ProducerBatch(self.target, builder, self.created_ms, is_split=True) for builder in builders]
        starts = accumulate((part.record_count for part in parts[:-1]), initial=0)
        unfinished = len(parts)

        def finish(_: RecordMetadata | None, __: Exception | None) -> None:
            nonlocal unfinished
            unfinished -= 1
            if not unfinished:
                self.complete(NO_OFFSET, NO_TIMESTAMP, None)

        self.result.parts = [(start, part.result) for start, part in zip(starts, parts, strict=True)]
        sequence = self.base_sequence
        for part in parts:
            part.builder.close()
            part.attempts, part.backoff_ms = self.attempts, self.backoff_ms
            part.last_attempt_ms = self.last_attempt_ms
            part.callbacks.append((finish, RecordFuture(part)))
            if self.has_sequence:
                part.producer_id, part.producer_epoch = self.producer_id, self.producer_epoch
                part.is_transactional = self.is_transactional
                part.base_sequence = sequence
                sequence = (sequence + part.record_count) % 2**31
        return parts

    def __repr__(self) -> str:
        return f"ProducerBatch({self.target}, {self.record_count} records)"


def _divide(
    builder: BatchBuilder, new_builder: Callable[[int], BatchBuilder], batch_size: int, max_records: int
) -> list[BatchBuilder]:
    """Return builders with the records of `builder`. See ProducerBatch.split."""
    builders: list[BatchBuilder] = []
    for value, key, headers, timestamp in _records(builder):
        is_full = not builders or builders[-1].record_count == max_records
        if is_full or not builders[-1].append(value, key, headers, timestamp):
            builders.append(new_builder(max(batch_size, max_size(key, value, headers))))
            builders[-1].append(value, key, headers, timestamp)
    return builders


def _records(
    builder: BatchBuilder,
) -> Iterator[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]:
    """Yield value, key, headers and timestamp of each record."""
    records = decode_built(builder, ["value", "key", "headers", "timestamp"])
    values, keys, headers = (records.column(name).to_pylist() for name in ("value", "key", "headers"))
    times = records.column("timestamp").cast(pa.int64()).to_pylist()
    for value, key, pairs, time_us in zip(values, keys, headers, times, strict=True):
        names = [(header["key"], header["value"]) for header in pairs or ()]
        yield value, key, names, NO_TIMESTAMP if time_us is None else time_us // 1000


def _reset_in_child() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_reset_in_child)
