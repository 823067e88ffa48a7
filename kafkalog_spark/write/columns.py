"""Find and check the columns of a DataFrame to write, as Spark's kafka sink does (Spark: KafkaWriter)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.write.time_zone import assume_time_zone

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TEXT = "string or binary"
_HEADERS = "array<struct<key:string,value:binary>>"
_EXPECTED = {"value": _TEXT, "key": _TEXT, "topic": "string", "partition": "int", "headers": _HEADERS}


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The positions of the columns that become records. Other columns are ignored.

    Column names are case-sensitive. If a name occurs several times, the first column is used.

    Attributes:
        records: positions by the names that `encode` expects: value, key, headers, timestamp.
        topic: position of the column topic; None: all records go to the topic of the option.
        partition: position of the column partition; None: no record has an explicit partition.
    """

    records: dict[str, int]
    topic: int | None
    partition: int | None

    @classmethod
    def from_schema(cls, schema: StructType, *, with_topic: bool, with_timestamp: bool) -> SinkColumns:
        """Find the columns in a schema.

        Args:
            with_topic: use the column topic. Without the option `topic` it is required.
            with_timestamp: use the column timestamp, if its type is timestamp or timestamp_ntz.

        Raises OptionError if a column is missing or has an unsupported type.
        """
        positions: dict[str, int] = {}
        for index, field in enumerate(schema.fields):
            positions.setdefault(field.name, index)
        if with_topic and "topic" not in positions:
            raise OptionError(
                "topic option required when no 'topic' attribute is present. Use the topic option for "
                "setting a topic."
            )
        if "value" not in positions:
            raise OptionError("Required attribute 'value' not found")
        for name, expected in _EXPECTED.items():
            if name in positions and (name != "topic" or with_topic):
                _check_type(name, schema.fields[positions[name]].dataType, expected)
        records: dict[str, int] = {
            name: positions[name] for name in ("value", "key", "headers") if name in positions
        }
        if with_timestamp and "timestamp" in positions:
            index = positions["timestamp"]
            data_type = schema.fields[index].dataType
            if data_type.typeName() in ("timestamp", "timestamp_ntz"):
                records["timestamp"] = index
            else:
                logger.warning(
                    "expected column timestamp of type timestamp, found %s; it is ignored, and records get "
                    "the time of the write: cast it to timestamp",
                    data_type.simpleString(),
                )
        return cls(records, positions["topic"] if with_topic else None, positions.get("partition"))

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


def _check_type(name: str, data_type: DataType, expected: str) -> None:
    from pyspark.sql.types import BinaryType, CharType, IntegerType, StringType, VarcharType

    # Like Spark's sink, accept strings of the default collation only.
    is_string = data_type == StringType() or isinstance(data_type, VarcharType | CharType)
    is_supported = {
        _TEXT: is_string or isinstance(data_type, BinaryType),
        "string": is_string,
        "int": isinstance(data_type, IntegerType),
        _HEADERS: data_type.simpleString().lower() == _HEADERS,
    }[expected]
    if not is_supported:
        raise OptionError(
            f"{name} attribute unsupported type {data_type.simpleString()}. {name} must be a(n) {expected}"
        )
