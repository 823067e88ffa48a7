"""Columns: what there is to read, what a query asked for, and the Arrow schema that Spark expects back.

Spark checks the batches of a Python data source against the schema of the read, nullability included (since
4.2; before, it took columns by position), so Arrow schemas are built from that schema, not from constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.views.schemas import VIEWS
from native_log.errors import KafkaLogError
from native_log.records import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType, StructField, StructType

    from kafkalog_spark.options.read import ReadOptions

CORRUPT_RECORD = "_corrupt_record"
KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's kafka source, which adds `headers` with includeHeaders."""
RECORDS = pa.schema([*RECORD_SCHEMA, pa.field(CORRUPT_RECORD, pa.string())])
"""Every column of view=records."""

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
    """The schema as Spark's DDL, all fields nullable."""
    return ", ".join(f"`{field.name}` {_ddl_type(field.type)}" for field in schema)


def _ddl_type(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"array<{_ddl_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{f.name}:{_ddl_type(f.type)}' for f in arrow)}>"
    if pa.types.is_map(arrow):
        return f"map<{_ddl_type(arrow.key_type)},{_ddl_type(arrow.item_type)}>"
    return _DDL[arrow]


def pick(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The columns named, in that order; names may be in any case. Raises OptionError."""
    by_name = {field.name.lower(): field for field in schema}
    unknown = [name for name in names if name.lower() not in by_name]
    if unknown:
        raise OptionError(
            f"columns: no such column {', '.join(map(repr, unknown))}; there are {', '.join(schema.names)}"
        )
    if len({name.lower() for name in names}) < len(names):
        raise OptionError(f"columns: each can be named once, got {','.join(names)}")
    return pa.schema([by_name[name.lower()] for name in names])


def default_schema(options: ReadOptions) -> pa.Schema:
    """What a read gives whose user named no schema. Raises OptionError."""
    view = VIEWS.get(options.view, RECORDS)
    if options.columns is not None:
        return pick(view, options.columns)
    if options.view in VIEWS:
        return view
    return pick(view, (*KAFKA_COLUMNS, "headers") if options.include_headers else KAFKA_COLUMNS)


@dataclass(frozen=True, slots=True)
class Projection:
    """What a query reads: columns of a view, and the Arrow schema under which Spark gets them.

    The two have the same types but for nullability, and the same names but for their case.
    """

    columns: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, asked: StructType, view: pa.Schema) -> Projection:
        """Raises OptionError for a column that the view does not have, or has with another type."""
        by_name = {field.name.lower(): field for field in view}
        columns, fields = [], []
        for field in asked.fields:
            known = by_name.get(field.name.lower())
            if known is None:
                raise OptionError(f"schema: no such column {field.name!r}; there are {', '.join(view.names)}")
            if field.dataType.simpleString() != _ddl_type(known.type):
                raise OptionError(
                    f"schema: column {field.name} is {_ddl_type(known.type)}, "
                    f"not {field.dataType.simpleString()}"
                )
            columns.append(known.name)
            fields.append(_arrow_field(field))
        if len(set(columns)) < len(columns):
            raise OptionError(f"schema: each column can be read once, got {', '.join(columns)}")
        return cls(tuple(columns), pa.schema(fields))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, whose columns are those of the projection, under its schema. Nothing is copied."""
        if not self.columns:
            return batch
        arrays = []
        for array, field in zip(batch.columns, self.schema, strict=True):
            if array.null_count and not field.nullable:
                raise KafkaLogError(
                    f"column {field.name} is declared NOT NULL, but some of its values are null"
                )
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.dataType), field.nullable)


def arrow_type(spark: DataType) -> pa.DataType:
    """Raises KeyError for types of which no column of ours is."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", arrow_type(spark.elementType), spark.containsNull))
    if isinstance(spark, MapType):
        value = pa.field("value", arrow_type(spark.valueType), spark.valueContainsNull)
        return pa.map_(arrow_type(spark.keyType), value)
    if isinstance(spark, StructType):
        return pa.struct(list(map(_arrow_field, spark.fields)))
    return _ARROW[spark.simpleString()]
