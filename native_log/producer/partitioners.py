"""Choose the partition of a record (Kafka: BuiltInPartitioner, RoundRobinPartitioner and others)."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from native_log.config import InvalidConfigError
from native_log.records import partition_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PACKAGE = "org.apache.kafka.clients.producer."


class Partitioner(Protocol):
    """A custom partitioner.

    It may also have the methods `on_new_batch(topic, partitions, previous)`, called when a record needs a new
    batch, after which the partition of that record is chosen again, and `close()`.
    """

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        partitions: Sequence[int],
        /,
    ) -> int:
        """Return the partition of a record.

        Args:
            topic: the topic.
            key, value: as passed to `send`.
            key_bytes, value_bytes: as serialized.
            partitions: the partitions of the topic, in order.
        """


class FunctionPartitioner:
    """A partitioner like those of kafka-python: a function of key bytes, all and available partitions."""

    def __init__(self, function: Callable[[bytes | None, list[int], list[int]], int]) -> None:
        self._function = function

    def partition(
        self,
        _topic: str,
        _key: Any,
        key_bytes: bytes | None,
        _value: Any,
        _value_bytes: bytes | None,
        partitions: Sequence[int],
        /,
    ) -> int:
        """Return the partition that the function returns."""
        return self._function(key_bytes, list(partitions), list(partitions))


class RoundRobinPartitioner:
    """Send records to all partitions in turn and ignore their keys (Kafka: RoundRobinPartitioner)."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        self._previous: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        _key: Any,
        _key_bytes: bytes | None,
        _value: Any,
        _value_bytes: bytes | None,
        partitions: Sequence[int],
        /,
    ) -> int:
        """Return the next partition of the topic."""
        if topic in self._previous:
            return self._previous.pop(topic)
        count = self._counters.get(topic, 0)
        self._counters[topic] = count + 1
        return partitions[count % len(partitions)]

    def on_new_batch(self, topic: str, _partitions: Sequence[int], previous: int, /) -> None:
        """Keep the partition of the record, which is chosen a second time for the new batch."""
        self._previous[topic] = previous


class UniformStickyPartitioner:
    """Keep a random partition until a batch is full, and ignore keys (KIP-480: UniformStickyPartitioner).

    Args:
        draw: returns a random number from 0 to its argument, exclusive.
    """

    ignores_keys = True

    def __init__(self, draw: Callable[[int], int] = random.randrange) -> None:
        self._draw = draw
        self._current: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        _key: Any,
        key_bytes: bytes | None,
        _value: Any,
        _value_bytes: bytes | None,
        partitions: Sequence[int],
        /,
    ) -> int:
        """Return the partition of the topic's current batch."""
        if key_bytes is not None and not self.ignores_keys:
            return partition_of_key(key_bytes, len(partitions))
        if topic not in self._current:
            self._current[topic] = partitions[self._draw(len(partitions))]
        return self._current[topic]

    def on_new_batch(self, topic: str, partitions: Sequence[int], previous: int, /) -> None:
        """Choose another partition, because the batch in `previous` is full."""
        if self._current.get(topic, previous) != previous:
            return  # another thread has already chosen one
        others = [partition for partition in partitions if partition != previous]
        self._current[topic] = others[self._draw(len(others))] if others else previous


class DefaultPartitioner(UniformStickyPartitioner):
    """Hash the key, or stick to a partition if there is none (Kafka 2.4 to 3.2: DefaultPartitioner)."""

    ignores_keys = False


