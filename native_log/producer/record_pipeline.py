"""Take records to their batches: intercept, serialize, partition and append them.

Kafka: KafkaProducer.doSend.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from native_log.arguments import optional_integer
from native_log.errors import KafkaLogError, ProducerClosedError, RecordTooLargeError, SerializationError
from native_log.log.writing.validation import check_columns, check_target
from native_log.producer.block_division import BlockDivision
from native_log.producer.block_future import BlockFuture
from native_log.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    RecordFuture,
    RecordMetadata,
    failed_future,
    run_callback,
)
from native_log.producer.interceptors import Interceptors
from native_log.producer.partition_choice import PartitionChoice
from native_log.producer.record import SerializedRecord, list_headers
from native_log.producer.record_size import MAX_OVERHEAD, MAX_VARINT_BYTES, max_size
from native_log.producer.serializers import Serializer
from native_log.producer.topic_queues import UNKNOWN_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from native_log.producer.accumulator import RecordAccumulator
    from native_log.producer.clock import Clock
    from native_log.producer.metadata import Metadata
    from native_log.producer.metrics import ProducerMetrics
    from native_log.producer.record import ProducerRecord
    from native_log.producer.settings import ProducerConfig
    from native_log.producer.topic_queues import TopicQueues
    from native_log.producer.transactions import TransactionManager

    Callback = Callable[[RecordMetadata | None, Exception | None], object]


_MAX_TIMESTAMP_MS = 2**63 - 1


class RecordPipeline:
    """What happens to a record before it is in a batch.

    Args:
        config: the producer's settings.
        clock: the current time.
        accumulator: the batches.
        metadata: the topics in use.
        transactions: the state of transactions; None: the producer has no transactional.id.
        metrics: counts the records that are not accepted.
        wakeup: wakes the sender.
        wakeup_for: wakes the sender for a new batch; see Sender.wakeup_for.

    Attributes:
        appends: for each known topic, `OpenBatches.append`, which takes most of its records. It is empty if
            the producer has interceptors, serializers, a partitioner or transactions.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        transactions: TransactionManager | None,
        metrics: ProducerMetrics,
        wakeup: Callable[[], None],
        wakeup_for: Callable[[Iterable[str]], None],
    ) -> None:
        self._clock = clock
        self._accumulator = accumulator
        self._metadata = metadata
        self._transactions = transactions
        self._metrics = metrics
        self._wakeup = wakeup
        self._wakeup_for = wakeup_for
        self._interceptors = Interceptors(config.interceptor_classes)
        self._key_serializer = Serializer(config.key_serializer, "key")
        self._value_serializer = Serializer(config.value_serializer, "value")
        self._choice = PartitionChoice(config)
        self._max_request_size = config.max_request_size
        self._max_record_bytes = min(config.max_request_size, config.buffer_memory)
        # Without headers, so many bytes of key and value are never too large.
        self._certain_bytes = self._max_record_bytes - MAX_OVERHEAD - 2 * MAX_VARINT_BYTES - 1
        self._max_block_ms = config.max_block_ms
        self._blocks = BlockDivision(config, self._max_record_bytes, round_robin=self._choice.is_round_robin)
        self._is_plain = not (
            self._interceptors
            or self._transactions
            or self._choice.is_custom
            or self._key_serializer.is_custom
            or self._value_serializer.is_custom
        )
        self._topics: dict[str, TopicQueues] = {}
        self.appends: dict[str, Callable[..., RecordFuture | None]] = {}

    def send(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        """Append a record to a batch. See KafkaLogProducer.send."""
        if self._transactions is not None:
            self._transactions.check_send()
        if not self._interceptors:
            return self._send(record, callback)
        return self._send_intercepted(record, callback)

    def send_batch(
        self, topic: str, records: pa.RecordBatch | pa.Table, partition: int | None
    ) -> BlockFuture:
        """Queue Arrow records. See KafkaLogProducer.send_batch."""
        if self._transactions is not None:
            self._transactions.check_send()
        check_columns(records.schema.names)
        check_target(records, (topic, partition))
        now_ms = self._clock.now_ms()
        queues = self._topics.get(topic) or self.await_topic(topic, partition, now_ms)
        batches, counts = [], []
        for number, block in self._blocks.divide(topic, len(queues.queues), records, partition):
            left_ms = max(0, self._max_block_ms - (self._clock.now_ms() - now_ms))
            batches.append(self._accumulator.append_block(queues, number, block, now_ms, left_ms))
            counts.append(block.record_count)
            self._wakeup()
        return BlockFuture(batches, counts)

    def await_topic(self, topic: str, partition: int | None, now_ms: int) -> TopicQueues:
        """Return the queues of a topic. Wait until it is found, for at most max.block.ms.

        Args:
            topic: the topic.
            partition: a partition that it must have; None: any.
            now_ms: the current time.

        Raises KafkaTimeoutError, ProducerClosedError, and the error of the topic.
        """
        if not isinstance(topic, str):
            raise TypeError(f"topic: expected a str, found {topic!r}")
        nodes = self._metadata.await_topic(topic, partition, now_ms, self._max_block_ms, self._wakeup)
        queues = self._accumulator.topic(topic, nodes)
        self._topics[topic] = queues
        if self._is_plain:
            queues.open_batches.on_full = partial(self._note_full, queues)
            self.appends[topic] = queues.open_batches.append
        return queues

    def forget_topics(self) -> None:
        """Forget the topics of a closed producer. `KafkaLogProducer.send` then finds that it is closed."""
        self._topics.clear()
        self.appends.clear()

    def close(self) -> None:
        """Close interceptors, serializers and partitioner."""
        for owned in (self._interceptors, self._key_serializer, self._value_serializer, self._choice):
            owned.close()

    def _send_intercepted(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        if record.headers is not None:
            record = record._replace(headers=list(record.headers))
        record = self._interceptors.on_send(record)
        future: RecordFuture | None = None

        def on_completion(metadata: RecordMetadata | None, error: Exception | None) -> None:
            known = metadata
            if known is None and future is not None:
                known = future.metadata()
            if known is None:
                known = _unknown(record)
            self._interceptors.on_acknowledgement(known, error)
            if callback is not None:
                callback(metadata, error)

        try:
            future = self._send(record, on_completion)
        except Exception as error:
            self._interceptors.on_acknowledgement(_unknown(record), error)
            raise
        return future

    def _send(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        try:
            return self._append(record, callback)
        except (ProducerClosedError, SerializationError):
            raise
        except KafkaLogError as error:
            return self._failed(record, error, callback)

    def _append(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        topic, value, key, headers, partition, timestamp_ms = record
        now_ms = self._clock.now_ms()
        max_block_ms: float = self._max_block_ms
        queues = self._topics.get(topic)
        partition = optional_integer("partition", partition)
        if queues is None or (partition is not None and partition >= len(queues.queues)):
            queues = self.await_topic(topic, partition, now_ms)
            waited_ms = self._clock.now_ms() - now_ms
            now_ms += waited_ms
            max_block_ms = max(0, max_block_ms - waited_ms)
        if headers is not None:
            headers = list_headers(headers)
        key_bytes = self._key_serializer.serialize(topic, key)
        value_bytes = self._value_serializer.serialize(topic, value)
        timestamp_ms = optional_integer("timestamp_ms", timestamp_ms)
        if timestamp_ms is None:
            timestamp_ms = now_ms
        elif timestamp_ms < 0:
            raise ValueError(
                f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative or null."
            )
        elif timestamp_ms > _MAX_TIMESTAMP_MS:
            raise ValueError(f"timestamp_ms: expected at most {_MAX_TIMESTAMP_MS}, found {timestamp_ms}")
        if headers or len(key_bytes or b"") + len(value_bytes or b"") > self._certain_bytes:
            size = max_size(key_bytes, value_bytes, headers)
            if size > self._max_record_bytes:
                raise self._too_large(size)
        chosen = self._choice.choose(queues, key, key_bytes, value, value_bytes, partition)
        is_custom = self._choice.is_custom and partition is None
        serialized = SerializedRecord(value_bytes, key_bytes, headers, timestamp_ms, callback)
        future, must_wake = self._accumulator.append(
            queues, chosen, serialized, max_block_ms, abort_on_new_batch=is_custom
        )
        if future is None:
            self._choice.note_new_batch(queues, chosen)
            chosen = self._choice.choose(queues, key, key_bytes, value, value_bytes, partition)
            future, must_wake = self._accumulator.append(queues, chosen, serialized, max_block_ms)
            assert future is not None
        if must_wake:
            self._wakeup_for(queues.log_directories)
        return future

    def _note_full(self, queues: TopicQueues) -> None:
        """Note that a record has filled an open batch of a topic."""
        self._accumulator.note_full(queues)
        self._wakeup_for(queues.log_directories)

    def _failed(self, record: ProducerRecord, error: Exception, callback: Callback | None) -> RecordFuture:
        """Return the future of a record that was not accepted, after its callback was called."""
        self._metrics.records_failed += 1
        if self._transactions is not None:
            self._transactions.note_failure(error)
        future = failed_future(record.topic, _partition(record), error)
        if callback is not None:
            run_callback(callback, future)
        return future

    def _too_large(self, size: int) -> RecordTooLargeError:
        limit = self._max_request_size
        larger_than = f"{limit}, which is the value of the max.request.size"
        if size <= limit:
            larger_than = "the total memory buffer you have configured with the buffer.memory"
        return RecordTooLargeError(
            f"The message is {size} bytes when serialized which is larger than {larger_than} configuration."
        )


def _partition(record: ProducerRecord) -> int:
    return UNKNOWN_PARTITION if record.partition is None else record.partition


def _unknown(record: ProducerRecord) -> RecordMetadata:
    return RecordMetadata(record.topic, _partition(record), NO_OFFSET, NO_TIMESTAMP, -1, -1)
