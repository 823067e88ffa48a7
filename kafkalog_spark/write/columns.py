"""The columns of a DataFrame that is written: what they must be, as for Spark's kafka sink (KafkaWriter)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.write.time_zone import in_zone

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TEXT = "string or binary"
_HEADERS = "array<struct<key:string,value:binary>>"
_EXPECTED = {"value": _TEXT, "key": _TEXT, "topic": "string", "partition": "int", "headers": _HEADERS}


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Where in a row lies what becomes a record; other columns are passed over.

    Names are as they are, in this case; of several columns of one name the first one counts.
    """

    records: dict[str, int]
    """By the name that `encode` knows: value, key, headers, timestamp."""
    topic: int | None
    partition: int | None

    @classmethod
    def of(cls, schema: StructType, *, with_topic: bool, with_timestamp: bool) -> SinkColumns:
        """Raises OptionError.

        Args:
            with_topic: look for the column topic, which an option of that name would overrule.
            with_timestamp: take the records' time from a column `timestamp`, if it has that type.
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
                _check(name, schema.fields[positions[name]].dataType, expected)
        records: dict[str, int] = {
            name: positions[name] for name in ("value", "key", "headers") if name in positions
        }
        if with_timestamp and "timestamp" in positions:
            index = positions["timestamp"]
            kind = schema.fields[index].dataType
            if kind.typeName() in ("timestamp", "timestamp_ntz"):
                records["timestamp"] = index
            else:
                logger.warning(
                    "column timestamp has type %s, and is not taken as the records' time, which is that of "
                    "writing: cast it to timestamp",
                    kind.simpleString(),
                )
        return cls(records, positions["topic"] if with_topic else None, positions.get("partition"))

    def select(self, batch: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
        """What `encode` takes of a batch of rows. Times without a zone (timestamp_ntz) are of `time_zone`."""
        arrays = {name: batch.column(index) for name, index in self.records.items()}
        if "headers" in arrays:
            arrays["headers"] = _named(arrays["headers"])
        if "timestamp" in arrays:
            arrays["timestamp"] = in_zone(arrays["timestamp"], time_zone)
        return pa.RecordBatch.from_arrays([*arrays.values()], [*arrays])


def _named(headers: pa.Array) -> pa.Array:
    """Spark's sink takes headers whose fields are called KEY and VALUE, too."""
    key, value = headers.type.value_type
    return headers.view(pa.list_(pa.struct([("key", key.type), ("value", value.type)])))


def _check(name: str, found: DataType, expected: str) -> None:
    from pyspark.sql.types import BinaryType, CharType, IntegerType, StringType, VarcharType

    # Strings of another collation are not what Spark's sink takes for strings.
    text = found == StringType() or isinstance(found, VarcharType | CharType)
    is_right = {
        _TEXT: text or isinstance(found, BinaryType),
        "string": text,
        "int": isinstance(found, IntegerType),
        _HEADERS: found.simpleString().lower() == _HEADERS,
    }[expected]
    if not is_right:
        raise OptionError(
            f"{name} attribute unsupported type {found.simpleString()}. {name} must be a(n) {expected}"
        )
