"""Find and check the columns of a DataFrame to write (Spark: KafkaWriter).

The sink accepts the same types as Spark's kafka sink. Unlike it, it matches names as Spark SQL does, and uses
the column timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.write.time_zone import assume_time_zone

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TEXT = "string or binary"
_HEADERS = "array<struct<key:string,value:binary>>"
_TIMESTAMP = "timestamp or timestamp_ntz"
_EXPECTED = {
    "value": _TEXT,
    "key": _TEXT,
    "headers": _HEADERS,
    "timestamp": _TIMESTAMP,
    "topic": "string",
    "partition": "int",
}
_OF_SOURCES = ("offset", "timestampType")
"""Columns of what kafkalog and Spark's kafka source read. A log assigns them itself."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The positions of the columns that become records.

    Attributes:
        records: positions by the names that `encode` expects: value, key, headers, timestamp.
        topic: position of the column topic; None: all records go to the topic of the option.
        partition: position of the column partition; None: no record has an explicit partition.
        unknown: names of columns that no record contains, because the sink does not know them.
    """

    records: dict[str, int]
    topic: int | None
    partition: int | None
    unknown: tuple[str, ...]

    @classmethod
    def from_schema(
        cls, schema: StructType, *, with_topic: bool, with_timestamp: bool, case_sensitive: bool
    ) -> SinkColumns:
        """Find the columns in a schema.

        Args:
            with_topic: use the column topic. Without the option `topic` it is required.
            with_timestamp: use the column timestamp.
            case_sensitive: whether names must have the same case.

        Raises OptionError if a column is missing, occurs several times or has an unsupported type.
        """

        def resolved(name: str) -> str:
            return name if case_sensitive else name.lower()

        named: dict[str, list[int]] = {}
        for index, field in enumerate(schema.fields):
            named.setdefault(resolved(field.name), []).append(index)
        if with_topic and "topic" not in named:
            raise OptionError(
                "topic option required when no 'topic' attribute is present. Use the topic option for "
                "setting a topic."
            )
        if "value" not in named:
            raise OptionError("Required attribute 'value' not found")
        unused = {"topic": not with_topic, "timestamp": not with_timestamp}
        positions = {
            name: _find(name, named[name], schema)
            for name in _EXPECTED
            if name in named and not unused.get(name, False)
        }
        known = {resolved(name) for name in (*_EXPECTED, *_OF_SOURCES)}
        unknown = tuple(name for name in schema.names if resolved(name) not in known)
        topic, partition = positions.pop("topic", None), positions.pop("partition", None)
        return cls(positions, topic, partition, unknown)

    def select(self, batch: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
        """Return the columns of a batch that `encode` needs.

        Args:
            time_zone: the time zone of timestamps without one (timestamp_ntz).
        """
        arrays = {name: batch.column(index) for name, index in self.records.items()}
        if "headers" in arrays:
            arrays["headers"] = _rename_header_fields(arrays["headers"])
        if "timestamp" in arrays:
            arrays["timestamp"] = assume_time_zone(arrays["timestamp"], time_zone)
        return pa.RecordBatch.from_arrays([*arrays.values()], [*arrays])


def _rename_header_fields(headers: pa.Array) -> pa.Array:
    """Name the fields key and value. Like Spark's sink, this one accepts names in any case, such as KEY."""
    key, value = headers.type.value_type
    return headers.view(pa.list_(pa.struct([("key", key.type), ("value", value.type)])))


def _find(name: str, positions: list[int], schema: StructType) -> int:
    """Return the position of a column. Raise OptionError if there are several, or if its type is wrong."""
    if len(positions) > 1:
        found = ", ".join(schema.fields[position].name for position in positions)
        raise OptionError(
            f"expected one column {name}, found {len(positions)}: {found}; drop or rename the others (names "
            "that differ only in case are equal, unless spark.sql.caseSensitive is true)"
        )
    _check_type(name, schema.fields[positions[0]].dataType)
    return positions[0]


def _check_type(name: str, data_type: DataType) -> None:
    from pyspark.sql.types import BinaryType, CharType, IntegerType, StringType, VarcharType

    expected = _EXPECTED[name]
    # Like Spark's sink, accept strings of the default collation only.
    is_string = data_type == StringType() or isinstance(data_type, VarcharType | CharType)
    is_supported = {
        _TEXT: is_string or isinstance(data_type, BinaryType),
        "string": is_string,
        "int": isinstance(data_type, IntegerType),
        _HEADERS: data_type.simpleString().lower() == _HEADERS,
        _TIMESTAMP: data_type.typeName() in ("timestamp", "timestamp_ntz"),
    }[expected]
    if not is_supported:
        remedy = (
            "; cast it, or set useTimestampColumn=false to give all records the time of the write"
            if name == "timestamp"
            else ""
        )
        raise OptionError(
            f"{name} attribute unsupported type {data_type.simpleString()}. {name} must be a(n) {expected}"
            f"{remedy}"
        )


@dataclass(frozen=True, slots=True)
class ColumnResolution:
    """The columns to write for either value of spark.sql.caseSensitive.

    Spark passes the setting to the tasks of a write, but not to the process that plans it.

    Attributes:
        insensitive, sensitive: the columns, or the text of the error if they cannot be found.
    """

    insensitive: SinkColumns | str
    sensitive: SinkColumns | str

    @classmethod
    def from_schema(cls, schema: StructType, *, with_topic: bool, with_timestamp: bool) -> ColumnResolution:
        """Find the columns; for the arguments see SinkColumns. Raise OptionError if both ways fail."""

        def find(case_sensitive: bool) -> SinkColumns | str:
            try:
                return SinkColumns.from_schema(
                    schema,
                    with_topic=with_topic,
                    with_timestamp=with_timestamp,
                    case_sensitive=case_sensitive,
                )
            except OptionError as error:
                return str(error)

        insensitive, sensitive = find(False), find(True)
        if isinstance(insensitive, str) and isinstance(sensitive, str):
            raise OptionError(insensitive)
        return cls(insensitive, sensitive)

    def resolve(self, case_sensitive: bool) -> SinkColumns:
        """Return the columns. Raises OptionError if they cannot be found with this setting."""
        columns = self.sensitive if case_sensitive else self.insensitive
        if isinstance(columns, str):
            raise OptionError(columns)
        return columns
