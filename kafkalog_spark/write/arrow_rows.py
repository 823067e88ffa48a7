"""A streaming writer that receives Arrow batches. Spark 4.0 passes rows, which are converted."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog_spark.schema import arrow_type

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _Base

    HAS_ARROW_WRITER = True
except ImportError:
    from pyspark.sql.datasource import DataSourceStreamWriter as _Base  # type: ignore[assignment]

    HAS_ARROW_WRITER = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import Row, StructField, StructType

_ROWS_PER_BATCH = 10_000


class StreamArrowWriter(_Base):
    """Base class of streaming writers. Subclasses implement `write_arrow`."""

    def __init__(self, schema: StructType) -> None:
        self._row_schema = None if HAS_ARROW_WRITER else schema

    @abstractmethod
    def write_arrow(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, as DataSourceStreamArrowWriter.write does."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if self._row_schema is None:
            return self.write_arrow(iterator)
        return self.write_arrow(rows_to_arrow(iterator, self._row_schema))


def rows_to_arrow(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Convert rows to Arrow batches of up to 10,000 rows.

    Columns with types that the sink does not support become null; only `headers` may be nested.
    """
    types = [_find_arrow_type(field) for field in schema.fields]
    while chunk := list(islice(rows, _ROWS_PER_BATCH)):
        arrays = [
            pa.nulls(len(chunk)) if type_ is None else pa.array([_convert(v, type_) for v in column], type_)
            for column, type_ in zip(zip(*chunk, strict=True), types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema.fieldNames())


def _find_arrow_type(field: StructField) -> pa.DataType | None:
    try:
        type_ = arrow_type(field.dataType)
    except KeyError:
        return None
    return None if pa.types.is_nested(type_) and field.name.lower() != "headers" else type_


def _convert(value: Any, type_: pa.DataType) -> Any:
    """Convert a value for Arrow: nested rows to dictionaries, local times without a zone to UTC."""
    if isinstance(value, datetime) and value.tzinfo is None and type_.tz is not None:
        return value.astimezone(UTC)
    if isinstance(value, list):
        return [_convert(element, type_.value_type) for element in value]
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value
