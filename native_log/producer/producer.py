"""KafkaLogProducer (Kafka: KafkaProducer)."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from native_log.errors import (
    InvalidTxnStateError,
    KafkaLogError,
    KafkaTimeoutError,
    ProducerClosedError,
)
from native_log.producer.accumulator import RecordAccumulator
from native_log.producer.client import LogDirClient
from native_log.producer.clock import SystemClock
from native_log.producer.coordinator import TransactionCoordinator
from native_log.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    RecordFuture,
    RecordMetadata,
)
from native_log.producer.log_directories import LogDirectories
from native_log.producer.metadata import Metadata
from native_log.producer.metrics import ProducerMetrics
from native_log.producer.producer_ids import random_producer_id
from native_log.producer.record import ProducerRecord
from native_log.producer.record_pipeline import RecordPipeline
from native_log.producer.sender import Sender
from native_log.producer.sequences import ProducerSequences
from native_log.producer.settings import ProducerConfig
from native_log.producer.transactions import TransactionManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from native_log.arguments import PathLike
    from native_log.logdir import LogDir
    from native_log.producer.block_future import BlockFuture
    from native_log.producer.record_size import Header

logger = logging.getLogger(__name__)

_producers: weakref.WeakSet[KafkaLogProducer] = weakref.WeakSet()
_threads: set[threading.Thread] = set()
"""The threads of all producers that have not ended, also of producers that were forgotten and not closed."""


class KafkaLogProducer:
    """Write records to the log directories of a broker, one by one, as Kafka's producer does.

    `send` appends a record to a batch in memory. A thread appends the batches to the logs. Several threads
    may share a producer, and several producers of one process may write to the same log.

    The first record takes the lock of the log directory, which is held until the producer is closed: no
    broker can run on the directory in the meantime. A producer must be closed; a `with` block does it.

    Args:
        path_or_logdir: a LogDir, or the path of one or several log directories. A path that does not exist or
            is empty becomes a new log directory.
        configs: settings by Kafka's names, as a mapping.
        **settings: settings, which override those in `configs`. In both, `_` may stand for `.`:
            `linger_ms=5` is `{"linger.ms": 5}`. Settings of topics, such as `flush.messages`, apply to what
            this producer writes. `auto.create.topics.enable` and `num.partitions` apply to topics that do not
            exist. Settings that only a connection needs are ignored.

    Raises:
        InvalidConfigError: an invalid setting, or a name that looks like a misspelling.
        NotALogDirError, OSError: the log directories cannot be read or created.
    """

    def __init__(
        self,
        path_or_logdir: LogDir | PathLike | Iterable[PathLike],
        configs: Mapping[str, object] | None = None,
        *,
        _fails_on_full_disk: bool = False,
        **settings: Any,
    ) -> None:
        config = ProducerConfig.parse({**(configs or {}), **settings})
        for name in config.ignored:
            logger.warning("the setting %s is not one of a producer or a topic, and is ignored", name)
        self._config = config
        self._clock = SystemClock()
        self._max_block_ms = config.max_block_ms
        self._metrics = ProducerMetrics()
        self._sequences = ProducerSequences()
        if config.enable_idempotence and config.transactional_id is None:
            self._sequences.begin_epoch(random_producer_id(), 0)
        self._directories = LogDirectories(path_or_logdir, config)
        self._transactions: TransactionManager | None = None
        if config.transactional_id is not None:
            coordinator = TransactionCoordinator(config.transactional_id, self._directories, self._clock)
            self._transactions = TransactionManager(
                coordinator, self._sequences, config.transaction_timeout_ms
            )
        self._accumulator = RecordAccumulator(config, self._clock, self._sequences)
        metadata = Metadata(config, self._clock, fails_on_full_disk=_fails_on_full_disk)
        client = LogDirClient(self._directories, config, self._clock)
        self._sender = Sender(
            config,
            self._accumulator,
            self._sequences,
            metadata,
            self._directories.find,
            client,
            self._metrics,
            self._clock,
            self._transactions,
            fails_on_full_disk=_fails_on_full_disk,
        )
        self._pipeline = RecordPipeline(
            config,
            self._clock,
            self._accumulator,
            metadata,
            self._transactions,
            self._metrics,
            self._sender.wakeup,
            self._sender.wakeup_for,
        )
        self._appends = self._pipeline.appends
        self._is_forked = False
        self._is_closed = False
        self._thread = threading.Thread(
            target=_run,
            args=(self._sender,),
            name=f"kafkalog-producer | {config.client_id or id(self)}",
            daemon=True,
        )
        _threads.add(self._thread)
        self._thread.start()
        _producers.add(self)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        callback: Callable[[RecordMetadata | None, Exception | None], object] | None = None,
    ) -> RecordFuture:
        """Send a record. Return the future of its metadata.

        The call returns when the record is in a batch. It waits for at most max.block.ms if the topic is not
        known yet, or if the buffer is full.

        Args:
            topic: the topic.
            value, key: bytes, str (written as UTF-8) or None; with value.serializer and key.serializer, what
                these accept.
            headers: pairs of name and value (bytes or None).
            partition: the partition; None: that of the key's hash or, without a key, one that is kept for
                about batch.size bytes.
            timestamp_ms: epoch ms; None: the current time.
            callback: called with (metadata, None) or (None, error) when the record was written or failed. It
                runs on the thread of the producer, so it must not wait.

        Returns:
            The future. It has failed already with RecordTooLargeError, BufferExhaustedError,
            KafkaTimeoutError (the topic has no such partition), or an error of the topic, such as
            UnknownTopicOrPartitionError. In this case the callback was called before.

        Raises:
            ProducerClosedError: the producer is closed.
            SerializationError: a key or value cannot be converted.
            TypeError, ValueError: an invalid argument.
        """
        append = self._appends.get(topic)
        if append is not None and partition is None:
            # Most records take this short path; the pipeline would do the same. See TopicQueues.
            future = append(value, key, headers, timestamp_ms, callback)
            if future is not None:
                return future
        self._check_open()
        return self._pipeline.send(
            ProducerRecord(topic, value, key, headers, partition, timestamp_ms), callback
        )

    def send_batch(
        self, topic: str, records: pa.RecordBatch | pa.Table, *, partition: int | None = None
    ) -> BlockFuture:
        """Send Arrow records, much faster than one by one. Return the future of their metadata.

        They are written after the records that were sent before. Interceptors, serializers and custom
        partitioners do not apply. The records must not be changed until they are written. They count with
        their size in memory towards buffer.memory.

        Args:
            topic: the topic.
            records: columns as for PartitionLog.append. A column `partition` sets the partition of records.
            partition: the partition of all records; None: those of `send`.

        Raises:
            KafkaTimeoutError: the topic does not exist, or the buffer is full (BufferExhaustedError). A part
                of the records may be in the buffer then.
            InvalidRecordError: the topic has no such partition, or the column `topic` or `partition`
                contradicts the argument. Then no record is in the buffer.
            ProducerClosedError: the producer is closed.
            ValueError: an unknown column, no column `value`, or a type that cannot be converted.
        """
        self._check_open()
        return self._pipeline.send_batch(topic, records, partition)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records that were sent before this call are written or have failed.

        Call `get` of their futures to learn of errors. Do not call this in a callback.

        Args:
            timeout: in seconds; None: no timeout.

        Raises KafkaTimeoutError.
        """
        self._check_process()
        if threading.current_thread() is self._thread:
            raise KafkaLogError("expected flush outside of callbacks, found it in one, where it never ends")
        started_ms = self._clock.now_ms()
        batches = self._accumulator.begin_flush()
        self._sender.wakeup()
        try:
            for batch in batches:
                left = None
                if timeout is not None:
                    left = max(0.0, timeout - (self._clock.now_ms() - started_ms) / 1000)
                if not batch.result.wait(left):
                    raise KafkaTimeoutError(
                        f"expected all records to be written within {timeout} s, found some that are not"
                    )
        finally:
            self._accumulator.end_flush()
            self._metrics.flush_ms += self._clock.now_ms() - started_ms

    def close(self, timeout: float | None = None) -> None:
        """Write the records that are left, and close the logs.

        Records that are not written within `timeout` seconds fail with a ProducerClosedError. In a callback,
        the timeout is 0, and the call does not wait. A second call does nothing.

        Args:
            timeout: in seconds; None: no timeout.

        Raises:
            ValueError: a negative timeout.
            KafkaLogError, OSError: a log could not be closed. It is recovered when it is next opened.
        """
        if timeout is not None and timeout < 0:
            raise ValueError("The timeout cannot be negative.")
        if self._is_forked:
            return
        self._pipeline.forget_topics()
        is_callback = threading.current_thread() is self._thread
        if is_callback and timeout != 0:
            logger.warning(
                "the timeout of close() in a callback of a producer is 0, because it must not wait"
            )
        if not is_callback and timeout != 0:
            self._sender.initiate_close()
            self._thread.join(timeout)
        if self._thread.is_alive():
            self._sender.force_close()
            if not is_callback:
                self._thread.join()
        if not self._is_closed:
            self._is_closed = True
            _producers.discard(self)
            self._pipeline.close()
            if self._sender.close_error is not None:
                raise self._sender.close_error

    def init_transactions(self) -> None:
        """Prepare for transactions. Call this once, before all others.

        Earlier producers with the same transactional.id are fenced: their next operation raises
        ProducerFencedError. A transaction that they left open is aborted, or committed if that had begun.

        Raises:
            InvalidTxnStateError: transactional.id is not set, or this is not the first call.
            LogDirInUseError: a broker or another process uses the log directory.
            KafkaLogError, OSError: the state of transactions cannot be read or written.
        """
        self._transactional().initialize()

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises InvalidTxnStateError, ProducerFencedError."""
        self._transactional().begin(self._clock.now_ms())

    def commit_transaction(self) -> None:
        """Write all records of the transaction, then the markers with which readers get them.

        Raises:
            InvalidTxnStateError: no transaction was begun, or a record failed: call abort_transaction.
            KafkaTimeoutError: it took longer than max.block.ms; call this again.
            ProducerFencedError: a newer producer uses the same transactional.id.
            KafkaLogError, OSError: a marker cannot be written; call this again.
        """
        self._end_transaction(commit=True)

    def abort_transaction(self) -> None:
        """Drop the records that are not written, and write markers with which readers skip the others.

        Raises the same errors as commit_transaction, except for failed records.
        """
        self._end_transaction(commit=False)

    def send_offsets_to_transaction(self, offsets: object, group_metadata: object) -> NoReturn:
        """Raise NotImplementedError: there is no consumer group without a broker.

        Offsets are committed by a group coordinator to __consumer_offsets, which a broker would not accept
        from elsewhere. Send your own progress as a record in the same transaction instead.
        """
        raise NotImplementedError(
            "send_offsets_to_transaction needs a group coordinator, which only brokers have; send the "
            "offsets as a record of the same transaction to a topic of your own"
        )

    def _transactional(self) -> TransactionManager:
        if self._transactions is None:
            raise InvalidTxnStateError(
                "Cannot use transactional methods without enabling transactions by setting the "
                "transactional.id configuration property"
            )
        self._check_open()
        return self._transactions

    def _end_transaction(self, *, commit: bool) -> None:
        transactions = self._transactional()
        ended = transactions.begin_end(commit=commit)
        self._sender.wakeup()
        if not ended.wait(self._max_block_ms / 1000):
            raise KafkaTimeoutError(
                f"expected the transaction to end within {self._max_block_ms} ms (max.block.ms), found "
                "records that are not written yet; call this again"
            )
        transactions.finish_end()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Create the topic if auto.create.topics.enable is true.

        Raises KafkaTimeoutError, ProducerClosedError.
        """
        self._check_open()
        return set(range(len(self._pipeline.await_topic(topic, None, self._clock.now_ms()).queues)))

    def metrics(self) -> dict[str, float]:
        """Return what was sent, by the names of Kafka's producer metrics. Times are in ms, sizes in bytes."""
        pool = self._accumulator.pool
        return {
            **self._metrics.snapshot(),
            "buffer-total-bytes": pool.total_bytes,
            "buffer-available-bytes": pool.available_bytes,
            "waiting-threads": pool.queued,
            "bufferpool-wait-time-ms-total": pool.wait_ms,
            "buffer-exhausted-total": pool.exhausted_count,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_thread", None) is None or self._is_forked or self._is_closed:
            return
        if self._sender.is_running:
            _warn_of_no_close(self)
            self._sender.initiate_close()

    def __repr__(self) -> str:
        return f"KafkaLogProducer({', '.join(map(repr, self._directories.paths))})"

    def _check_open(self) -> None:
        if not self._sender.is_running:
            self._check_process()
            raise ProducerClosedError("Cannot perform operation after producer has been closed")

    def _check_process(self) -> None:
        if self._is_forked:
            raise ProducerClosedError(
                "expected the process that created the producer, found a fork of it; create a producer in "
                "each process"
            )

    def _abandon_in_child(self) -> None:
        """Make the copy of this producer in a forked process unusable."""
        self._is_forked = True
        self._pipeline.forget_topics()
        self._sender.abandon()
        error = ProducerClosedError("the record belongs to the process from which this one was forked")
        for batch in self._accumulator.incomplete:
            batch.result.set(NO_OFFSET, NO_TIMESTAMP, error)

    def _close_at_exit(self) -> None:
        """Write the records that are left, and report those that cannot be written."""
        _warn_of_no_close(self)
        failed = self._metrics.records_failed
        with contextlib.suppress(Exception):  # the sender has logged it
            self.close()
        failed = self._metrics.records_failed - failed
        if failed:
            logger.error(
                "%r was not closed before the exit of the process, and %d records could not be written; "
                "close it, and call get() of the futures for the errors",
                self,
                failed,
            )


def _run(sender: Sender) -> None:
    try:
        sender.run()
    finally:
        _threads.discard(threading.current_thread())


def _warn_of_no_close(producer: KafkaLogProducer) -> None:
    warnings.warn(
        "expected close() of a KafkaLogProducer, found none: its records are written in the background; "
        "use a `with` block, or close the producer",
        ResourceWarning,
        stacklevel=3,
        source=producer,
    )


def _close_at_exit() -> None:
    # Python has shut down its pools by now and, since 3.12, starts no more threads. Closing needs neither.
    for producer in list(_producers):
        producer._close_at_exit()
    for thread in list(_threads):
        thread.join()


def _abandon_in_child() -> None:
    for producer in list(_producers):
        producer._abandon_in_child()
    _producers.clear()
    _threads.clear()


atexit.register(_close_at_exit)
os.register_at_fork(after_in_child=_abandon_in_child)
