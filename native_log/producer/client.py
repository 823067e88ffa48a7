"""Send batches to log directories (Kafka: KafkaClient, NetworkClient).

A node is a log directory. Each one has a thread, so a slow disk delays no other.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from native_log.errors import KafkaLogError, OutOfOrderSequenceError
from native_log.log.writing.record_encoding import RecordEncoder
from native_log.log.writing.validation import LOG_APPEND_TIME
from native_log.producer import open_logs
from native_log.producer.block import RecordBlock
from native_log.producer.futures import NO_OFFSET, NO_TIMESTAMP
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.log import PartitionLog
    from native_log.producer.batch import ProducerBatch, TopicPartition
    from native_log.producer.clock import Clock
    from native_log.producer.log_directories import LogDirectories
    from native_log.producer.settings import ProducerConfig

logger = logging.getLogger(__name__)

_FAILURES = (KafkaLogError, OSError, ValueError)
_FORCED_CLOSE_SECONDS = 1.0
_MAX_BYTES_TOGETHER = 4 << 20
"""Requests that wait are executed together until they have this size."""
_BYTES_FOR_THREADS = 1 << 20
"""Less than this is appended by one thread: to start another one would take as long."""


class BatchToAppend(NamedTuple):
    """A batch with the producer fields that it had when its request was made."""

    batch: ProducerBatch
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool

    @classmethod
    def of(cls, batch: ProducerBatch) -> BatchToAppend:
        """Return the batch with its current producer fields."""
        return cls(
            batch, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional
        )

    def follows(self, before: BatchToAppend) -> bool:
        """Return whether this batch may be encoded together with the one before it."""
        if self.producer_id != before.producer_id or self.producer_epoch != before.producer_epoch:
            return False
        following = (before.base_sequence + before.batch.record_count) % 2**31
        if self.base_sequence >= 0 and self.base_sequence != following:
            return False
        builder, other = self.batch.builder, before.batch.builder
        if isinstance(builder, RecordBlock) and isinstance(other, RecordBlock):
            return bool(builder.records.schema == other.records.schema)
        return type(builder) is type(other)


class BatchResponse(NamedTuple):
    """What became of a batch.

    Attributes:
        batch: the batch as sent.
        base_offset: the offset of its first record; -1: it was not written.
        log_append_time_ms: the timestamp of its records; -1: they keep their own.
        size_bytes: the size of the batch as written; 0: unknown.
        error: why it was not written.
        is_attempted: False if a batch of the same partition failed, which this one must not overtake.
    """

    batch: BatchToAppend
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    size_bytes: int = 0
    error: Exception | None = None
    is_attempted: bool = True

    @property
    def is_written(self) -> bool:
        """Whether the log contains the batch."""
        return self.is_attempted and self.error is None


@dataclass(slots=True, eq=False)
class ProduceRequest:
    """Batches for one log directory.

    Attributes:
        node: the log directory.
        batches: the batches, those of a partition in order.
        created_ms: when the request was made.
        oldest_ms: when the first of the batches was created.
        responses: one for each batch, set by the client.
    """

    node: str
    batches: list[BatchToAppend]
    created_ms: int
    oldest_ms: int
    responses: list[BatchResponse] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The estimated size of the batches."""
        return sum(each.batch.estimated_bytes for each in self.batches)


class Client(Protocol):
    """What the sender needs of a client."""

    def is_ready(self, node: str) -> bool:
        """Return whether the node accepts another request."""

    def send(self, request: ProduceRequest) -> None:
        """Begin a request. `poll` returns it when it is done."""

    def poll(self, timeout_ms: float) -> list[ProduceRequest]:
        """Return the requests that are done. If there are none, wait for one, for `wakeup` or the timeout."""

    def wakeup(self) -> None:
        """End the wait of `poll`, or the next one."""

    def in_flight(self, node: str | None = None) -> int:
        """Return the number of requests that are not done, of a node or in total."""

    def close(self, *, is_forced: bool = False) -> None:
        """Finish the requests and release what the client holds."""


