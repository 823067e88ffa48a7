"""The states of a transactional producer (Kafka: TransactionManager)."""

from __future__ import annotations

import logging
import threading
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from native_log.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaLogError,
    KafkaTimeoutError,
    LogDirInUseError,
    ProducerFencedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.producer.batch import TopicPartition
    from native_log.producer.sequences import ProducerSequences


logger = logging.getLogger(__name__)


class State(Enum):
    """What a transactional producer does."""

    UNINITIALIZED = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING_TRANSACTION = auto()
    ABORTING_TRANSACTION = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


_ALLOWED = {
    "init_transactions": {State.UNINITIALIZED},
    "begin_transaction": {State.READY},
    # A call that failed or timed out may be repeated.
    "commit_transaction": {State.IN_TRANSACTION, State.COMMITTING_TRANSACTION},
    "abort_transaction": {State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING_TRANSACTION},
    "send": {State.IN_TRANSACTION},
}
"""In which states an operation is allowed."""

_FATAL = (ProducerFencedError, LogDirInUseError)


class Coordinator(Protocol):
    """What keeps the state of transactions: see TransactionCoordinator."""

    def init_producer(self) -> tuple[int, int]:
        """Return the producer id and the epoch of a new producer."""

    def add_partitions(self, producer_epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """Note that data are about to be written to partitions."""

    def end(self, producer_epoch: int, *, commit: bool) -> None:
        """Write the markers that end a transaction."""

    def close(self) -> None:
        """Release what the coordinator holds."""


class TransactionManager:
    """The state of a transactional producer.

    Args:
        coordinator: begins and ends transactions.
        sequences: the sequences of the producer.
        timeout_ms: transaction.timeout.ms.

    Attributes:
        state: the current state.
        error: what led to an error state.
        end_error: why the last attempt to end a transaction failed, until `finish_end` has raised it.
    """

    def __init__(self, coordinator: Coordinator, sequences: ProducerSequences, timeout_ms: int) -> None:
        self._coordinator = coordinator
        self._sequences = sequences
        self._timeout_ms = timeout_ms
        self._guard = threading.RLock()
        self._partitions: set[TopicPartition] = set()
        self._started_ms = 0
        self._is_ended = False
        """Whether the markers of the current transaction were written."""
        self._is_end_requested = False
        self._ended = threading.Event()
        self._pending = ""
        """The operation that ends a transaction, until its caller knows the outcome (Kafka:
        pendingTransition)."""
        self.end_error: Exception | None = None
        self.state = State.UNINITIALIZED
        self.error: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self.state not in (State.UNINITIALIZED, State.READY, State.FATAL_ERROR)

    @property
    def accepts_batches(self) -> bool:
        """Whether batches may be written."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION)

    @property
    def is_committing(self) -> bool:
        """Whether a commit has begun, which may have failed. It can only be repeated."""
        return self.state == State.COMMITTING_TRANSACTION

    @property
    def is_ending(self) -> bool:
        """Whether the transaction is to be committed or aborted."""
        return self._is_end_requested

    def initialize(self) -> None:
        """Get a producer id and an epoch. Raises InvalidTxnStateError and the errors of the coordinator."""
        with self._guard:
            self._check("init_transactions")
            self._sequences.begin_epoch(*self._coordinator.init_producer())
            self._sequences.is_transactional = True
            self.state = State.READY

    def begin(self, now_ms: int) -> None:
        """Begin a transaction. Raises InvalidTxnStateError."""
        with self._guard:
            self._check("begin_transaction")
            self._partitions.clear()
            self._started_ms = now_ms
            self._is_ended = False
            self.state = State.IN_TRANSACTION

    def check_send(self) -> None:
        """Raise InvalidTxnStateError unless records may be sent."""
        if self.state != State.IN_TRANSACTION:
            self._check("send")

    def add(self, targets: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before data are written to them.

        Raises the errors of the coordinator.
        """
        with self._guard:
            new = {target for target in targets if target not in self._partitions}
            if new and not self._is_ended:
                self._coordinator.add_partitions(self._sequences.producer_epoch, sorted(new))
                self._partitions |= new

    def begin_end(self, *, commit: bool) -> threading.Event:
        """Accept no more records. The sender then ends the transaction by `progress`.

        Returns:
            An event that is set when the transaction has ended or failed: see `finish_end`. If a call that
            timed out is repeated, this may be so already.

        Raises InvalidTxnStateError.
        """
        operation = "commit_transaction" if commit else "abort_transaction"
        with self._guard:
            if self.state == State.READY and self._pending == operation:
                return self._ended
            self._check(operation)
            if not self._is_end_requested:
                self._pending, self.end_error = operation, None
                self.state = State.COMMITTING_TRANSACTION if commit else State.ABORTING_TRANSACTION
                self._is_end_requested = True
                self._ended = threading.Event()
            return self._ended

    def finish_end(self) -> None:
        """Raise the error that kept the transaction from ending, if there is one."""
        with self._guard:
            self._pending = ""
            error, self.end_error = self.end_error, None
            if error is not None:
                raise error
            if self.state != State.READY:
                self._raise_error()

    def progress(self, now_ms: int, *, is_idle: bool) -> None:
        """End the transaction if that was requested or is overdue. The sender calls this in each round.

        Args:
            now_ms: the current time.
            is_idle: whether no batch waits or is being written.
        """
        with self._guard:
            self._abort_overdue(now_ms, is_idle)
            if not self._is_end_requested:
                return
            if self.state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION):
                if not is_idle:
                    return
                try:
                    self._write_markers(commit=self.state == State.COMMITTING_TRANSACTION)
                    self.error = None
                    self.state = State.READY
                except Exception as error:  # the caller must not wait for ever
                    self.end_error = error
            self._is_end_requested = False
            self._ended.set()

    def _abort_overdue(self, now_ms: int, is_idle: bool) -> None:
        """Abort a transaction that is open for transaction.timeout.ms, because readers wait for its end.

        `abort_transaction` must still be called before the next transaction.
        """
        is_open = self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR) and not self._is_ended
        if not is_open or now_ms - self._started_ms < self._timeout_ms:
            return
        if self.state == State.IN_TRANSACTION:
            error = f"the transaction was open for {self._timeout_ms} ms (transaction.timeout.ms)"
            self._fail(State.ABORTABLE_ERROR, KafkaTimeoutError(error))
        if is_idle:
            try:
                self._write_markers(commit=False)
            except (KafkaLogError, OSError):
                logger.exception("a transaction that timed out cannot be aborted; this will be tried again")
                self._started_ms = now_ms

    def _write_markers(self, *, commit: bool) -> None:
        if self._is_ended or not self._partitions:
            return
        try:
            self._coordinator.end(self._sequences.producer_epoch, commit=commit)
        except _FATAL as error:
            self._fail(State.FATAL_ERROR, error)
            raise
        self._is_ended = True

    def note_failure(self, error: Exception) -> None:
        """Note that a record was not written: the transaction can only be aborted."""
        with self._guard:
            if isinstance(error, InvalidProducerEpochError):
                self._fail(State.FATAL_ERROR, ProducerFencedError(error.message, path=error.path))
            elif isinstance(error, _FATAL):
                self._fail(State.FATAL_ERROR, error)
            elif self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
                self._fail(State.ABORTABLE_ERROR, error)

    def next_timeout_ms(self, now_ms: int) -> int:
        """Return after how many ms the open transaction times out."""
        if self.state not in (State.IN_TRANSACTION, State.ABORTABLE_ERROR) or self._is_ended:
            return self._timeout_ms
        return max(0, self._started_ms + self._timeout_ms - now_ms)

    def close(self) -> None:
        """Release the lock of the log directory."""
        self._coordinator.close()

    def _fail(self, state: State, error: Exception) -> None:
        if self.state != State.FATAL_ERROR:
            self.state = state
            self.error = error

    def _check(self, operation: str) -> None:
        if self.state == State.READY and self._pending:
            raise InvalidTxnStateError(
                f"expected {self._pending} to be repeated, because its last call timed out, found {operation}"
            )
        if self.state not in _ALLOWED[operation]:
            self._raise_error()
            states = " or ".join(sorted(state.name for state in _ALLOWED[operation]))
            raise InvalidTxnStateError(
                f"expected {operation} in state {states} of a transactional producer, found it in state "
                f"{self.state.name}"
            )

    def _raise_error(self) -> None:
        if self.state == State.FATAL_ERROR and isinstance(self.error, KafkaLogError):
            raise self.error
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            raise InvalidTxnStateError(
                f"expected a transaction without errors, found one in which a record failed: {self.error}; "
                "call abort_transaction"
            ) from self.error
