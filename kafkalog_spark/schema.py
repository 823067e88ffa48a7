"""Columns: what can be read, what a query reads, and the Arrow schema that Spark expects.

Since 4.2 Spark checks the batches of a Python data source against the schema of the read, including
nullability; before, it matched columns by position. Arrow schemas are therefore built from the schema that
Spark passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark

from kafkalog_spark.errors import OptionError
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.internal import INTERNAL_VIEWS
from kafkalog_spark.views.schemas import COUNTS
from native_log.errors import KafkaLogError
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType, StructField, StructType

    from kafkalog_spark.options.read import ReadOptions

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's kafka source, which adds `headers` with includeHeaders."""
RECORDS = pa.schema([*RECORD_SCHEMA, pa.field(CORRUPT_RECORD, pa.string())])
"""All columns of records."""

_DDL = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
_ARROW = {name: arrow for arrow, name in _DDL.items()}


def ddl(schema: pa.Schema) -> str:
    """Return the schema as Spark's DDL. All fields are nullable."""
    return ", ".join(f"`{field.name}` {_ddl_type(field.type)}" for field in schema)


def _ddl_type(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"array<{_ddl_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{f.name}:{_ddl_type(f.type)}' for f in arrow)}>"
    if pa.types.is_map(arrow):
        return f"map<{_ddl_type(arrow.key_type)},{_ddl_type(arrow.item_type)}>"
    return _DDL[arrow]


def select_columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return the named columns, in that order. Names may be in any case. Raises OptionError."""
    by_name = {field.name.lower(): field for field in schema}
    unknown = [name for name in names if name.lower() not in by_name]
    if unknown:
        raise OptionError(
            f"columns: no such column {', '.join(map(repr, unknown))}; expected some of "
            f"{', '.join(schema.names)}"
        )
    if len({name.lower() for name in names}) < len(names):
        raise OptionError(f"columns: expected each column only once, found {','.join(names)}")
    return pa.schema([by_name[name.lower()] for name in names])


def default_schema(options: ReadOptions) -> pa.Schema:
    """Return the schema of a read without a user-defined schema. Raises OptionError."""
    view = VIEWS.get(options.view) or INTERNAL_VIEWS.get(options.view)
    schema = COUNTS if options.view == "counts" else RECORDS if view is None else view.schema
    if options.columns is not None:
        return select_columns(schema, options.columns)
    if view is not None or options.view == "counts":
        return schema
    return select_columns(schema, (*KAFKA_COLUMNS, "headers") if options.include_headers else KAFKA_COLUMNS)


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns that a query reads, and the Arrow schema in which Spark expects them.

    Columns and schema fields have the same types except for nullability, and the same names except for case.
    """

    columns: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, requested: StructType, available: pa.Schema) -> Projection:
        """Return the projection of `available` to the columns of Spark's schema.

        Raises:
            OptionError: a column is not in `available`, has another type there, or is requested twice.
        """
        by_name = {field.name.lower(): field for field in available}
        columns, fields = [], []
        for field in requested.fields:
            known = by_name.get(field.name.lower())
            if known is None:
                raise OptionError(
                    f"schema: no such column {field.name!r}; expected some of {', '.join(available.names)}"
                )
            if field.dataType.simpleString() != _ddl_type(known.type):
                raise OptionError(
                    f"schema: column {field.name}: expected {_ddl_type(known.type)}, "
                    f"found {field.dataType.simpleString()}"
                )
            columns.append(known.name)
            fields.append(_arrow_field(field))
        if len(set(columns)) < len(columns):
            raise OptionError(f"schema: expected each column only once, found {', '.join(columns)}")
        return cls(tuple(columns), pa.schema(fields))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the projection's columns with its schema. No data are copied.

        Raises:
            KafkaLogError: a column that is declared NOT NULL contains nulls.
        """
        if not self.columns:
            return batch
        arrays = []
        for array, field in zip(batch.columns, self.schema, strict=True):
            if array.null_count and not field.nullable:
                raise KafkaLogError(f"column {field.name} is declared NOT NULL but contains nulls")
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def record_projection(schema: StructType) -> Projection:
    """Return the projection of records to the columns of Spark's schema. Raises OptionError."""
    if not schema.fields and pyspark.__version__.startswith("4.0."):
        raise OptionError(
            "Spark 4.0 loses the rows of a read without columns; select a column such as offset"
        )
    return Projection.of(schema, RECORDS)


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.dataType), field.nullable)


def arrow_type(spark: DataType) -> pa.DataType:
    """Convert a Spark type to Arrow. Raises KeyError for a type that no column of this source has."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", arrow_type(spark.elementType), spark.containsNull))
    if isinstance(spark, MapType):
        value = pa.field("value", arrow_type(spark.valueType), spark.valueContainsNull)
        return pa.map_(arrow_type(spark.keyType), value)
    if isinstance(spark, StructType):
        return pa.struct(list(map(_arrow_field, spark.fields)))
    return _ARROW[spark.simpleString()]
