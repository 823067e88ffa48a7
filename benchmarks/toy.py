"""The ceiling of Python data sources: a source that repeats a prebuilt batch, a sink that drops batches."""

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

ROWS_PER_BATCH = 50_000


class ToySource(DataSource):
    """A source of `rows` records in `partitions` splits, with the shape and size of the corpus's records."""

    @classmethod
    def name(cls) -> str:
        return "toy"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
            "timestampType int"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        return ToyReader(schema.names, int(self.options["rows"]), int(self.options["partitions"]))


class ToyReader(DataSourceReader):
    def __init__(self, columns: list[str], rows: int, partitions: int) -> None:
        self._columns = columns
        self._rows = rows // partitions
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._columns)
        left = self._rows
        while left > 0:
            yield batch.slice(0, min(left, ROWS_PER_BATCH))
            left -= ROWS_PER_BATCH


def _batch(columns: list[str]) -> pa.RecordBatch:
    count = ROWS_PER_BATCH
    zeros = pa.array(np.zeros(count, np.int32))
    numbers = pa.array(np.arange(count, dtype=np.int64))
    make = {
        "key": lambda: _binary(16),
        "value": lambda: _binary(100),
        "topic": lambda: pa.array(["small100-none"] * count),
        "partition": lambda: zeros,
        "offset": lambda: numbers,
        "timestamp": lambda: numbers.cast(pa.timestamp("us", "UTC")),
        "timestampType": lambda: zeros,
    }
    return pa.record_batch([make[name]() for name in columns], names=columns)


def _binary(width: int) -> pa.Array:
    offsets = np.arange(ROWS_PER_BATCH + 1, dtype=np.int32) * width
    data = pa.py_buffer(os.urandom(width * ROWS_PER_BATCH))
    return pa.Array.from_buffers(pa.binary(), ROWS_PER_BATCH, [None, pa.py_buffer(offsets.tobytes()), data])


class ToySink(DataSource):
    """A sink that drops the Arrow batches it receives."""

    @classmethod
    def name(cls) -> str:
        return "toy_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return ToyWriter()


class ToyWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