class LogDirClient:
    """Append batches to the logs of log directories, by one thread for each directory.

    Args:
        directories: the log directories.
        config: the producer's settings.
        clock: the current time.
    """

    def __init__(self, directories: LogDirectories, config: ProducerConfig, clock: Clock) -> None:
        self._directories = directories
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._clock = clock
        self._config = config
        self._changed = threading.Condition(threading.Lock())
        self._done: deque[ProduceRequest] = deque()
        self._in_flight: dict[str, int] = {}
        self._queues: dict[str, SimpleQueue[ProduceRequest | None]] = {}
        self._threads: list[threading.Thread] = []
        self._is_woken = False
        self._is_polling = False
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._writers: dict[TopicPartition, tuple[int, int]] = {}
        """The producer id and epoch of the last batch that was written to each partition."""
        self._is_forced = False
        self._close_errors: list[Exception] = []

    def is_ready(self, node: str) -> bool:
        """Return whether fewer than max.in.flight.requests.per.connection requests are in flight."""
        return self._in_flight.get(node, 0) < self._max_in_flight

    def in_flight(self, node: str | None = None) -> int:
        """Return the number of requests that are not done, of a node or in total."""
        return sum(self._in_flight.values()) if node is None else self._in_flight.get(node, 0)

    def send(self, request: ProduceRequest) -> None:
        """Begin a request."""
        node = request.node
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        queue = self._queues.get(node)
        if queue is not None:
            queue.put(request)
            return
        queue = SimpleQueue()
        queue.put(request)
        name = f"kafkalog-producer | {os.path.basename(node)}"  # noqa: PTH119
        thread = threading.Thread(target=self._run, args=(queue,), name=name, daemon=True)
        if _start(thread):
            self._queues[node] = queue
            self._threads.append(thread)
        else:
            queue.put(None)
            thread.run()

    def poll(self, timeout_ms: float) -> list[ProduceRequest]:
        """Return the requests that are done. If there are none, wait for one, for `wakeup` or the timeout."""
        with self._changed:
            self._is_polling = True
            if not self._done and not self._is_woken and timeout_ms > 0:
                self._clock.wait(self._changed, timeout_ms)
            self._is_polling = False
            self._is_woken = False
            done = list(self._done)
            self._done.clear()
        for request in done:
            self._in_flight[request.node] -= 1
        return done

    def wakeup(self) -> None:
        """End the wait of `poll`, or the next one."""
        self._is_woken = True  # set before the next line reads: `poll` does it in the opposite order
        if self._is_polling:
            with self._changed:
                self._is_polling = False  # the next calls need not notify it again
                self._changed.notify()

    def close(self, *, is_forced: bool = False) -> None:
        """Finish the requests and close the logs.

        Args:
            is_forced: skip requests that have not begun, and do not wait long for one that has.

        Raises KafkaLogError, OSError: a log cannot be closed.
        """
        self._is_forced = is_forced
        for queue in self._queues.values():
            queue.put(None)
        closer = threading.Thread(target=self._close_logs, name="kafkalog-producer | close", daemon=True)
        if is_forced and _start(closer):
            closer.join(_FORCED_CLOSE_SECONDS)
        else:
            closer.run()
        if self._close_errors:
            raise self._close_errors[0]

    def _close_logs(self) -> None:
        for thread in self._threads:
            thread.join()
        for target in list(self._logs):
            log = self._logs.pop(target)
            try:
                open_logs.release(str(log.path))
            except Exception as error:  # the other logs must be closed nevertheless
                self._close_errors.append(error)

    def log(self, target: TopicPartition) -> PartitionLog:
        """Return the log of a partition, which stays open until the client is closed."""
        log = self._logs.get(target)
        if log is None:
            path = self._directories.path(target)
            log = self._logs[target] = open_logs.acquire(path, lambda: self._directories.log(target))
        return log

    def _run(self, queue: SimpleQueue[ProduceRequest | None]) -> None:
        is_open = True
        while is_open:
            # Fewer, larger appends are quicker. But the memory of all requests is in use until the last one
            # is done.
            taken = [queue.get()]
            size_bytes = _size_bytes(taken[0])
            while not queue.empty() and size_bytes < _MAX_BYTES_TOGETHER:
                taken.append(queue.get())
                size_bytes += _size_bytes(taken[-1])
            requests = [request for request in taken if request is not None]
            is_open = len(requests) == len(taken)
            if not requests or self._is_forced:
                continue
            batches = [batch for request in requests for batch in request.batches]
            responses = self._execute(batches, size_bytes)
            by_batch = {id(response.batch): response for response in responses}
            for request in requests:
                request.responses = [by_batch[id(batch)] for batch in request.batches]
            with self._changed:
                self._done.extend(requests)
                self._changed.notify()

    def _execute(self, batches: Sequence[BatchToAppend], size_bytes: int) -> list[BatchResponse]:
        """Append batches. If they are large, append those of several partitions at the same time."""
        by_target: dict[TopicPartition, list[BatchToAppend]] = {}
        for each in batches:
            by_target.setdefault(each.batch.target, []).append(each)
        groups = list(by_target.values())
        responses: list[BatchResponse] = []

        def append_groups(groups: Sequence[Sequence[BatchToAppend]]) -> None:
            for group in groups:
                responses.extend(self._append_group(group))

        threads = min(len(groups), available_cores()) if size_bytes >= _BYTES_FOR_THREADS else 1
        others = [
            threading.Thread(target=append_groups, args=(groups[start::threads],), daemon=True)
            for start in range(1, threads)
        ]
        started = [thread for thread in others if _start(thread)]
        append_groups(groups[::threads])
        for thread in others:
            if thread in started:
                thread.join()
            else:
                thread.run()
        return responses

    def _append_group(self, group: Sequence[BatchToAppend]) -> list[BatchResponse]:
        """Append the batches of one partition."""
        try:
            return list(self._append_runs(self.log(group[0].batch.target), _joinable(group)))
        except _FAILURES as error:
            return [BatchResponse(each, error=error) for each in group]
        except Exception as error:  # a defect must not leave records without a result
            logger.exception("a request of a producer failed")
            return [BatchResponse(each, error=error) for each in group]

    def _append_runs(
        self, log: PartitionLog, runs: Iterable[Sequence[BatchToAppend]]
    ) -> Iterator[BatchResponse]:
        """Append the batches of one partition, up to the first one that may be sent again."""
        is_stopped = False
        for run in runs:
            if is_stopped:
                yield from (BatchResponse(each, is_attempted=False) for each in run)
                continue
            responses = self._append(log, run)
            if responses[0].error is not None and len(run) > 1:
                # None of them were appended. Find out which one is the reason.
                responses = list(self._append_runs(log, [[each] for each in run]))
            is_stopped = any(map(_must_come_first, responses))
            yield from responses

    def _append(self, log: PartitionLog, run: Sequence[BatchToAppend]) -> list[BatchResponse]:
        """Append all batches or none."""
        now_ms, first = self._clock.now_ms(), run[0]
        encoder = self._encoder(log, first)
        sizes: list[int] = []
        builders = [each.batch.builder for each in run if not isinstance(each.batch.builder, RecordBlock)]
        try:
            self._check_first_sequence(log, first)
            if builders:
                offset, sizes = log.append_built(builders, encoder, now_ms=now_ms)
            else:
                blocks = [
                    each.batch.builder.records for each in run if isinstance(each.batch.builder, RecordBlock)
                ]
                offset = log.append_with(encoder, pa.Table.from_batches(blocks), now_ms=now_ms)
        except _FAILURES as error:
            return [BatchResponse(each, error=error) for each in run]
        self._writers[first.batch.target] = first.producer_id, first.producer_epoch
        is_append_time = log.config.message_timestamp_type == LOG_APPEND_TIME
        append_time_ms = now_ms if is_append_time else NO_TIMESTAMP
        responses = []
        for index, each in enumerate(run):
            size_bytes = sizes[index] if sizes else 0
            responses.append(BatchResponse(each, offset, append_time_ms, size_bytes))
            offset += each.batch.record_count
        return responses

    def _check_first_sequence(self, log: PartitionLog, batch: BatchToAppend) -> None:
        """Raise OutOfOrderSequenceError if a producer's first batch in a log is not the one with sequence 0.

        The log would accept it: it accepts any sequence of a producer that it does not know, as in Kafka
        (ProducerAppendInfo).
        """
        writer = batch.producer_id, batch.producer_epoch
        if batch.base_sequence > 0 and self._writers.get(batch.batch.target) != writer:
            raise OutOfOrderSequenceError(
                f"expected sequence 0 of producer {batch.producer_id}, epoch {batch.producer_epoch}, found "
                f"{batch.base_sequence}: a batch before this one failed",
                path=log.path,
            )

    def _encoder(self, log: PartitionLog, first: BatchToAppend) -> RecordEncoder:
        """Return how to encode batches: the topic's codec, if it has one, overrides the producer's."""
        codec, level = self._config.compression_type, self._config.compression_level
        topic_codec = log.config.compression_type
        if topic_codec not in ("producer", codec):
            codec, level = topic_codec, None
        return RecordEncoder(
            codec,
            level,
            self._config.batch_size,
            first.producer_id,
            first.producer_epoch,
            first.base_sequence,
            first.is_transactional,
        )


def _start(thread: threading.Thread) -> bool:
    """Start a thread. Return False if that is not possible, as at the exit of the process (Python 3.12+)."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _size_bytes(request: ProduceRequest | None) -> int:
    return 0 if request is None else request.size_bytes


def _must_come_first(response: BatchResponse) -> bool:
    """Return whether the batches after this one must wait until it is written or has failed for good.

    A batch that fails gives its sequences to later ones, so these must wait for it. Batches without sequences
    only wait for one that may be sent again: while they wait, the next requests overtake them.
    """
    if response.error is None:
        return not response.is_attempted
    batch, error = response.batch.batch, response.error
    return response.batch.base_sequence >= 0 or isinstance(error, OSError) or batch.must_be_split(error)


def _joinable(batches: Iterable[BatchToAppend]) -> Iterator[list[BatchToAppend]]:
    """Yield runs of batches that can be encoded together."""
    run: list[BatchToAppend] = []
    for each in batches:
        if run and not each.follows(run[-1]):
            yield run
            run = []
        run.append(each)
    if run:
        yield run
