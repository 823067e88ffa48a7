"""Decode Avro values with the schemas in the topic of a schema registry. No registry and no broker runs.

Confluent's serializers write a zero byte and the id of a schema before each value. This needs fastavro.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
from pyspark.sql import SparkSession

from kafkalog_spark import map_in_arrow
from native_log import LogDir
from native_log.producer import KafkaLogProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    Function = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.Table]]

SCHEMAS = "_schemas"
HEADER = ">bI"
HEADER_BYTES = 5
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
ORDER_2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "city", "type": "string", "default": ""}]}


def read_schemas(logs: Path) -> dict[int, Any]:
    """Return the Avro schemas of a registry by id, parsed. Its topic has each version of each subject."""
    records = LogDir(logs).partition(SCHEMAS, 0).read(columns=["value"]).read_all()
    values = [json.loads(value) for value in records.column("value").drop_null().to_pylist()]
    versions = {(each["subject"], each["version"]): each for each in values if "schema" in each}

    def parse(version: dict[str, Any], named: dict[str, Any]) -> Any:
        for reference in version.get("references") or ():
            if reference["name"] not in named:
                parse(versions[reference["subject"], reference["version"]], named)
        return fastavro.parse_schema(json.loads(version["schema"]), named_schemas=named)

    return {
        each["id"]: parse(each, {}) for each in versions.values() if each.get("schemaType", "AVRO") == "AVRO"
    }


def decode_with(schemas: dict[int, Any], columns: pa.Schema) -> Function:
    """Return a function for map_in_arrow that decodes values. Fields that a schema lacks become null."""

    def decode_value(value: bytes) -> Any:
        magic, schema_id = struct.unpack_from(HEADER, value)
        if magic != 0:
            raise ValueError(f"expected a zero byte before the schema id, found {magic}")
        return fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), schemas[schema_id])

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            values = batch.column("value").drop_null().to_pylist()
            yield pa.Table.from_pylist([decode_value(value) for value in values], schema=columns)

    return decode


def fill(logs: Path) -> None:
    """Write a registry's topic, and orders with two versions of a schema, as Confluent's serializer would."""
    with KafkaLogProducer(logs) as producer:
        producer.send(SCHEMAS, key='{"keytype":"NOOP","magic":0}', value=None)
        for number, schema in enumerate((ORDER, ORDER_2), 1):
            name = {"subject": "orders-value", "version": number}
            entry = {**name, "id": number, "schema": json.dumps(schema), "deleted": False}
            producer.send(SCHEMAS, key=json.dumps({"keytype": "SCHEMA", **name}), value=json.dumps(entry))
        for order in range(6):
            schema_id, schema = (1, ORDER) if order < 3 else (2, ORDER_2)
            value = io.BytesIO()
            value.write(struct.pack(HEADER, 0, schema_id))
            fastavro.schemaless_writer(value, schema, {"id": order, "city": "Graz"})
            producer.send("orders", value=value.getvalue())


def read_orders(spark: SparkSession, logs: Path) -> DataFrame:
    """Return the orders as columns."""
    columns = pa.schema([("id", pa.int64()), ("city", pa.string())])
    function = decode_with(read_schemas(logs), columns)
    return map_in_arrow(
        spark, str(logs), function, "id bigint, city string", subscribe="orders", columns="value"
    )


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kafkalog Avro values")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "kafka-logs")
        fill(logs)
        read_orders(spark, logs).orderBy("id").show()
    spark.stop()


if __name__ == "__main__":
    main()
