"""Divide Arrow records into blocks: each of one partition, and none too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.producer.block import RecordBlock
from native_log.publish.partitioning import Partitioner
from native_log.records.encoding import known_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.producer.settings import ProducerConfig


class BlockDivision:
    """Divide records by their partitions, which are chosen as for single records, but in larger chunks.

    Args:
        config: the producer's settings.
        max_bytes: the most bytes of a block, unless one record has more.
        round_robin: whether the partitions take turns.
    """

    def __init__(self, config: ProducerConfig, max_bytes: int, *, round_robin: bool) -> None:
        self._config = config
        self._max_bytes = max_bytes
        self._is_round_robin = round_robin
        self._partitioners: dict[tuple[str, int], Partitioner] = {}

    def divide(
        self, topic: str, partitions: int, records: pa.RecordBatch | pa.Table, partition: int | None
    ) -> Iterator[tuple[int, RecordBlock]]:
        """Yield partitions and blocks. A partition may occur more than once.

        Args:
            topic: the topic.
            partitions: how many partitions it has.
            records: the records.
            partition: the partition of all records; None: the column `partition` or the partitioner decides.

        Raises:
            InvalidRecordError: the topic has no such partition.
            ValueError: there is no column `value`, or a type cannot be converted. Nothing is yielded then.
        """
        partitioner = self._partitioners.get((topic, partitions))
        if partitioner is None:
            partitioner = self._partitioners[topic, partitions] = Partitioner(
                topic,
                partitions,
                self._config.batch_size,
                ignore_keys=self._config.partitioner_ignore_keys,
                round_robin=self._is_round_robin,
            )
        for batch in records.to_batches() if isinstance(records, pa.Table) else [records]:
            known_columns(batch.slice(0, 0))  # check the types now: the records are converted later
            row_bytes = max(1, -(-batch.nbytes // max(1, batch.num_rows)))
            explicit = None
            if partition is not None:
                explicit = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
            elif "partition" in batch.schema.names:
                explicit = batch.column("partition").cast(pa.int32())
            for number, (rows, selected) in partitioner.split(batch, explicit):
                part = rows if selected is None else rows.take(selected)
                if explicit is not None:
                    part = part.select([name for name in part.schema.names if name != "partition"])
                for block in _slice(part, row_bytes, self._max_bytes):
                    yield number, block


def _slice(records: pa.RecordBatch, row_bytes: int, max_bytes: int) -> Iterator[RecordBlock]:
    """Yield parts of about `max_bytes`, each with one record at least, if a record takes `row_bytes`."""
    rows = max(1, max_bytes // row_bytes)
    for start in range(0, records.num_rows, rows):
        part = records.slice(start, rows)
        yield RecordBlock(part, min(row_bytes * part.num_rows, max_bytes))
