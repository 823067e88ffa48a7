"""Streaming writers that take Arrow, for every version of Spark: 4.0 has them take rows only."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog_spark.schema import arrow_type

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _Base

    TAKES_ARROW = True
except ImportError:
    from pyspark.sql.datasource import DataSourceStreamWriter as _Base  # type: ignore[assignment]

    TAKES_ARROW = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import Row, StructField, StructType

_ROWS = 10_000


class StreamArrowWriter(_Base):
    """Implement `write_arrow`."""

    def __init__(self, schema: StructType) -> None:
        self._row_schema = None if TAKES_ARROW else schema

    @abstractmethod
    def write_arrow(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """What DataSourceStreamArrowWriter.write is."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if self._row_schema is None:
            return self.write_arrow(iterator)
        return self.write_arrow(to_arrow(iterator, self._row_schema))


def to_arrow(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow, some thousand at a time. Columns of types that no sink's column has are null."""
    types = [_known_type(field) for field in schema.fields]
    while some := list(islice(rows, _ROWS)):
        arrays = [
            pa.nulls(len(some)) if type_ is None else pa.array([_plain(one, type_) for one in column], type_)
            for column, type_ in zip(zip(*some, strict=True), types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema.fieldNames())


def _known_type(field: StructField) -> pa.DataType | None:
    try:
        return arrow_type(field.dataType)
    except KeyError:
        return None


def _plain(value: Any, type_: pa.DataType) -> Any:
    """Rows within rows as dictionaries, which Arrow knows; times that have no zone are of the local one."""
    if isinstance(value, datetime) and value.tzinfo is None and type_.tz is not None:
        return value.astimezone(UTC)
    if isinstance(value, list):
        return [_plain(one, type_.value_type) for one in value]
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value
