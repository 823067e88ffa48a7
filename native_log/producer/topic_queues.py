"""The batches of one topic that are not sent yet (Kafka: RecordAccumulator.TopicInfo)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from native_log.producer.batch import ProducerBatch, TopicPartition
from native_log.producer.futures import RecordFuture
from native_log.records import BatchBuilder, OpenBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.producer.partitioners import BuiltInPartitioner

UNKNOWN_PARTITION = -1
NO_BATCH = ProducerBatch(TopicPartition("", UNKNOWN_PARTITION), BatchBuilder(0), 0)
"""Takes no records."""
NO_BATCH.builder.close()


class TopicQueues:
    """The queues of a topic: one for each partition.

    Threads may append to the open batches without the lock of the accumulator, because OpenBatches.append is
    atomic and a closed batch rejects records. The caller of each method holds the lock.

    Attributes:
        topic: its name.
        partitioner: chooses the partition of records without one.
        queues: the batches of each partition, the oldest first.
        targets: each partition.
        nodes: the log directory of each partition.
        log_directories: all of them, each one once.
        open: for each partition, its last batch if it takes records with that partition; else NO_BATCH.
        open_batches: appends to them, and to `sticky`.
        default_partition: for records without one; UNKNOWN_PARTITION: the partitioner chooses it.
        used: the partitions that have had batches.
        last_used_ms: when the last batch was created.
    """

    __slots__ = (
        "_max_open_bytes",
        "_sticky_bytes",
        "default_partition",
        "last_used_ms",
        "log_directories",
        "nodes",
        "open",
        "open_batches",
        "partitioner",
        "queues",
        "targets",
        "topic",
        "used",
    )

    def __init__(
        self,
        topic: str,
        partitioner: BuiltInPartitioner,
        max_open_bytes: int,
        clock_ns: Callable[[], int],
        *,
        ignore_keys: bool,
    ) -> None:
        """Create the queues, with no partition yet.

        Args:
            topic, partitioner: see above.
            max_open_bytes: a batch with a greater limit is never open, so that large records are checked.
            clock_ns: returns the time of records without a timestamp, in epoch ns.
            ignore_keys: partitioner.ignore.keys.
        """
        self.topic = topic
        self.partitioner = partitioner
        self.queues: list[deque[ProducerBatch]] = []
        self.targets: list[TopicPartition] = []
        self.nodes: list[str] = []
        self.log_directories: frozenset[str] = frozenset()
        self.open: list[ProducerBatch] = []
        self.open_batches = OpenBatches(RecordFuture, clock_ns, self.open, NO_BATCH, ignore_keys=ignore_keys)
        self._sticky_bytes = 0
        """The bytes in `sticky` that the partitioner has counted, or need not count."""
        self._max_open_bytes = max_open_bytes
        self.default_partition = UNKNOWN_PARTITION
        self.used: set[int] = set()
        self.last_used_ms = 0

    @property
    def sticky(self) -> ProducerBatch:
        """The batch that takes records without a partition; NO_BATCH: there is none."""
        batch: ProducerBatch = self.open_batches.sticky
        return batch

    @sticky.setter
    def sticky(self, batch: ProducerBatch) -> None:
        self.open_batches.sticky = batch

    def place(self, nodes: Sequence[str]) -> None:
        """Set the log directory of each partition. There may be more partitions than before."""
        for partition in range(len(self.queues), len(nodes)):
            self.queues.append(deque())
            self.open.append(NO_BATCH)
            self.targets.append(TopicPartition(self.topic, partition))
        if len(nodes) != len(self.nodes):
            self.count_sticky()
        self.nodes, self.log_directories = list(nodes), frozenset(nodes)
        self.default_partition = UNKNOWN_PARTITION if len(nodes) > 1 else 0
        self.partitioner.update_partitions(len(nodes))

    def choose(self) -> int:
        """Return the partition of a record that has none."""
        chosen = self.partitioner.current()
        queue = self.queues[chosen]
        if not queue or queue[-1].is_full:
            self.partitioner.update(0, True)  # a switch may have waited for the batch to become full
            return self.partitioner.current()
        return chosen

    def add(self, batch: ProducerBatch, now_ms: int) -> None:
        """Add a batch at the end of its queue."""
        partition = batch.target.partition
        self.queues[partition].append(batch)
        self.used.add(partition)
        self.last_used_ms = now_ms

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch that was drained back to the front, but after batches with lower sequences."""
        queue = self.queues[batch.target.partition]
        before = []
        while (
            batch.has_sequence
            and queue
            and queue[0].has_sequence
            and _precedes(queue[0].base_sequence, batch.base_sequence)
        ):
            before.append(queue.popleft())
        queue.appendleft(batch)
        queue.extendleft(reversed(before))

    def note_append(self, batch: ProducerBatch, before: int, *, is_sticky: bool) -> None:
        """Count the bytes of a record for the partitioner, and open its batch for more records like it.

        Args:
            batch: the batch to which the record was appended.
            before: its estimated size before that.
            is_sticky: whether the partitioner chose the partition.
        """
        partition, after, is_full = batch.target.partition, batch.builder.estimated_bytes, batch.is_full
        if is_sticky:
            self.partitioner.update(after - before, is_full)
        elif self.sticky is batch:
            self._sticky_bytes += after - before
        if is_full or batch.builder.limit_bytes > self._max_open_bytes:
            return
        if is_sticky:
            if self.partitioner.keeps(partition, batch.builder.limit_bytes - after):
                self.open[partition] = NO_BATCH
                self.sticky, self._sticky_bytes = batch, after
        elif self.default_partition == partition:
            self.open[partition] = self.sticky = batch
        elif self.sticky is not batch:
            self.open[partition] = batch

    def count_sticky(self, *, is_full: bool = False) -> None:
        """Let the partitioner count what was appended to the sticky batch, which is sticky no longer.

        Args:
            is_full: whether these records have filled the batch.
        """
        batch = self.sticky
        if batch is not NO_BATCH:
            self.sticky = NO_BATCH
            self.partitioner.update(batch.builder.estimated_bytes - self._sticky_bytes, is_full)

    def note_closed(self, batch: ProducerBatch) -> None:
        """Forget that a batch was open. Call this after it was closed, and before its records are removed."""
        if self.sticky is batch:
            self.count_sticky()
        if self.open[batch.target.partition] is batch:
            self.open[batch.target.partition] = NO_BATCH

    def close(self) -> None:
        """Let records take the path on which it is checked whether the producer is closed."""
        self.open[:] = [NO_BATCH] * len(self.open)
        self.sticky = NO_BATCH


def _precedes(sequence: int, other: int) -> bool:
    """Return whether a sequence comes before another one. After 2^31 - 1 follows 0."""
    return 0 < (other - sequence) % 2**31 < 2**30
