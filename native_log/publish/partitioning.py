"""Choose the partition of each record (Kafka: BuiltInPartitioner, KafkaProducer.partition)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import InvalidRecordError
from native_log.records import partition_of_keys, rows_by_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.records.encoding import Part


class Partitioner:
    """Distribute the records of one topic over its partitions, as Kafka's producer does.

    A record with an explicit partition goes there. A record with a key goes to the partition of the key's
    murmur2 hash. Other records go to the same partition until it has received at least `batch_size` bytes,
    then to the next one.

    Args:
        partitions: the number of partitions of the topic.
        batch_size: the producer's `batch.size`, in bytes.
        ignore_keys: treat records with keys like those without (Kafka: partitioner.ignore.keys).
        round_robin: send each record to the next partition and ignore its key (Kafka: RoundRobinPartitioner).
    """

    def __init__(
        self, topic: str, partitions: int, batch_size: int, *, ignore_keys: bool, round_robin: bool
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._chunk_bytes = max(1, batch_size)
        self._ignore_keys = ignore_keys or round_robin
        self._round_robin = round_robin
        self._next_partition = random.randrange(partitions)  # noqa: S311
        self._filled_bytes = 0

    def split(self, records: pa.RecordBatch, explicit: pa.Array | None) -> Iterator[tuple[int, Part]]:
        """Yield (partition, records) for all records. A partition may occur more than once.

        Args:
            records: with the columns `value` and, optionally, `key`.
            explicit: the explicit partition of each record, int32, null for none.

        Raises:
            InvalidRecordError: the topic has no such partition.
        """
        if records.num_rows == 0:
            return
        if explicit is not None:
            self._check_partitions(explicit)
        if self._partitions == 1:
            yield 0, (records, None)
            return
        keys = records.column("key") if "key" in records.schema.names and not self._ignore_keys else None
        if keys is not None and keys.null_count == len(keys):
            keys = None
        if keys is None and (explicit is None or explicit.null_count == len(explicit)):
            yield from self._split_unkeyed(records)
            return
        partitions = None if keys is None else partition_of_keys(keys, self._partitions)
        if partitions is None or explicit is None:
            partitions = explicit if partitions is None else partitions
        else:
            partitions = pc.coalesce(explicit, partitions)
        assert partitions is not None
        if partitions.null_count:
            unkeyed = records.filter(partitions.is_null())
            records = records.filter(partitions.is_valid())
            partitions = partitions.drop_null()
            yield from self._split_unkeyed(unkeyed)
        yield from self._group(records, partitions)

    def _group(self, records: pa.RecordBatch, partitions: pa.Array) -> Iterator[tuple[int, Part]]:
        groups = rows_by_partition(partitions, self._partitions)
        for partition, rows in groups:
            yield partition, (records, rows if len(groups) > 1 else None)

    def _split_unkeyed(self, records: pa.RecordBatch) -> Iterator[tuple[int, Part]]:
        if self._round_robin:
            rows = pa.array(range(records.num_rows), pa.int32())
            turns = pc.add(rows, self._next_partition)
            partitions = pc.subtract(turns, pc.multiply(pc.divide(turns, self._partitions), self._partitions))
            self._next_partition = (self._next_partition + records.num_rows) % self._partitions
            yield from self._group(records, partitions.cast(pa.int32()))
            return
        row_bytes = max(1, records.nbytes // records.num_rows)
        # If there are enough records for all partitions, each gets a single chunk: small chunks are slow.
        chunk_bytes = max(self._chunk_bytes, -(-records.num_rows // self._partitions) * row_bytes)
        start = 0
        while start < records.num_rows:
            # The chunks of earlier records may have been larger.
            if self._filled_bytes >= chunk_bytes:
                self._filled_bytes = 0
                self._next_partition = (self._next_partition + 1) % self._partitions
            count = min(records.num_rows - start, -(-(chunk_bytes - self._filled_bytes) // row_bytes))
            yield self._next_partition, (records.slice(start, count), None)
            start += count
            self._filled_bytes += count * row_bytes

    def _check_partitions(self, explicit: pa.Array) -> None:
        bounds = pc.min_max(explicit).as_py()
        if bounds["min"] is None:
            return
        if bounds["min"] < 0:  # the text of Kafka's ProducerRecord
            raise InvalidRecordError(
                f"Invalid partition: {bounds['min']}. Partition number should always be non-negative or null."
            )
        if bounds["max"] >= self._partitions:
            raise InvalidRecordError(
                f"expected a partition from 0 to {self._partitions - 1} of topic {self._topic}, found "
                f"{bounds['max']} in column partition; the option partitions sets the number of partitions "
                "of a new topic"
            )
