"""The results of `send_batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from native_log.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.producer.batch import ProducerBatch


class BlockMetadata(NamedTuple):
    """Where a part of the records of `send_batch` was written.

    Attributes:
        topic, partition: the log.
        base_offset: the offset of the first record; -1 with acks=0.
        record_count: the number of records. Their offsets follow each other.
    """

    topic: str
    partition: int
    base_offset: int
    record_count: int


class BlockFuture:
    """The future metadata of the records of `send_batch`."""

    __slots__ = ("_batches", "_counts")

    def __init__(self, batches: Sequence[ProducerBatch], record_counts: Sequence[int]) -> None:
        self._batches = batches
        self._counts = record_counts

    def get(self, timeout: float | None = None) -> list[BlockMetadata]:
        """Wait for the records to be written, and return the metadata of each part.

        Args:
            timeout: of the wait for each part, in seconds; None: no timeout.

        Raises:
            KafkaTimeoutError: the records were not written in time. They may be written later.
            KafkaLogError, OSError: why a part was not written. Other parts may have been.
        """
        parts = []
        for batch, count in zip(self._batches, self._counts, strict=True):
            if not batch.result.wait(timeout):
                raise KafkaTimeoutError(f"Timeout after waiting for {timeout} s.")
            for result, record_count in batch.result.after_splits(count):
                if result.error is not None:
                    raise result.error
                parts.append(BlockMetadata(result.topic, result.partition, result.base_offset, record_count))
        return parts

    @property
    def is_done(self) -> bool:
        """Whether all records were written or have failed."""
        return all(batch.is_done for batch in self._batches)
