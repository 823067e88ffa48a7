"""Choose the partition of a record (Kafka: KafkaProducer.partition)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.producer.partitioners import RoundRobinPartitioner, custom_partitioner
from native_log.records import partition_of_key

if TYPE_CHECKING:
    from native_log.producer.settings import ProducerConfig
    from native_log.producer.topic_queues import TopicQueues


class PartitionChoice:
    """Choose the partition: the one of the record, or by partitioner.class, by the key, or the default.

    Attributes:
        is_custom: whether partitioner.class is set.
        is_round_robin: whether it is RoundRobinPartitioner.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._partitioner = custom_partitioner(config.partitioner_class)
        self._ignores_keys = config.partitioner_ignore_keys
        self.is_custom = self._partitioner is not None
        self.is_round_robin = isinstance(self._partitioner, RoundRobinPartitioner)

    def choose(
        self,
        queues: TopicQueues,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        partition: int | None,
    ) -> int:
        """Return the partition; UNKNOWN_PARTITION: the built-in partitioner chooses it.

        Args:
            queues: those of the topic.
            key, value: as passed to `send`.
            key_bytes, value_bytes: as serialized.
            partition: the partition that `send` was called with; None: there is none.

        Raises ValueError: the partition does not exist.
        """
        count = len(queues.queues)
        if partition is not None:
            if partition < 0:
                raise ValueError(
                    f"Invalid partition: {partition}. Partition number should always be non-negative or null."
                )
            return partition
        if self._partitioner is not None:
            chosen = self._partitioner.partition(
                queues.topic, key, key_bytes, value, value_bytes, range(count)
            )
            if not 0 <= chosen < count:
                raise ValueError(
                    f"The partitioner generated an invalid partition number: {chosen}. Partition number "
                    f"should always be non-negative and below {count}."
                )
            return chosen
        if key_bytes is not None and not self._ignores_keys:
            return partition_of_key(key_bytes, count)
        return queues.default_partition

    def note_new_batch(self, queues: TopicQueues, previous: int) -> None:
        """Tell the custom partitioner that a record for partition `previous` needs a new batch."""
        on_new_batch = getattr(self._partitioner, "on_new_batch", None)
        if on_new_batch is not None:
            on_new_batch(queues.topic, range(len(queues.queues)), previous)

    def close(self) -> None:
        """Close the custom partitioner, if it has such a method."""
        close = getattr(self._partitioner, "close", None)
        if callable(close):
            close()