class BuiltInPartitioner:
    """Choose the partition of records without keys in one topic (Kafka: BuiltInPartitioner, KIP-794).

    A partition is kept until it has received `batch_size` bytes and its batches are full, or twice as many
    bytes. The next one is chosen at random; partitions with short queues are more likely.

    Args:
        batch_size: batch.size in bytes, at least 1.
        partitions: the number of partitions.
        draw: returns a random number from 0 to its argument, exclusive.
    """

    def __init__(
        self, batch_size: int, partitions: int, draw: Callable[[int], int] = random.randrange
    ) -> None:
        self._batch_size = batch_size
        self._partitions = partitions
        self._draw = draw
        self._weights: tuple[list[int], Sequence[int]] | None = None
        self._produced_bytes = 0
        self._current: int | None = None

    def current(self) -> int:
        """Return the partition of the next record."""
        if self._current is None:
            self._current = self._next()
        return self._current

    def update(self, appended_bytes: int, is_switch_enabled: bool) -> None:
        """Note that bytes were appended to the current partition. The next one may become current.

        Args:
            appended_bytes: how many.
            is_switch_enabled: whether all batches of the partition are full.
        """
        self._produced_bytes += appended_bytes
        limit = self._batch_size if is_switch_enabled else 2 * self._batch_size
        if self._produced_bytes >= limit:
            self._current = self._next()
            self._produced_bytes = 0

    def keeps(self, partition: int, appended_bytes: int) -> bool:
        """Return whether `partition` stays current for this many bytes more, while a batch is not full."""
        return partition == self._current and self._produced_bytes + appended_bytes <= 2 * self._batch_size

    def update_partitions(self, partitions: int) -> None:
        """Set the number of partitions, which may have grown."""
        self._partitions = partitions

    def update_load(self, queue_sizes: Sequence[int] | None, partitions: Sequence[int]) -> None:
        """Set the number of queued batches of each available partition.

        Args:
            queue_sizes: None: choose all partitions with the same probability.
            partitions: the available partitions, in the order of `queue_sizes`.
        """
        if queue_sizes is None or not queue_sizes or self._partitions < 2:
            self._weights = None
        else:
            self._weights = load_weights(queue_sizes, len(queue_sizes) == self._partitions), partitions
            if not self._weights[0]:
                self._weights = None

    def _next(self) -> int:
        if self._weights is None:
            return self._draw(self._partitions)
        table, partitions = self._weights
        return partitions[bisect_right(table, self._draw(table[-1]))]


def load_weights(queue_sizes: Sequence[int], has_all_partitions: bool) -> list[int]:
    """Return cumulative weights: a queue weighs the longest queue + 1 - its size (KIP-794).

    Empty if all partitions are available and have the same queue size, so that no weights are needed.
    """
    longest = max(queue_sizes)
    if has_all_partitions and min(queue_sizes) == longest:
        return []
    return list(accumulate(longest + 1 - size for size in queue_sizes))


_JAVA_CLASSES: dict[str, type[Any] | None] = {
    f"{_PACKAGE}RoundRobinPartitioner": RoundRobinPartitioner,
    f"{_PACKAGE}UniformStickyPartitioner": UniformStickyPartitioner,
    f"{_PACKAGE}internals.DefaultPartitioner": DefaultPartitioner,
}


def custom_partitioner(setting: Any) -> Partitioner | None:
    """Return the partitioner of the setting partitioner.class; None: the built-in one.

    Args:
        setting: None, a class or an object with the methods of Partitioner, a function like those of
            kafka-python, or the name of one of Kafka's own classes.

    Raises InvalidConfigError.
    """
    if setting is None:
        return None
    if isinstance(setting, str):
        if setting not in _JAVA_CLASSES:
            raise InvalidConfigError(
                f"partitioner.class: expected one of {', '.join(_JAVA_CLASSES)}, or a Python class, object "
                f"or function, found {setting!r}"
            )
        setting = _JAVA_CLASSES[setting]
    if isinstance(setting, type):
        setting = setting()
    if hasattr(setting, "partition"):
        partitioner: Partitioner = setting
        return partitioner
    if callable(setting):
        return FunctionPartitioner(setting)
    raise InvalidConfigError(
        f"partitioner.class: expected a class, object or function that chooses partitions, found {setting!r}"
    )
