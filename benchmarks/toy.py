"""The ceiling of Python data sources: a source that repeats a prebuilt batch, a sink that drops batches."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        rows = int(self.options["rows"])
        limit = int(self.options.get("maxOffsetsPerTrigger", rows))
        return ToyStreamReader(schema.names, rows, int(self.options["partitions"]), limit)


class ToyReader(DataSourceReader):
    def __init__(self, columns: list[str], rows: int, partitions: int) -> None:
        self._columns = columns
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return _splits(self._rows, self._partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._columns, partition.value)


class ToyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, columns: list[str], rows: int, partitions: int, limit: int) -> None:
        self._columns = columns
        self._rows = rows
        self._partitions = partitions
        self._limit = limit

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: no rows are added."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"offset": min(start["offset"] + self._limit, self._rows)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return _splits(end["offset"] - start["offset"], self._partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._columns, partition.value)


def _splits(rows: int, partitions: int) -> list[InputPartition]:
    """Return splits whose value is their number of rows."""
    return [InputPartition(rows // partitions) for _ in range(partitions)]


def _batches(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    batch = _batch(columns)
    for start in range(0, rows, ROWS_PER_BATCH):
        yield batch.slice(0, min(rows - start, ROWS_PER_BATCH))


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
