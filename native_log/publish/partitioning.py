"""Which partition a record goes to (Kafka: BuiltInPartitioner, KafkaProducer.partition)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import InvalidRecordError
from native_log.records import deal, partition_of_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.records.encode import Part


class Partitioner:
    """Deals out the records of one topic among its partitions, as Kafka's producer does.

    A record that names its partition goes there; one with a key to the partition of its key's murmur2; others
    to one partition until that has got at least `batch_size` bytes, then to the next.

    Args:
        partitions: how many the topic has.
        batch_size: of the producer.
        ignore_keys: records with keys are dealt out like those without (Kafka: partitioner.ignore.keys).
        round_robin: a record to each partition in turn, whatever its key (Kafka: RoundRobinPartitioner).
    """

    def __init__(
        self, topic: str, partitions: int, batch_size: int, *, ignore_keys: bool, round_robin: bool
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._chunk_bytes = max(1, batch_size)
        self._ignore_keys = ignore_keys or round_robin
        self._round_robin = round_robin
        self._turn = random.randrange(partitions)  # noqa: S311
        self._chunk_filled = 0

    def split(self, records: pa.RecordBatch, chosen: pa.Array | None) -> Iterator[tuple[int, Part]]:
        """Records by partition. A partition may come more than once.

        Args:
            records: with the columns `value` and perhaps `key`.
            chosen: of each record the partition it names, int32, null where it names none.

        Raises:
            InvalidRecordError: it names one that there is not.
        """
        if records.num_rows == 0:
            return
        if chosen is not None:
            self._check(chosen)
        if self._partitions == 1:
            yield 0, (records, None)
            return
        keys = records.column("key") if "key" in records.schema.names and not self._ignore_keys else None
        keyed = None if keys is None or keys.null_count == len(keys) else keys
        if keyed is None and (chosen is None or chosen.null_count == len(chosen)):
            yield from self._in_turn(records)
            return
        partitions = None if keyed is None else partition_of_keys(keyed, self._partitions)
        if partitions is None or chosen is None:
            partitions = chosen if partitions is None else partitions
        else:
            partitions = pc.coalesce(chosen, partitions)
        assert partitions is not None
        if partitions.null_count:
            unkeyed = records.filter(partitions.is_null())
            records = records.filter(partitions.is_valid())
            partitions = partitions.drop_null()
            yield from self._in_turn(unkeyed)
        yield from self._dealt(records, partitions)

    def _dealt(self, records: pa.RecordBatch, partitions: pa.Array) -> Iterator[tuple[int, Part]]:
        dealt = deal(partitions, self._partitions)
        for partition, rows in dealt:
            yield partition, (records, rows if len(dealt) > 1 else None)

    def _in_turn(self, records: pa.RecordBatch) -> Iterator[tuple[int, Part]]:
        if self._round_robin:
            rows = pa.array(range(records.num_rows), pa.int32())
            turns = pc.add(rows, self._turn)
            partitions = pc.subtract(turns, pc.multiply(pc.divide(turns, self._partitions), self._partitions))
            self._turn = (self._turn + records.num_rows) % self._partitions
            yield from self._dealt(records, partitions.cast(pa.int32()))
            return
        row_bytes = max(1, records.nbytes // records.num_rows)
        # Where there is enough for all partitions, one piece for each: small pieces cost more than they help.
        chunk_bytes = max(self._chunk_bytes, -(-records.num_rows // self._partitions) * row_bytes)
        start = 0
        while start < records.num_rows:
            count = min(records.num_rows - start, -(-(chunk_bytes - self._chunk_filled) // row_bytes))
            yield self._turn, (records.slice(start, count), None)
            start += count
            self._chunk_filled += count * row_bytes
            if self._chunk_filled >= chunk_bytes:
                self._chunk_filled = 0
                self._turn = (self._turn + 1) % self._partitions

    def _check(self, chosen: pa.Array) -> None:
        bounds = pc.min_max(chosen).as_py()
        if bounds["min"] is None:
            return
        if bounds["min"] < 0:
            raise InvalidRecordError(
                f"Invalid partition: {bounds['min']}. Partition number should always be non-negative or null."
            )
        if bounds["max"] >= self._partitions:
            raise InvalidRecordError(
                f"expected a partition of topic {self._topic}, which has {self._partitions} (0 to "
                f"{self._partitions - 1}), found {bounds['max']} in column partition; the option "
                "partitions says how many a new topic has"
            )
