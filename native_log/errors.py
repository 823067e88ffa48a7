"""The exceptions of native_log. Their base class is KafkaLogError.

I/O errors are not wrapped: they are Python's FileNotFoundError, PermissionError and OSError.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class KafkaLogError(Exception):
    """A Kafka log is invalid, or an operation on it is.

    The text is one line. It says where the problem is, what was expected, what was found, and what to do.

    Attributes:
        message: the text without path, position and offset.
        path: the file or directory concerned, or None.
        position: the byte position in that file, or None.
        offset: the log offset concerned, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        path: object | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else str(path)
        self.position = position
        self.offset = offset
        super().__init__(message)

    def __str__(self) -> str:
        where = [self.path] if self.path is not None else []
        if self.position is not None:
            where.append(f"position {self.position}")
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpickle, (type(self), self.message, self.path, self.position, self.offset))


def _unpickle(
    cls: type[KafkaLogError], message: str, path: str | None, position: int | None, offset: int | None
) -> KafkaLogError:
    return cls(message, path=path, position=position, offset=offset)


def error_message(error: Exception) -> str:
    """Return one line for a report: of an OSError the file and the reason, without the error number."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)


class CorruptRecordError(KafkaLogError):
    """Bytes of a log are damaged: no broker wrote them like this (Kafka: CorruptRecordException)."""


class CorruptIndexError(KafkaLogError):
    """An index or snapshot file is damaged (Kafka: CorruptIndexException)."""


class OffsetOutOfRangeError(KafkaLogError):
    """An offset lies outside the log (Kafka: OffsetOutOfRangeException)."""


class LostOffsetsError(OffsetOutOfRangeError):
    """Offsets inside the log are in none of its segments: their records are lost."""


class LogTruncatedError(KafkaLogError):
    """A file was shortened or replaced during a read: the log was truncated or rewritten meanwhile."""


class UnknownTopicOrPartitionError(KafkaLogError):
    """The log directories do not contain the topic or partition (Kafka: UnknownTopicOrPartitionException)."""


class NotALogDirError(KafkaLogError):
    """A path is neither a Kafka log directory nor a partition directory."""


class EmptyLogDirError(KafkaLogError):
    """A log directory contains no partition that can be read."""


class LogDirInUseError(KafkaLogError):
    """A broker or another writer holds the lock of the log directory, or writes to the partition."""


class LogNeedsRecoveryError(KafkaLogError):
    """A crash damaged the end of the log. It must be recovered before records can be appended."""


class InvalidRecordError(KafkaLogError):
    """A broker would reject these records or batches (Kafka: InvalidRecordException).

    Attributes:
        record_errors: for batches of a producer that contain invalid records: what is wrong with each of
            these records, by their index (KIP-467). Otherwise empty.
    """

    record_errors: Mapping[int, str] = MappingProxyType({})


class InvalidBatchError(KafkaLogError):
    """A valid record was not written, because other records of its batch are invalid. Send it again.

    Kafka's producer raises a KafkaException (KIP-467).
    """


class InvalidTimestampError(InvalidRecordError):
    """A timestamp is too far from the current time (Kafka: InvalidTimestampException)."""


class RecordTooLargeError(InvalidRecordError):
    """A record or batch is larger than `max.message.bytes` (Kafka: RecordTooLargeException)."""


class OutOfOrderSequenceError(InvalidRecordError):
    """A batch is not the next one of its idempotent producer (Kafka: OutOfOrderSequenceException)."""


class InvalidProducerEpochError(InvalidRecordError):
    """The producer of a batch was fenced by a newer instance (Kafka: InvalidProducerEpochException)."""


class InvalidTopicError(KafkaLogError):
    """A topic name is invalid, or the topic must not be changed (Kafka: InvalidTopicException)."""


class TopicExistsError(KafkaLogError):
    """The topic or partition already exists (Kafka: TopicExistsException)."""


class SerializationError(KafkaLogError):
    """A key or value cannot be converted to bytes (Kafka: SerializationException)."""


class KafkaTimeoutError(KafkaLogError, TimeoutError):
    """A producer did not finish an operation in time (Kafka: TimeoutException)."""


class BufferExhaustedError(KafkaTimeoutError):
    """A producer's buffer stayed full for `max.block.ms` (Kafka: BufferExhaustedException)."""


class ProducerClosedError(KafkaLogError):
    """A producer was used after it was closed, or was closed before it had sent a record."""


class ProducerFencedError(InvalidProducerEpochError):
    """A newer producer uses the same `transactional.id` (Kafka: ProducerFencedException)."""


class InvalidTxnStateError(KafkaLogError):
    """A transactional operation is not allowed at this point (Kafka: InvalidTxnStateException)."""


class TransactionAbortedError(KafkaLogError):
    """A record was not sent because its transaction was aborted (Kafka: TransactionAbortedException)."""
