"""When to look for topics in the log directories, and what was found (Kafka: Metadata, ProducerMetadata)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, KafkaTimeoutError, ProducerClosedError
from native_log.producer.backoff import ExponentialBackoff
from native_log.producer.full_disk import is_full_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from native_log.producer.clock import Clock
    from native_log.producer.settings import ProducerConfig


class Metadata:
    """The partitions of the topics to which a producer writes.

    The sender updates them when `next_update_ms` says so: when a topic is missing, and every
    metadata.max.age.ms. After a failed or fruitless update it waits for retry.backoff.ms, and longer after
    further ones. Topics that are not used for metadata.max.idle.ms are forgotten.

    Args:
        config: the producer's settings.
        clock: the current time.
        fails_on_full_disk: whether a topic fails at once if it cannot be created on a full disk.
    """

    def __init__(self, config: ProducerConfig, clock: Clock, *, fails_on_full_disk: bool = False) -> None:
        self._fails_on_full_disk = fails_on_full_disk
        self._clock = clock
        self._max_age_ms = config.metadata_max_age_ms
        self._max_idle_ms = config.metadata_max_idle_ms
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._changed = threading.Condition()
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._expiry_ms: dict[str, int] = {}
        self._errors: dict[str, Exception] = {}
        self._is_requested = False
        self._failed_attempts = 0
        self._last_attempt_ms: int | None = None
        self._is_closed = False
        self.version = 0
        self.last_update_ms: int | None = None

    def nodes(self, topic: str) -> tuple[str, ...] | None:
        """Return the log directory of each partition of a topic; None if the topic is not known."""
        return self._nodes.get(topic)

    def use(self, topic: str, now_ms: int) -> None:
        """Note that a topic is used. A new topic requests an update."""
        with self._changed:
            if topic not in self._expiry_ms:
                self._is_requested = True
            self._expiry_ms[topic] = now_ms + self._max_idle_ms

    def keep(self, last_used_ms: Mapping[str, int]) -> None:
        """Note when topics that are known were last used. `use` is not called for each record."""
        with self._changed:
            for topic, used_ms in last_used_ms.items():
                if topic in self._expiry_ms:
                    self._expiry_ms[topic] = max(self._expiry_ms[topic], used_ms + self._max_idle_ms)

    def topics(self) -> list[str]:
        """Return the topics that are in use."""
        with self._changed:
            return list(self._expiry_ms)

    def request_update(self) -> int:
        """Ask the sender for an update. Return the version of the current metadata."""
        with self._changed:
            self._is_requested = True
            return self.version

    def next_update_ms(self, now_ms: int) -> int:
        """Return after how many ms an update is due; 0: now."""
        with self._changed:
            since_update = 0 if self.last_update_ms is None else now_ms - self.last_update_ms
            expiry_ms = (
                0 if self._is_requested or self.last_update_ms is None else self._max_age_ms - since_update
            )
            backoff_ms = 0
            if self._last_attempt_ms is not None:
                backoff_ms = self._backoff.delay_ms(self._failed_attempts) - (now_ms - self._last_attempt_ms)
            if not self._expiry_ms:
                return self._max_age_ms  # nothing to look for
            return max(expiry_ms, backoff_ms, 0)

    def update(
        self, nodes: Mapping[str, Sequence[str]], errors: Mapping[str, Exception], now_ms: int
    ) -> None:
        """Replace the metadata.

        Args:
            nodes: for each topic that was found, the log directory of each partition.
            errors: why a topic was not found.
            now_ms: the current time.
        """
        with self._changed:
            self._expiry_ms = {topic: at for topic, at in self._expiry_ms.items() if at > now_ms}
            self._nodes = {topic: tuple(nodes[topic]) for topic in nodes if topic in self._expiry_ms}
            self._errors = dict(errors)
            self._is_requested = any(topic not in self._nodes for topic in self._expiry_ms)
            self._failed_attempts = self._failed_attempts + 1 if self._is_requested else 0
            self.last_update_ms = self._last_attempt_ms = now_ms
            self.version += 1
            self._changed.notify_all()

    def fail(self, error: Exception, now_ms: int) -> None:
        """Note that an update failed as a whole."""
        with self._changed:
            self._errors = dict.fromkeys(self._expiry_ms, error)
            self._failed_attempts += 1
            self._is_requested = True
            self._last_attempt_ms = now_ms
            self.version += 1
            self._changed.notify_all()

    def await_update(self, version: int, timeout_ms: float) -> None:
        """Wait until there is newer metadata than `version`.

        Raises KafkaTimeoutError; ProducerClosedError.
        """
        with self._changed:
            deadline_ms = self._clock.now_ms() + timeout_ms
            while self.version <= version:
                if self._is_closed:
                    raise ProducerClosedError("Requested metadata update after close")
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise KafkaTimeoutError(f"Failed to update metadata after {timeout_ms} ms.")
                self._clock.wait(self._changed, left_ms)

    def await_topic(
        self,
        topic: str,
        partition: int | None,
        now_ms: int,
        max_block_ms: float,
        wakeup: Callable[[], None],
    ) -> tuple[str, ...]:
        """Wait until a topic is found (Kafka: KafkaProducer.waitOnMetadata).

        Args:
            topic: the topic.
            partition: the topic must have this partition; None: any.
            now_ms: the current time.
            max_block_ms: how long to wait at most.
            wakeup: wakes the sender.

        Returns:
            The log directory of each partition.

        Raises:
            KafkaTimeoutError: the topic, or the partition, was not found in time.
            ProducerClosedError: the producer was closed.
            KafkaLogError, ValueError: another attempt would not find the topic.
        """
        started_ms = now_ms
        self.use(topic, now_ms)
        nodes = self.nodes(topic)
        while nodes is None or (partition is not None and partition >= len(nodes)):
            version = self.request_update()
            wakeup()
            left_ms = max_block_ms - (now_ms - started_ms)
            try:
                self.await_update(version, max(left_ms, 0))
            except KafkaTimeoutError:
                missing = f"Topic {topic} not present"
                if nodes is not None:
                    missing = (
                        f"Partition {partition} of topic {topic} with partition count {len(nodes)} is not "
                        "present"
                    )
                raise KafkaTimeoutError(f"{missing} in metadata after {max_block_ms} ms.") from self.error(
                    topic
                )
            self.raise_fatal(topic)
            now_ms = self._clock.now_ms()
            self.use(topic, now_ms)
            nodes = self.nodes(topic)
        return nodes

    def error(self, topic: str) -> Exception | None:
        """Return why a topic was not found in the last update."""
        return self._errors.get(topic)

    def raise_fatal(self, topic: str) -> None:
        """Raise the error of a topic if another attempt would not help.

        Kafka's producer waits for a missing topic for max.block.ms. Here this very process would have to
        create the topic, so an error at once is more helpful.
        """
        error = self._errors.get(topic)
        is_final = self._fails_on_full_disk and is_full_disk(error)
        if error is not None and (is_final or isinstance(error, KafkaLogError | ValueError)):
            with self._changed:
                self._expiry_ms.pop(topic, None)
            raise error

    def close(self) -> None:
        """Wake the threads that wait for an update. They get a ProducerClosedError."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
