"""Collect records in batches until they are ready to be sent (Kafka: RecordAccumulator)."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, ProducerClosedError
from native_log.producer.backoff import ExponentialBackoff
from native_log.producer.batch import ProducerBatch
from native_log.producer.block import RecordBlock
from native_log.producer.buffer_pool import BufferPool
from native_log.producer.compression_ratio import CompressionRatios
from native_log.producer.node_latencies import NodeLatencies
from native_log.producer.partitioners import BuiltInPartitioner
from native_log.producer.record_size import BATCH_OVERHEAD, MAX_RECORD_OVERHEAD, max_size
from native_log.producer.topic_queues import NO_BATCH, TopicQueues
from native_log.records import BatchBuilder

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Sequence

    from native_log.producer.batch import TopicPartition
    from native_log.producer.clock import Clock
    from native_log.producer.futures import RecordFuture
    from native_log.producer.record import SerializedRecord
    from native_log.producer.sequences import ProducerSequences
    from native_log.producer.settings import ProducerConfig

NO_DEADLINE = 2**63 - 1
_MAX_BLOCK_REQUEST_BYTES = 8 << 20
"""Blocks of Arrow records are appended together up to this size. Meanwhile `send_batch` can fill the rest of
buffer.memory."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The result of a check.

    Attributes:
        nodes: the log directories for which batches are ready.
        next_check_ms: after how many ms a batch may become ready.
    """

    nodes: set[str]
    next_check_ms: int


class RecordAccumulator:
    """The batches of a producer that are not sent yet: a queue for each partition.

    Any thread may call the methods, except those of the sender: `ready`, `drain`, `expired`, `requeue` and
    `split_and_requeue`.

    Args:
        config: the producer's settings.
        clock: the current time.
        sequences: assigns sequences to drained batches.
        draw: returns a random number from 0 to its argument, exclusive.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        sequences: ProducerSequences,
        draw: Callable[[int], int] = random.randrange,
    ) -> None:
        self.batch_size = max(1, config.batch_size)
        self.lock = threading.Lock()
        self.pool = BufferPool(config.buffer_memory, self.batch_size, self.lock, clock)
        self.ratios = CompressionRatios()
        self.incomplete: dict[ProducerBatch, None] = {}
        """Batches whose result is not known, in the order of their creation."""
        self.muted: set[TopicPartition] = set()
        self.backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._linger_ms = min(config.linger_ms, 2**31 - 1)
        self._delivery_timeout_ms = config.delivery_timeout_ms
        # A record that fits into a batch of this size is smaller than max.request.size.
        self._max_open_bytes = min(config.max_request_size, config.buffer_memory) - MAX_RECORD_OVERHEAD
        self._is_compressed = config.compression_type != "none"
        self._is_adaptive = (
            config.partitioner_class is None and config.partitioner_adaptive_partitioning_enable
        )
        self._ignores_keys = config.partitioner_ignore_keys
        self.latencies = NodeLatencies(config.partitioner_availability_timeout_ms)
        self._clock = clock
        self._sequences = sequences
        self._draw = draw
        self._topics: dict[str, TopicQueues] = {}
        self._drain_indexes: dict[str, int] = {}
        self._flushes = 0
        self._is_closed = False
        self.is_completing = False
        """Whether a transaction is about to end, so that all batches are ready."""

    def last_used(self) -> dict[str, int]:
        """Return when the last batch of each topic was created, in epoch ms."""
        with self.lock:
            return {topic.topic: topic.last_used_ms for topic in self._topics.values()}

    def topic(self, topic: str, nodes: Sequence[str]) -> TopicQueues:
        """Return the queues of a topic, which has one partition for each of `nodes`."""
        with self.lock:
            queues = self._topics.get(topic)
            if queues is None:
                partitioner = BuiltInPartitioner(self.batch_size, len(nodes), self._draw)
                queues = self._topics[topic] = TopicQueues(
                    topic,
                    partitioner,
                    self._max_open_bytes,
                    self._clock.now_ns,
                    ignore_keys=self._ignores_keys,
                )
            queues.place(nodes)
            return queues

    def append(
        self,
        topic: TopicQueues,
        partition: int,
        record: SerializedRecord,
        max_block_ms: float,
        *,
        abort_on_new_batch: bool = False,
    ) -> tuple[RecordFuture | None, bool]:
        """Append a record to the last batch of its partition, or to a new one. Wait for memory if necessary.

        Args:
            topic: the queues of the topic.
            partition: the partition; UNKNOWN_PARTITION: the built-in partitioner chooses it.
            record: the record.
            max_block_ms: how long to wait for memory at most.
            abort_on_new_batch: do nothing if the record needs a new batch.

        Returns:
            The future of the record, and whether the sender must be woken. The future is None if
            `abort_on_new_batch` applies.

        Raises BufferExhaustedError, ProducerClosedError.
        """
        with self.lock:
            batch = topic.open[partition] if partition >= 0 else topic.sticky
            future = batch.append(*record)
            if future is not None:
                if batch.is_full and partition < 0:
                    topic.count_sticky(is_full=True)
                return future, batch.is_full
            return self._append(topic, partition, record, max_block_ms, abort_on_new_batch)

    def _append(
        self,
        topic: TopicQueues,
        partition: int,
        record: SerializedRecord,
        max_block_ms: float,
        abort_on_new_batch: bool,
    ) -> tuple[RecordFuture | None, bool]:
        builder: BatchBuilder | None = None
        size_bytes = 0
        is_sticky = partition < 0
        try:
            while True:
                if self._is_closed:
                    raise ProducerClosedError("Producer closed while send in progress")
                if is_sticky:
                    topic.count_sticky()
                    partition = topic.choose()
                queue = topic.queues[partition]
                if queue and not queue[-1].builder.is_closed:
                    batch = queue[-1]
                    before = batch.builder.estimated_bytes
                    future = batch.append(*record)
                    if future is not None:
                        topic.note_append(batch, before, is_sticky=is_sticky)
                        return future, batch.is_full
                    self._close_batch(batch)
                    if is_sticky:
                        continue  # the partitioner may choose another partition now
                if abort_on_new_batch:
                    return None, False
                if builder is None:
                    size_bytes = max(self.batch_size, max_size(record.key, record.value, record.headers))
                    must_wait = not self.pool.has(size_bytes)
                    builder = self.pool.allocate(size_bytes, max_block_ms)
                    if must_wait:
                        continue  # the lock was released meanwhile
                ratio = self.ratios.get(topic.topic) if self._is_compressed else None
                builder, now_ms = builder.renew(size_bytes, ratio), self._clock.now_ms()
                batch = ProducerBatch(topic.targets[partition], builder, now_ms, size_bytes)
                future = batch.append(*record)
                builder = None
                self._enqueue(topic, batch, now_ms)
                topic.note_append(batch, 0, is_sticky=is_sticky)
                return future, True
        finally:
            if builder is not None:  # it was not needed
                self.pool.deallocate(builder, size_bytes)

    def _enqueue(self, topic: TopicQueues, batch: ProducerBatch, now_ms: int) -> None:
        topic.add(batch, now_ms)
        self.incomplete[batch] = None

    def note_full(self, topic: TopicQueues) -> None:
        """Let the partitioner go on if an append without the lock has filled the sticky batch."""
        with self.lock:
            if topic.sticky.is_full:
                topic.count_sticky(is_full=True)

    def append_block(
        self, topic: TopicQueues, partition: int, block: RecordBlock, now_ms: int, max_block_ms: float
    ) -> ProducerBatch:
        """Queue Arrow records after all records of the partition. Wait for memory if necessary.

        Raises BufferExhaustedError, ProducerClosedError.
        """
        with self.lock:
            if self._is_closed:
                raise ProducerClosedError("Producer closed while send in progress")
            self.pool.reserve(block.estimated_bytes, max_block_ms)
            queue = topic.queues[partition]
            if queue:
                self._close_batch(queue[-1])
            batch = ProducerBatch(topic.targets[partition], block, now_ms, block.estimated_bytes)
            self._enqueue(topic, batch, now_ms)
            return batch

    def _close_batch(self, batch: ProducerBatch) -> None:
        """Let a batch take no more records.

        Its records are in memory without compression. If they take more than was allocated for the batch, the
        rest is taken from the pool now, even if there is less, so that later batches wait for it.
        """
        if not batch.builder.is_closed:
            batch.builder.close()
            self._topics[batch.target.topic].note_closed(batch)
            if batch.buffer_bytes:
                batch.extra_bytes = max(0, batch.builder.plain_bytes - batch.buffer_bytes)
                self.pool.unpooled_bytes -= batch.extra_bytes

    def ready(self, now_ms: int) -> Readiness:
        """Return the log directories for which batches are ready, and when to check again.

        A batch is ready if its partition is not muted, it is not backing off after a failed attempt, and

        - it is full, or another batch follows it,
        - it has waited for linger.ms,
        - threads wait for memory,
        - the producer is closed, or a flush or a transaction waits for it.
        """
        nodes: set[str] = set()
        next_check_ms = NO_DEADLINE
        with self.lock:
            is_urgent = bool(self.pool.queued or self._is_closed or self._flushes or self.is_completing)
            for topic in self._topics.values():
                sizes: list[int] = []
                available: list[int] = []
                for partition, queue in enumerate(topic.queues):
                    node = topic.nodes[partition]
                    if not self.latencies.is_unavailable(node):
                        sizes.append(len(queue))
                        available.append(partition)
                    if not queue or topic.targets[partition] in self.muted:
                        continue
                    wait_ms = self._wait_ms(queue, now_ms, is_urgent=is_urgent)
                    if wait_ms > 0:
                        next_check_ms = min(next_check_ms, wait_ms)
                    else:
                        nodes.add(node)
                # As in Kafka, each partition gets a batch before the load counts.
                if self._is_adaptive and len(topic.queues) > 1:
                    has_load = len(topic.used) == len(topic.queues)
                    topic.partitioner.update_load(sizes if has_load else None, available)
        return Readiness(nodes, next_check_ms)

    def _wait_ms(self, queue: deque[ProducerBatch], now_ms: int, *, is_urgent: bool) -> int:
        """Return after how many ms the first batch of a queue is ready; 0 or less: it is."""
        batch = queue[0]
        backoff_ms = batch.backoff_left_ms(now_ms)
        if backoff_ms > 0:
            return backoff_ms
        if is_urgent or len(queue) > 1 or batch.is_full:
            return 0
        return self._linger_ms - batch.waited_ms(now_ms)

    def drain(self, nodes: Iterable[str], max_bytes: int, now_ms: int) -> dict[str, list[ProducerBatch]]:
        """Take batches from the queues, for each node up to `max_bytes`, but at least one.

        The partitions of a node take turns, beginning where the last drain ended. Unlike a request to a
        broker, one for a log directory may contain several batches of a partition, in their order: there are
        fewer, larger appends.
        """
        with self.lock:
            return {node: self._drain_node(node, max_bytes, now_ms) for node in nodes}

    def _drain_node(self, node: str, max_bytes: int, now_ms: int) -> list[ProducerBatch]:
        queues = [
            (topic.targets[partition], queue)
            for topic in self._topics.values()
            for partition, queue in enumerate(topic.queues)
            if topic.nodes[partition] == node
        ]
        drained: list[ProducerBatch] = []
        size_bytes = 0
        index = self._drain_indexes.get(node, 0) % len(queues)
        idle = 0
        while idle < len(queues):
            target, queue = queues[index]
            if not self._may_drain(target, queue, now_ms):
                idle += 1
                index = (index + 1) % len(queues)
                continue
            batch = queue[0]
            size_bytes += batch.estimated_bytes
            limit = _MAX_BLOCK_REQUEST_BYTES if isinstance(batch.builder, RecordBlock) else max_bytes
            if drained and size_bytes > limit:
                break
            idle = 0
            index = (index + 1) % len(queues)
            queue.popleft()
            self._close_batch(batch)
            self._sequences.assign(batch)
            drained.append(batch)
        self._drain_indexes[node] = index
        return drained

    def _may_drain(self, target: TopicPartition, queue: deque[ProducerBatch], now_ms: int) -> bool:
        if not queue or target in self.muted:
            return False
        batch = queue[0]
        if batch.backoff_left_ms(now_ms) > 0:
            return False
        # If the batch was drained before, those before it must be written first.
        return not batch.has_sequence or self._sequences.is_next(batch)

    def expired(self, now_ms: int) -> tuple[list[ProducerBatch], int]:
        """Take the batches that have waited for delivery.timeout.ms since their creation from the queues.

        Returns:
            The batches, and when the next one expires, in epoch ms.
        """
        batches: list[ProducerBatch] = []
        next_expiry_ms = NO_DEADLINE
        with self.lock:
            for topic in self._topics.values():
                for queue in topic.queues:
                    while queue and queue[0].is_expired(self._delivery_timeout_ms, now_ms):
                        batch = queue.popleft()
                        self._close_batch(batch)
                        batches.append(batch)
                    if queue:
                        next_expiry_ms = min(next_expiry_ms, queue[0].created_ms + self._delivery_timeout_ms)
        return batches, next_expiry_ms

    def observe_sizes(self, sizes: Iterable[tuple[ProducerBatch, int]]) -> None:
        """Update the estimated compression ratios after batches were written.

        Args:
            sizes: the batches, with their sizes as written.
        """
        with self.lock:
            for batch, size_bytes in sizes:
                observed = (size_bytes - BATCH_OVERHEAD) / max(1, batch.builder.plain_bytes)
                self.ratios.observe(batch.target.topic, observed)

    def requeue(self, batch: ProducerBatch, now_ms: int, *, is_attempt: bool = True) -> None:
        """Put a batch back, before the batches with higher sequences.

        Args:
            batch: the batch.
            now_ms: the current time.
            is_attempt: whether an attempt failed, so that the batch waits before the next one.
        """
        with self.lock:
            if is_attempt:
                batch.put_back(now_ms, self.backoff)
            self._topics[batch.target.topic].put_back(batch)

    def split_and_requeue(self, batch: ProducerBatch, now_ms: int) -> int:
        """Divide a batch that is too large, and queue its parts. Return how many there are.

        The estimated compression ratio becomes at least 1, so that the parts are smaller.
        """
        with self.lock:
            self.ratios.reset(batch.target.topic, 1.0)
            ratio = 1.0 if self._is_compressed else None
            parts = batch.split(lambda limit: BatchBuilder(limit, ratio), self.batch_size)
            self._sequences.replace(batch, parts)
            for part in reversed(parts):
                part.last_attempt_ms = now_ms - self._linger_ms
                self.incomplete[part] = None
                self._topics[batch.target.topic].put_back(part)
            return len(parts)

    def deallocate(self, *batches: ProducerBatch) -> None:
        """Forget batches that are done, and release their memory."""
        with self.lock:
            for batch in batches:
                self._deallocate(batch)

    def _deallocate(self, batch: ProducerBatch) -> None:
        self.incomplete.pop(batch, None)
        if batch.buffer_bytes:
            size_bytes, batch.buffer_bytes = batch.buffer_bytes, 0
            builder, batch.builder = batch.builder, NO_BATCH.builder
            self.pool.unpooled_bytes += batch.extra_bytes
            batch.extra_bytes = 0
            if isinstance(builder, RecordBlock):
                self.pool.release(size_bytes)
            else:
                self.pool.deallocate(builder, size_bytes)

    def mute(self, target: TopicPartition) -> None:
        """Drain no batches of a partition until `unmute`."""
        with self.lock:
            self.muted.add(target)

    def unmute(self, target: TopicPartition) -> None:
        """Allow batches of a partition to be drained."""
        with self.lock:
            self.muted.discard(target)

    @property
    def has_undrained(self) -> bool:
        """Whether a queue contains batches."""
        with self.lock:
            return any(queue for topic in self._topics.values() for queue in topic.queues)

    @property
    def has_incomplete(self) -> bool:
        """Whether there are batches whose result is not known."""
        return bool(self.incomplete)

    def begin_flush(self) -> list[ProducerBatch]:
        """Make all batches ready. Return those whose result is not known yet."""
        with self.lock:
            self._flushes += 1
            return list(self.incomplete)

    def end_flush(self) -> None:
        """End a flush. There is one call for each `begin_flush`."""
        with self.lock:
            self._flushes -= 1

    def abort_incomplete(self, error: KafkaLogError) -> None:
        """Fail all batches whose result is not known. Their memory is not used again: see `close`."""
        for batch in self._take(lambda _: True):
            batch.fail(error)

    def abort_undrained(self, error: KafkaLogError) -> None:
        """Fail all batches that were never drained."""
        for batch in self._take(lambda batch: not batch.has_sequence):
            batch.fail(error)
            self.deallocate(batch)

    def _take(self, is_taken: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        with self.lock:
            batches = [batch for batch in self.incomplete if is_taken(batch)]
            for batch in batches:
                del self.incomplete[batch]
                self._close_batch(batch)
                queue = self._topics[batch.target.topic].queues[batch.target.partition]
                if batch in queue:
                    queue.remove(batch)
            return batches

    def close(self) -> None:
        """Accept no more records, and make all batches ready. Threads that wait for memory get an error."""
        with self.lock:
            self._is_closed = True
            for topic in self._topics.values():
                topic.close()
            self.pool.close()
