"""The errors of native_log: a small tree under KafkaLogError.

I/O errors stay what Python makes of them: FileNotFoundError, PermissionError, OSError.
"""

from __future__ import annotations


class KafkaLogError(Exception):
    """Something is wrong with a Kafka log, or with what was asked of it.

    The text is one line: what was expected, what was found, where, and what to do about it.

    Attributes:
        path: file or directory concerned, or None.
        position: byte position in that file, or None.
        offset: log offset concerned, or None.
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
        return (_rebuilt, (type(self), self.message, self.path, self.position, self.offset))


def _rebuilt(
    cls: type[KafkaLogError], message: str, path: str | None, position: int | None, offset: int | None
) -> KafkaLogError:
    return cls(message, path=path, position=position, offset=offset)


def error_message(error: Exception) -> str:
    """One line for a report: of an error of the system its file and what is wrong with it, no number."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class CorruptRecordError(KafkaLogError):
    """Bytes of a log that cannot be what a broker wrote (Kafka: CorruptRecordException)."""


class CorruptIndexError(KafkaLogError):
    """An index or snapshot file whose content cannot be believed (Kafka: CorruptIndexException)."""


class OffsetOutOfRangeError(KafkaLogError):
    """An offset outside of what the log holds (Kafka: OffsetOutOfRangeException)."""


class LogTruncatedError(KafkaLogError):
    """A file became shorter, or its data other, while it was read: the log was truncated under the reader."""


class UnknownTopicOrPartitionError(KafkaLogError):
    """No such topic or partition in the log directories (Kafka: UnknownTopicOrPartitionException)."""


class NotALogDirError(KafkaLogError):
    """A path that is neither a Kafka log directory nor a partition directory."""


class EmptyLogDirError(KafkaLogError):
    """A log directory without a partition that can be read."""


class LogDirInUseError(KafkaLogError):
    """A broker, or another writer, holds the lock of the log directory, or writes in the partition."""


class LogNeedsRecoveryError(KafkaLogError):
    """A log whose end a crash left damaged: nothing is written behind it."""


class InvalidRecordError(KafkaLogError):
    """Records, or batches of them, that a broker would not take (Kafka: InvalidRecordException)."""


class InvalidTimestampError(InvalidRecordError):
    """A timestamp too far from the current time (Kafka: InvalidTimestampException)."""


class RecordTooLargeError(InvalidRecordError):
    """A record, or a batch, beyond `max.message.bytes` (Kafka: RecordTooLargeException)."""


class OutOfOrderSequenceError(InvalidRecordError):
    """A batch that is not the next of its idempotent producer (Kafka: OutOfOrderSequenceException)."""


class InvalidProducerEpochError(InvalidRecordError):
    """A batch of a producer that a newer one has fenced off (Kafka: InvalidProducerEpochException)."""


class InvalidTopicError(KafkaLogError):
    """A topic's name that is not legal (Kafka: InvalidTopicException)."""


class TopicExistsError(KafkaLogError):
    """A topic or partition that is there already (Kafka: TopicExistsException)."""
