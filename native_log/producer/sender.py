"""Send the batches that are ready, and handle the responses (Kafka: Sender)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from native_log.errors import (
    KafkaLogError,
    KafkaTimeoutError,
    OutOfOrderSequenceError,
    ProducerClosedError,
    TransactionAbortedError,
    error_message,
)
from native_log.producer.accumulator import NO_DEADLINE
from native_log.producer.client import BatchToAppend, ProduceRequest
from native_log.producer.full_disk import describe_free, is_full_disk
from native_log.producer.futures import NO_OFFSET
from native_log.producer.record_size import BATCH_OVERHEAD
from native_log.storage.descriptors import TOO_MANY_FILES
from native_log.storage.opening import IrregularFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from native_log.producer.accumulator import RecordAccumulator
    from native_log.producer.batch import ProducerBatch
    from native_log.producer.client import BatchResponse, Client
    from native_log.producer.clock import Clock
    from native_log.producer.metadata import Metadata
    from native_log.producer.metrics import ProducerMetrics
    from native_log.producer.sequences import ProducerSequences
    from native_log.producer.settings import ProducerConfig
    from native_log.producer.transactions import TransactionManager

logger = logging.getLogger(__name__)


class Sender:
    """The producer's background work. `run` is the body of its thread; `run_once` is one round of it.

    Args:
        config: the producer's settings.
        accumulator: the batches.
        sequences: the sequences of the batches.
        metadata: the topics in use.
        find_topics: returns the log directories of topics, and errors; see LogDirectories.find.
        client: executes requests.
        metrics: what was sent.
        clock: the current time.
        transactions: the state of transactions; None: the producer has no transactional.id.
        fails_on_full_disk: whether no record is written after an error of a full disk. Otherwise batches are
            retried, as Kafka's producer does for a KafkaStorageException.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        sequences: ProducerSequences,
        metadata: Metadata,
        find_topics: Callable[[Iterable[str]], tuple[Mapping[str, Sequence[str]], Mapping[str, Exception]]],
        client: Client,
        metrics: ProducerMetrics,
        clock: Clock,
        transactions: TransactionManager | None = None,
        *,
        fails_on_full_disk: bool = False,
    ) -> None:
        self._accumulator = accumulator
        self._sequences = sequences
        self._metadata = metadata
        self._find_topics = find_topics
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._transactions = transactions
        self._fails_on_full_disk = fails_on_full_disk
        self._final_error: OSError | None = None
        self._full_nodes: set[str] = set()
        self._max_request_bytes = config.max_request_size
        self._retries = config.retries
        self._acks = config.acks
        self._is_compressed = config.compression_type != "none"
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._is_order_guaranteed = config.max_in_flight_requests_per_connection == 1
        self._in_flight: list[ProduceRequest] = []
        self.close_error: Exception | None = None
        """Why a log could not be closed."""
        self._is_running = True
        self._is_forced = False

    @property
    def is_running(self) -> bool:
        """Whether the producer accepts records."""
        return self._is_running

    def run(self) -> None:
        """Send batches until the producer is closed, then those that are left."""
        while self._is_running:
            self._run_safely()
        while not self._is_forced and (self._accumulator.has_undrained or self._client.in_flight()):
            self._run_safely()
        self._abort_open_transaction()
        if self._is_forced:
            self._accumulator.abort_incomplete(ProducerClosedError("Producer is closed forcefully."))
        self._close(lambda: self._client.close(is_forced=self._is_forced))
        if self._transactions is not None:
            self._close(self._transactions.close)

    def _close(self, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as error:
            logger.error(
                "a producer could not close its logs cleanly; they are recovered when next opened: %s",
                error,
            )
            self.close_error = self.close_error or error

    def _abort_open_transaction(self) -> None:
        transactions = self._transactions
        if transactions is None:
            return
        if transactions.is_open and not transactions.is_ending and not self._is_forced:
            if not transactions.is_committing:
                logger.info("an open transaction is aborted, because its producer is closed")
            transactions.begin_end(commit=transactions.is_committing)
        while transactions.is_ending and not self._is_forced:
            self._run_safely()
        if transactions.is_open and not self._is_forced:
            logger.error(
                "a transaction could not be ended; the next producer with its transactional.id ends it: %s",
                transactions.end_error,
            )

    def _run_safely(self) -> None:
        try:
            self.run_once()
        except Exception:
            logger.exception("an exception was raised in the thread of a producer")

    def initiate_close(self) -> None:
        """Accept no more records, send those that are left, and end."""
        self._accumulator.close()
        self._metadata.close()
        self._is_running = False
        self._client.wakeup()

    def force_close(self) -> None:
        """End without sending the records that are left."""
        self._is_forced = True
        self.initiate_close()

    def abandon(self) -> None:
        """Note that this process was forked, so that the thread of the sender does not exist in it."""
        self._is_running = False

    def wakeup(self) -> None:
        """End the wait of the current round."""
        self._client.wakeup()

    def wakeup_for(self, nodes: Iterable[str]) -> None:
        """End the wait of the current round for a new batch, unless a response will do so.

        While one request is appended, batches gather for the next one. Fewer, larger appends are quicker, and
        the thread that sends is interrupted less often.

        Args:
            nodes: the log directories for which the batch may be.
        """
        if not all(self._client.in_flight(node) for node in nodes):
            self._client.wakeup()

    def run_once(self) -> None:
        """Send what is ready, then wait for a response, a new batch or a deadline."""
        now_ms = self._clock.now_ms()
        if self._metadata.next_update_ms(now_ms) == 0:
            self._update_metadata(now_ms)
        timeout_ms = self._progress_transaction(now_ms)
        timeout_ms = min(timeout_ms, self.send_batches(now_ms))
        timeout_ms = min(timeout_ms, self._metadata.next_update_ms(now_ms))
        self.handle(self._client.poll(timeout_ms))

    def _progress_transaction(self, now_ms: int) -> int:
        """End the transaction if it is time. Return after how many ms it may be."""
        transactions = self._transactions
        if transactions is None:
            return NO_DEADLINE
        self._accumulator.is_completing = transactions.is_ending
        is_idle = not self._in_flight and not self._accumulator.has_incomplete
        transactions.progress(now_ms, is_idle=is_idle)
        if self._accumulator.is_completing and not transactions.is_ending:
            return 0
        if not transactions.accepts_batches and self._accumulator.has_incomplete:
            error = transactions.error
            if not isinstance(error, KafkaLogError):
                error = TransactionAbortedError("the transaction was aborted before the record was written")
            self._accumulator.abort_undrained(error)
            return 0 if transactions.is_ending and not self._in_flight else NO_DEADLINE
        return transactions.next_timeout_ms(now_ms)

    def _update_metadata(self, now_ms: int) -> None:
        self._metadata.keep(self._accumulator.last_used())
        topics = self._metadata.topics()
        try:
            nodes, errors = self._find_topics(topics)
        except (KafkaLogError, OSError) as error:
            self._metadata.fail(error, now_ms)
            return
        for topic, partitions in nodes.items():
            self._accumulator.topic(topic, partitions)
        self._metadata.update(nodes, errors, now_ms)

    def send_batches(self, now_ms: int) -> int:
        """Drain and send the batches that are ready. Return how long to wait for responses, in ms."""
        next_expiry_ms = self._fail_expired(now_ms)
        readiness = self._accumulator.ready(now_ms)
        nodes: set[str] = set()
        for node in readiness.nodes:
            can_drain = self._client.is_ready(node)
            self._accumulator.latencies.note(node, now_ms, can_drain=can_drain)
            if can_drain:
                nodes.add(node)
        drained = self._accumulator.drain(nodes, self._max_request_bytes, now_ms)
        for node, batches in drained.items():
            if batches:
                self._send(node, batches, now_ms)
        if any(drained.values()):
            return 0
        # If a ready node accepts no requests, a response ends the wait.
        timeout_ms = min(readiness.next_check_ms, max(next_expiry_ms - now_ms, 0))
        return min(timeout_ms, NO_DEADLINE)

    def _send(self, node: str, batches: list[ProducerBatch], now_ms: int) -> None:
        if self._final_error is not None:
            for batch in batches:
                self._fail(batch, self._final_error)
            return
        if self._transactions is not None:
            try:
                self._transactions.add({batch.target for batch in batches})
            except (KafkaLogError, OSError) as error:
                for batch in batches:
                    self._fail(batch, error)
                return
        if self._is_order_guaranteed:
            for batch in batches:
                self._accumulator.mute(batch.target)
        self._metrics.queue_time.record(*(now_ms - batch.created_ms for batch in batches))
        self._metrics.records_per_request.record(sum(batch.record_count for batch in batches))
        oldest_ms = min(batch.created_ms for batch in batches)
        request = ProduceRequest(node, [BatchToAppend.of(batch) for batch in batches], now_ms, oldest_ms)
        self._in_flight.append(request)
        self._client.send(request)

    def _fail_expired(self, now_ms: int) -> int:
        """Fail the batches that are too old. Return when the next one expires, in epoch ms."""
        expired, next_expiry_ms = self._accumulator.expired(now_ms)
        for batch in expired:
            self._fail(batch, self._expiry_error(batch, now_ms))
        for request in self._in_flight:
            oldest_ms = request.oldest_ms
            if oldest_ms + self._delivery_timeout_ms <= now_ms:
                oldest_ms = self._fail_expired_in_flight(request, now_ms)
            next_expiry_ms = min(next_expiry_ms, oldest_ms + self._delivery_timeout_ms)
        return next_expiry_ms

    def _fail_expired_in_flight(self, request: ProduceRequest, now_ms: int) -> int:
        """Fail the batches that are too old. Return when the first of the others was created."""
        oldest_ms = now_ms
        for batch in (each.batch for each in request.batches if not each.batch.is_done):
            if batch.is_expired(self._delivery_timeout_ms, now_ms):
                # A thread is appending it, so its memory and sequences stay in use until the response.
                self._metrics.records_failed += batch.record_count
                error = self._expiry_error(batch, now_ms)
                if self._transactions is not None:
                    self._transactions.note_failure(error)
                batch.fail(error)
            else:
                oldest_ms = min(oldest_ms, batch.created_ms)
        return oldest_ms

    @staticmethod
    def _expiry_error(batch: ProducerBatch, now_ms: int) -> KafkaTimeoutError:
        reason = f", last error: {batch.last_error}" if batch.last_error is not None else ""
        return KafkaTimeoutError(
            f"Expiring {batch.record_count} record(s) for {batch.target}:{now_ms - batch.created_ms} ms has "
            f"passed since batch creation{reason}"
        )

    def handle(self, requests: Sequence[ProduceRequest]) -> None:
        """Complete, retry, split or fail the batches of requests."""
        now_ms = self._clock.now_ms()
        responses: list[BatchResponse] = []
        for request in requests:
            self._in_flight.remove(request)
            self._metrics.request_latency.record(now_ms - request.created_ms)
            self._note_full_disk(request)
            responses += request.responses
        if self._is_order_guaranteed:
            for response in responses:
                self._accumulator.unmute(response.batch.batch.target)
        self._complete([response for response in responses if response.is_written])
        # Callbacks run in the order of the batches.
        unfinished = [each for each in responses if not each.is_written and not self._finish(each, now_ms)]
        # The last batch is put back first, so that the queue has them in their order again.
        for response in reversed(unfinished):
            self._put_back(response, now_ms)

    def _finish(self, response: BatchResponse, now_ms: int) -> bool:
        """Fail a batch that was not written if there is no further attempt. Return whether it is done."""
        batch, error = response.batch.batch, response.error
        if batch.is_done:  # it expired meanwhile
            self._sequences.give_up(batch)
            self._accumulator.deallocate(batch)
            return True
        if error is None:
            return False
        batch.last_error = error
        if batch.must_be_split(error) or self._may_retry(response, now_ms):
            return False
        self._fail(batch, error)
        return True

    def _put_back(self, response: BatchResponse, now_ms: int) -> None:
        """Put a batch back into its queue, divided if it is too large."""
        batch, error = response.batch.batch, response.error
        if error is None:
            self._accumulator.requeue(batch, now_ms, is_attempt=False)
        elif batch.must_be_split(error):
            text = str(batch)
            count = self._accumulator.split_and_requeue(batch, now_ms)
            self._accumulator.deallocate(batch)
            self._metrics.batches_split += 1
            logger.warning("%s is too large and was split into %d batches: %s", text, count, error)
        else:
            self._metrics.records_retried += batch.record_count
            self._accumulator.requeue(batch, now_ms)

    def _complete(self, written: Sequence[BatchResponse]) -> None:
        """Complete batches in their order, then release their memory."""
        self._note_sizes(written)
        for response in written:
            batch = response.batch.batch
            self._sequences.remove(batch)
            offset = NO_OFFSET if self._acks == "0" else response.base_offset
            self._metrics.records_sent += batch.record_count
            batch.complete(offset, response.log_append_time_ms, None)
        self._accumulator.deallocate(*(response.batch.batch for response in written))

    def _note_sizes(self, written: Sequence[BatchResponse]) -> None:
        sized = [(response.batch.batch, response.size_bytes) for response in written if response.size_bytes]
        self._metrics.batch_size.record(*(size_bytes for _, size_bytes in sized))
        if self._is_compressed:
            self._accumulator.observe_sizes(sized)
            self._metrics.compression_rate.record(
                *(size_bytes / (BATCH_OVERHEAD + batch.builder.plain_bytes) for batch, size_bytes in sized)
            )

    def _note_full_disk(self, request: ProduceRequest) -> None:
        """Log the first error of a full disk, until the log directory takes a request again."""
        node = request.node
        error = next((each.error for each in request.responses if is_full_disk(each.error)), None)
        if not isinstance(error, OSError):
            if any(each.is_written for each in request.responses):
                self._full_nodes.discard(node)
            return
        if self._fails_on_full_disk:
            self._final_error = self._final_error or error
        elif node not in self._full_nodes:
            self._full_nodes.add(node)
            logger.warning(
                "%s: cannot write records (%s; %s); the producer tries again until delivery.timeout.ms (%d) "
                "has passed; free some space",
                node,
                error_message(error),
                describe_free(node),
                self._delivery_timeout_ms,
            )

    def _may_retry(self, response: BatchResponse, now_ms: int) -> bool:
        batch, error = response.batch.batch, response.error
        if batch.attempts >= self._retries or batch.is_expired(self._delivery_timeout_ms, now_ms):
            return False
        if self._fails_on_full_disk and is_full_disk(error):
            return False
        if isinstance(error, OutOfOrderSequenceError):
            # A batch before this one failed.
            has_changed = batch.base_sequence != response.batch.base_sequence
            return has_changed or not self._sequences.is_next(batch)
        # A link or a pipe in the place of a file does not go away by itself, nor does a limit of open files.
        return (
            isinstance(error, OSError)
            and not isinstance(error, IrregularFileError)
            and error.errno not in TOO_MANY_FILES
        )

    def _fail(self, batch: ProducerBatch, error: Exception) -> None:
        self._sequences.give_up(batch)
        if self._transactions is not None:
            self._transactions.note_failure(error)
        self._metrics.records_failed += batch.record_count
        batch.fail(error)
        self._accumulator.deallocate(batch)
